"""Policy gradients on options, as an RLlib `Algorithm`: PPO with a group baseline, a critic or both, and REINFORCE.

With the group baseline several episodes of one workload are each other's: the advantage of a decision is the discounted
cost that the others still had ahead of them at that simulated time, on average, minus its own. The group is that
of REINFORCE with a leave-one-out baseline (Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!") and
of GRPO (Shao et al. 2024, section 4.1); comparing at equal times instead of whole returns is ours. The loss is PPO's
(Schulman et al. 2017, section 3) with an entropy bonus. Discounting is by simulated time (Bradtke and Duff 1994).

A critic gives generalised advantages instead (`baseline=critic`), or corrects those of the group (`both`): it then
learns the return above the group's that its state lets expect, which leaves the gradient unbiased.

Where nodes take turns, each decision is that of one agent. Its ratio of probabilities is clipped by itself, all agents
share the weights and the team's costs, and temporal differences run from one decision of a node to its next. With a
critic that sees the node's own observation this is IPPO (de Witt et al. 2020), with a central one MAPPO (Yu et al.
2022).

See `agents.on_ray.pieces`: a piece is a workload with its group of episodes.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from agents.methods.group_ppo.advantage import following_decisions, lambda_advantages
from agents.methods.group_ppo.runner import Group, GroupPPORunner
from agents.networks.decisions import segment_log_softmax
from agents.networks.option_critic import OptionCritic
from agents.on_ray.pieces import SETUP, LocalTraining, PieceAlgorithm, PieceConfig, PieceLearner, TrainingOnRay
from agents.policies.options.lesson import Lesson
from agents.policies.options.rows import Rows, gather_decisions
from agents.problems.options import OptionSetup
from agents.seeding import Phase, derive_seed
from envs.types import FloatArray, IntArray, MurmurationError


class OptionModule(TorchRLModule):
    """A network for options as an RLlib module."""

    def setup(self) -> None:
        """Build the network."""
        self.critic: OptionCritic | None = None
        self.network: Any = self.model_config[SETUP].build()

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        found = {"scores": self.network.scores(batch["decisions"])}
        return found if self.critic is None else found | {"values": self.critic(batch["decisions"])}


class GroupModule(OptionModule):
    """The same with the critic if there is one."""

    def setup(self) -> None:
        """Build the network and the critic, whose weights follow from the seed of the run."""
        super().setup()
        setup = self.model_config[SETUP]
        if setup.settings.has_critic:
            self.critic = seeded_critic(setup)


def seeded_critic(setup: OptionSetup[Any]) -> OptionCritic:
    """Build a critic with random weights that follow from the seed of the run."""
    settings = setup.settings
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(setup.seed, Phase.LEARNING, 0, 2))
        return OptionCritic(setup.spec, settings.critic_hidden, own=settings.critic == "own")


class GroupLearner(PieceLearner):
    """PPO's loss on ragged rows of options."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register Adam, with the critic's weights as a second group."""
        own = self.module[module_id].unwrapped()
        parts = [list(part.parameters()) for part in (own.network, own.critic) if part is not None]
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam([{"params": part} for part in parts]),
            params=[weight for part in parts for weight in part],
            lr_or_lr_schedule=self._setup.settings.lr,
        )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Return the policy loss minus the bonus on entropy, plus the critic's squared error; note figures."""
        settings, decisions = self._setup.settings, batch["decisions"]
        log_probability = segment_log_softmax(
            fwd_out["scores"] / settings.temperature, decisions.decision_of, decisions.num_decisions
        )
        ratio = torch.exp(log_probability[decisions.first + batch["chosen"]] - batch["log_probability"])
        advantage = batch["advantage"]
        clip = torch.inf if settings.clip is None else settings.clip
        clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_probability.exp() * log_probability).sum() / decisions.num_decisions
        self.figures = {
            "policy_loss": float(-gain.detach()),
            "entropy": float(entropy.detach()),
            "kl": float((ratio - 1.0 - ratio.log()).mean().detach()),
            "clip_fraction": float(((ratio - 1.0).abs() > clip).float().mean()),
        }
        loss: Tensor = -gain - settings.entropy * entropy
        if self._own.critic is None:
            return loss
        value_loss = (fwd_out["values"] - batch["target"]).square().mean()
        self.figures["value_loss"] = float(value_loss.detach())
        return loss + value_loss

    def learn(self, played: Mapping[int, Group], iteration: int) -> dict[str, float]:
        """Take the steps of an iteration; return figures to log.

        Raises:
            MurmurationError: a loss is not finite.
        """
        setup: OptionSetup[Any] = self._setup
        settings = setup.settings
        joined = Group.join([played[number] for number in sorted(played)], settings.group_size)
        rows = Rows.of(joined.lesson)
        lesson, target, valued = self._judged(joined, rows, iteration)
        spread = float(lesson.advantage.std())
        lesson = lesson._replace(advantage=lesson.advantage / max(spread, 1e-9))
        rng = np.random.default_rng(derive_seed(setup.seed, Phase.LEARNING, iteration, 1))
        optimizer = self.get_optimizer(DEFAULT_MODULE_ID)
        for group, lr in zip(optimizer.param_groups, settings.learning_rates(iteration), strict=False):
            group["lr"] = lr
        for _ in range(settings.num_epochs):
            for chosen in np.array_split(rng.permutation(lesson.num_decisions), settings.num_minibatches):
                if len(chosen):
                    self.take_step(optimizer, self._batch(lesson, rows, target, chosen))
        found = joined.figures | {f"learner/{name}": value for name, value in (self.figures | valued).items()}
        return found | {"learner/advantage_spread": spread, "learner/lr": settings.learning_rate(iteration)}

    def _judged(self, joined: Group, rows: Rows, iteration: int) -> tuple[Lesson, FloatArray, dict[str, float]]:
        """Return the lesson with its final advantages, what the critic should have said, and figures."""
        settings, lesson = self._setup.settings, joined.lesson
        if settings.baseline == "group":
            return lesson, lesson.advantage, {}
        if self._own.critic is None:
            return lesson._replace(advantage=lesson.advantage - lesson.advantage.mean()), lesson.advantage, {}
        critic, returns = self._own.critic, torch.from_numpy(lesson.advantage.astype(np.float32))
        critic.observe(returns)
        values = critic_values(critic, lesson, rows, np.arange(lesson.num_decisions))
        agent = joined.episode
        if self._setup.rules(iteration).turn == "turns":
            agent = agent * int(lesson.num_nodes.max()) + deciding_nodes(lesson, rows)
        advantage = lambda_advantages(
            values - lesson.advantage,
            joined.time,
            following_decisions(agent),
            settings.horizon,
            settings.gae_lambda,
        )
        target = critic.normalised(torch.from_numpy((values + advantage).astype(np.float32))).numpy()
        unexplained = float(np.var(values - lesson.advantage) / max(np.var(lesson.advantage), 1e-9))
        return lesson._replace(advantage=advantage - advantage.mean()), target, {"explained": 1.0 - unexplained}

    def _batch(self, lesson: Lesson, rows: Rows, target: FloatArray, chosen: IntArray) -> dict[str, Any]:
        """Return some decisions."""
        return {
            "decisions": gather_decisions(lesson, rows, chosen),
            "chosen": torch.from_numpy(lesson.chosen[chosen]),
            "log_probability": torch.from_numpy(lesson.log_probability[chosen].astype(np.float32)),
            "advantage": torch.from_numpy(lesson.advantage[chosen].astype(np.float32)),
            "target": torch.from_numpy(target[chosen].astype(np.float32)),
        }

    def take_step(self, optimizer: Any, batch: dict[str, Any]) -> None:
        """Take one step of Adam from a batch.

        Raises:
            MurmurationError: the loss is not finite.
        """
        settings = self._setup.settings
        loss = self.compute_loss_for_module(
            module_id=DEFAULT_MODULE_ID, config=None, batch=batch, fwd_out=self._own._forward(batch)
        )
        if not bool(torch.isfinite(loss)):
            raise MurmurationError(
                f"{settings.name}: the loss is {float(loss)}; training has diverged: restart from an earlier "
                f"checkpoint or with a lower {settings.name}.lr"
            )
        optimizer.zero_grad()
        loss.backward()
        for part in optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(part["params"], settings.max_grad_norm)
        optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return {name: value.detach().clone() for name, value in self._own.network.state_dict().items()}

    def policy(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return self.weights()


@torch.no_grad()
def critic_values(critic: OptionCritic, lesson: Lesson, rows: Rows, chosen: IntArray, size: int = 8192) -> FloatArray:
    """Return float64[len(chosen)], the estimates of a critic for some decisions, computed `size` at a time."""
    parts = [
        critic.returns(critic(gather_decisions(lesson, rows, chosen[k : k + size])))
        for k in range(0, len(chosen), size)
    ]
    return torch.cat(parts).double().numpy()


def deciding_nodes(lesson: Lesson, rows: Rows) -> IntArray:
    """Return int64[D], the node whose turn each decision is, if nodes take turns."""
    found: IntArray = np.maximum.reduceat(lesson.node_of, rows.options)
    return found


class GroupPPO(PieceAlgorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the workloads, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> "GroupConfig":
        """Return an empty configuration; use `GroupConfig.of`."""
        return GroupConfig(cls)


class GroupConfig(PieceConfig):
    """RLlib's configuration for policy gradients."""

    runner, learner, module, algorithm = GroupPPORunner, GroupLearner, GroupModule, GroupPPO


class LocalPolicyTraining(LocalTraining):
    """Runner and learner in this process, without Ray.

    Attributes:
        config: the classes to connect.
    """

    config: ClassVar[type[PieceConfig]] = GroupConfig

    def __init__(self, setup: OptionSetup[Any]) -> None:
        super().__init__(setup, self.config)

    def network(self) -> nn.Module:
        """Return a copy of the policy, with the `rules` of the last iteration."""
        network: nn.Module = with_rules(super().network(), self._setup, self._iteration)
        return network


class PolicyTrainingOnRay(TrainingOnRay):
    """RLlib's `Algorithm` on Ray: several workers, several machines.

    Attributes:
        config: the classes to connect.
    """

    config: ClassVar[type[PieceConfig]] = GroupConfig

    def __init__(self, setup: OptionSetup[Any]) -> None:
        super().__init__(setup, self.config, "trainer.method")

    def network(self) -> nn.Module:
        """Return a copy of the policy, with the `rules` of the last iteration."""
        network: nn.Module = with_rules(super().network(), self._setup, self._algorithm.iteration)
        return network


def with_rules(network: Any, setup: Any, iteration: int) -> Any:
    """Note on a policy the rules of the iteration before this one; see `agents.problems.options.rules_of`."""
    network.rules = setup.rules(max(iteration - 1, 0))  # a note, no weight
    return network
