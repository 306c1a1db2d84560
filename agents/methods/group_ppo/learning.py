"""PPO with a group baseline on options, as an RLlib `Algorithm`.

Several episodes of one workload are each other's baseline: the advantage of a decision is the discounted cost that the
others still had ahead of them at that simulated time, on average, minus its own. There is no critic. The group is that
of REINFORCE with a leave-one-out baseline (Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!") and
of GRPO (Shao et al. 2024, section 4.1); comparing at equal times instead of whole returns is ours. The loss is PPO's
(Schulman et al. 2017, section 3) with an entropy bonus. Discounting is by simulated time (Bradtke and Duff 1994).

See `agents.on_ray.pieces`: a piece is a workload with its group of episodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from agents.methods.group_ppo.advantage import cost_to_go, leave_one_out_advantages
from agents.methods.group_ppo.settings import GroupPPOSettings
from agents.networks import Blueprint
from agents.networks.decisions import Decisions, segment_log_softmax
from agents.on_ray.pieces import (
    SETUP,
    LocalTraining,
    PieceAlgorithm,
    PieceConfig,
    PieceLearner,
    PieceRunner,
    TrainingOnRay,
)
from agents.policies.options.lesson import Lesson
from agents.policies.options.playing import Player
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.tape import MOMENTS
from agents.problems.options import OptionTask
from agents.seeding import Phase, derive_seed
from envs.episodes import Elapsed, Reward
from envs.options import OptionRules, OptionSpec
from envs.types import FloatArray, MurmurationError


@dataclass(frozen=True)
class GroupSetup:
    """Everything that the parts of a run share.

    Attributes:
        tasks: workloads are drawn from all of them in turn.
        blueprint: the network, which has a method `scores` from `Decisions` to scores of options.
        settings: parameters of the method.
        seed: seed of the run.
        start: weights by name with which training begins.
    """

    tasks: tuple[OptionTask, ...]
    blueprint: Blueprint
    settings: GroupPPOSettings
    seed: int
    start: Mapping[str, Tensor]

    @property
    def spec(self) -> OptionSpec:
        """Sizes of the rows, for which networks are built."""
        return OptionSpec()

    @property
    def num_pieces(self) -> int:
        """Workloads of an iteration."""
        return self.settings.num_workloads

    @property
    def num_env_runners(self) -> int:
        """Processes that play, with Ray."""
        return self.settings.num_env_runners

    def build(self) -> Any:
        """Build the network that training begins with."""
        network = self.blueprint.build(self.spec)
        network.load_state_dict(self.start)
        return network

    def rules(self, iteration: int) -> OptionRules:
        """Return the rules of an iteration."""
        own = self.tasks[0].rules
        return replace(own, changes="start") if self.settings.only_starts(iteration) else own


class GroupPPORunner(PieceRunner):
    """Plays groups of episodes."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._network = self._setup.build()
        self._players: dict[tuple[int, OptionRules], Player] = {}  # by task and rules

    def play(
        self, weights: Mapping[str, Tensor], iteration: int, numbers: Sequence[int]
    ) -> dict[int, tuple[Lesson, dict[str, float]]]:
        """Play the groups of some workloads; return what is learnt from each, and figures."""
        self._network.load_state_dict(weights)
        return {number: self._play_group(iteration, number) for number in numbers}

    def _play_group(self, iteration: int, number: int) -> tuple[Lesson, dict[str, float]]:
        setup: GroupSetup = self._setup
        settings, index = setup.settings, number % len(setup.tasks)
        task, rules = setup.tasks[index], setup.rules(iteration)
        if (index, rules) not in self._players:
            self._players[index, rules] = Player(task.under(rules).batch(settings.group_size))
        player = self._players[index, rules]
        seed = derive_seed(setup.seed, Phase.SAMPLING, iteration, number)
        workload = task.source.episode(np.random.default_rng(seed), "train")
        jct = player.play(
            [workload] * settings.group_size,
            self._network,
            [seed] * settings.group_size,  # the same outages and estimates for all
            temperature=settings.temperature,
            fraction=settings.record_fraction,
        )
        lesson = Lesson.of(player.tape, tape_advantages(player, task.reward, settings.horizon))
        time = player.batch.state.episode["time"][:, 0]
        figures = {
            "train/mean_jct": float(jct.mean()),
            "train/makespan": float((time - workload.jobs["submit_time"][0]).mean()),
            "train/decisions": float(player.tape.arrays.counts[MOMENTS]) / settings.group_size,
        }
        return lesson, figures


def tape_advantages(player: Player, reward: Reward, horizon: float) -> FloatArray:
    """Return the advantage of every moment of a tape, float64[moments], if all its episodes are of one workload."""
    tape, episode = player.tape.arrays, player.batch.state.episode[:, 0]
    count, group = int(tape.counts[MOMENTS]), len(episode)
    of = tape.episode[:count]
    moments = np.bincount(of, minlength=group)
    first = np.concatenate([[0], np.cumsum(moments + 1)])  # each episode has its end as a last instant
    place, ends = np.arange(count) + of, first[1:] - 1
    totals = []
    for noted, field in ((tape.time, "time"), (tape.job_seconds, "job_seconds"), (tape.busy_seconds, "busy_seconds")):
        total = np.empty(first[-1])
        total[place], total[ends] = noted[:count], episode[field]
        totals.append(total)
    cost = np.zeros(first[-1])
    cost[1:] = -np.asarray(reward(Elapsed(*(np.diff(total) for total in totals))))
    cost[first[:-1]] = 0.0  # what lies before the first decision of an episode
    cost = np.cumsum(cost)
    to_go = np.concatenate([cost_to_go(totals[0][a:b], cost[a:b], horizon) for a, b in pairwise(first)])
    found: FloatArray = leave_one_out_advantages(first, totals[0], cost, to_go, group, horizon)[place]
    return found


class GroupModule(TorchRLModule):
    """A network for options as an RLlib module."""

    def setup(self) -> None:
        """Build the network."""
        self.network: Any = self.model_config[SETUP].build()

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"scores": self.network.scores(batch["decisions"])}


class GroupLearner(PieceLearner):
    """PPO's loss on ragged rows of options."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register Adam."""
        weights = list(self.module[module_id].unwrapped().network.parameters())
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam(weights),
            params=weights,
            lr_or_lr_schedule=self._setup.settings.lr,
        )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Return the clipped policy loss minus the bonus on entropy; note figures."""
        settings, decisions = self._setup.settings, batch["decisions"]
        log_probability = segment_log_softmax(
            fwd_out["scores"] / settings.temperature, decisions.decision_of, decisions.num_decisions
        )
        ratio = torch.exp(log_probability[decisions.first + batch["chosen"]] - batch["log_probability"])
        advantage = batch["advantage"]
        clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_probability.exp() * log_probability).sum() / decisions.num_decisions
        self.figures = {
            "policy_loss": float(-gain.detach()),
            "entropy": float(entropy.detach()),
            "kl": float((ratio - 1.0 - ratio.log()).mean().detach()),
            "clip_fraction": float(((ratio - 1.0).abs() > settings.clip).float().mean()),
        }
        loss: Tensor = -gain - settings.entropy * entropy
        return loss

    def learn(self, played: Mapping[int, tuple[Lesson, dict[str, float]]], iteration: int) -> dict[str, float]:
        """Take the steps of an iteration; return figures to log.

        Raises:
            MurmurationError: a loss is not finite.
        """
        setup: GroupSetup = self._setup
        lesson = Lesson.join([played[number][0] for number in sorted(played)])
        spread = float(lesson.advantage.std())
        lesson = lesson._replace(advantage=lesson.advantage / max(spread, 1e-9))
        rng = np.random.default_rng(derive_seed(setup.seed, Phase.LEARNING, iteration, 1))
        optimizer = self.get_optimizer(DEFAULT_MODULE_ID)
        for group in optimizer.param_groups:
            group["lr"] = setup.settings.learning_rate(iteration)
        rows = Rows.of(lesson)
        for _ in range(setup.settings.num_epochs):
            for chosen in np.array_split(rng.permutation(lesson.num_decisions), setup.settings.num_minibatches):
                if len(chosen):
                    self._step(optimizer, gather_decisions(lesson, rows, chosen), lesson, chosen)
        names = sorted({name for _, figures in played.values() for name in figures})
        found = {name: float(np.mean([figures[name] for _, figures in played.values()])) for name in names}
        found |= {f"learner/{name}": value for name, value in self.figures.items()}
        return found | {"learner/advantage_spread": spread, "learner/lr": setup.settings.learning_rate(iteration)}

    def _step(self, optimizer: Any, decisions: Decisions, lesson: Lesson, chosen: Any) -> None:
        settings = self._setup.settings
        batch = {
            "decisions": decisions,
            "chosen": torch.from_numpy(lesson.chosen[chosen]),
            "log_probability": torch.from_numpy(lesson.log_probability[chosen].astype(np.float32)),
            "advantage": torch.from_numpy(lesson.advantage[chosen].astype(np.float32)),
        }
        loss = self.compute_loss_for_module(
            module_id=DEFAULT_MODULE_ID, config=None, batch=batch, fwd_out=self._own._forward(batch)
        )
        if not bool(torch.isfinite(loss)):
            raise MurmurationError(
                f"group_ppo: the loss is {float(loss)}; training has diverged: restart from an earlier checkpoint or "
                "with a lower group_ppo.lr"
            )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._own.network.parameters(), settings.max_grad_norm)
        optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return {name: value.detach().clone() for name, value in self._own.network.state_dict().items()}

    def policy(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return self.weights()


class GroupPPO(PieceAlgorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the workloads, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> "GroupConfig":
        """Return an empty configuration; use `GroupConfig.of`."""
        return GroupConfig(cls)


class GroupConfig(PieceConfig):
    """RLlib's configuration for a `GroupSetup`."""

    runner, learner, module, algorithm = GroupPPORunner, GroupLearner, GroupModule, GroupPPO


class LocalGroupPPO(LocalTraining):
    """Runner and learner in this process, without Ray."""

    def __init__(self, setup: GroupSetup, iteration: int = 0) -> None:
        super().__init__(setup, GroupConfig, iteration)

    def network(self) -> nn.Module:
        """Return a copy of the policy, with the `rules` of the last iteration."""
        network: nn.Module = with_rules(super().network(), self._setup, self._iteration)
        return network


class GroupPPOOnRay(TrainingOnRay):
    """RLlib's `Algorithm` on Ray: several workers, several machines."""

    def __init__(self, setup: GroupSetup, iteration: int = 0) -> None:
        super().__init__(setup, GroupConfig, "trainer.method")

    def network(self) -> nn.Module:
        """Return a copy of the policy, with the `rules` of the last iteration."""
        network: nn.Module = with_rules(super().network(), self._setup, self._algorithm.iteration)
        return network


def with_rules(network: Any, setup: Any, iteration: int) -> Any:
    """Note on a policy the rules of the iteration before this one; see `agents.problems.options.rules_of`."""
    network.rules = setup.rules(max(iteration - 1, 0))  # a note, no weight
    return network
