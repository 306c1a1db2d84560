"""Policy gradients on options, as an RLlib `Algorithm`: PPO with a group baseline, a critic or both, and REINFORCE.

With the group baseline several episodes of one workload are each other's: the advantage of a decision is the discounted
cost that the others still had ahead of them at that simulated time, on average, minus its own. The group is that
of REINFORCE with a leave-one-out baseline (Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!") and
of GRPO (Shao et al. 2024, section 4.1); comparing at equal times instead of whole returns is ours. The loss is PPO's
(Schulman et al. 2017, section 3) with an entropy bonus. Discounting is by simulated time (Bradtke and Duff 1994).

A critic gives generalised advantages instead (`baseline=critic`), or corrects those of the group (`both`): it then
learns the return above the group's that its state lets expect, which leaves the gradient unbiased.

Where nodes act together, a decision has a choice of every node, each with a ratio of probabilities and a clip of its
own, and all with the advantage of the decision. Where nodes take turns, each decision is that of one agent, and
temporal differences run from one decision of a node to its next. In both all agents share the weights and the team's
costs. With a critic that sees the node's own observation turns are IPPO (de Witt et al. 2020), with a central one MAPPO
(Yu et al. 2022).

See `agents.on_ray.pieces`: a piece is a workload with its group of episodes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from agents.networks.decisions import segment_log_softmax
from agents.on_options.advantage import explained_variance, following_decisions, lambda_advantages
from agents.on_options.learner import OptionLearner, OptionModule, critic_values, weights_of
from agents.on_options.runner import Group, OptionRunner
from agents.on_ray.pieces import PieceAlgorithm, PieceConfig
from agents.policies.options.lesson import Lesson
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.tape import ranges
from agents.problems.options import OptionSetup
from agents.seeding import Phase, derive_seed
from envs.types import FloatArray, IntArray


class GroupLearner(OptionLearner):
    """PPO's loss on ragged rows of options, and a moving average of the policy's weights over iterations.

    The average is that of Polyak and Juditsky (1992, "Acceleration of stochastic approximation by averaging") with
    weights that fall exponentially. Runners play with the last weights, so it changes nothing in training.
    """

    def build(self) -> None:
        """Build the module, then its average."""
        super().build()
        newest = self._setup.settings.averaging
        self._average = AveragedModel(
            self._own.network,
            avg_fn=lambda mean, value, count: mean + max(newest, 1.0 / (int(count) + 1)) * (value - mean),
        )

    def policy(self) -> dict[str, Tensor]:
        """Return the averaged weights; before the first iteration and without averaging, the network's."""
        averages = self._setup.settings.averaging < 1
        return weights_of(self._average.module) if averages else self.weights()

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return RLlib's state and the average."""
        return {**super().get_state(*args, **kwargs), "average": self._average.state_dict()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from the result of `get_state`."""
        super().set_state(state)
        if "average" in state:
            self._average.load_state_dict(state["average"])

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Return the policy loss minus the bonus on entropy, plus the critic's squared error; note figures."""
        settings, decisions = self._setup.settings, batch["decisions"]
        log_probability = segment_log_softmax(
            fwd_out["scores"] / settings.temperature, decisions.choice_of, len(batch["chosen"])
        )
        place = decisions.first[decisions.choice_decision] + batch["chosen"]
        ratio = torch.exp(log_probability[place] - batch["log_probability"])
        advantage = batch["advantage"]
        clip = torch.inf if settings.clip is None else settings.clip
        clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_probability.exp() * log_probability).sum() / len(batch["chosen"])
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
        return torch.add(loss, value_loss)

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
        lesson = lesson._replace(advantage=in_spreads(lesson.advantage, self._task_of(played)))
        rng = np.random.default_rng(derive_seed(setup.seed, Phase.LEARNING, iteration, 1))
        optimizer = self.get_optimizer(DEFAULT_MODULE_ID)
        for group, lr in zip(optimizer.param_groups, settings.step_sizes(iteration), strict=False):
            group["lr"] = lr
        for _ in range(settings.num_epochs):
            for chosen in np.array_split(rng.permutation(lesson.num_decisions), settings.num_minibatches):
                if len(chosen):
                    self.take_step(optimizer, self._batch(lesson, rows, target, chosen))
        self._average.update_parameters(self._own.network)
        found = joined.figures | {f"learner/{name}": value for name, value in (self.figures | valued).items()}
        return found | {"learner/advantage_spread": spread, "learner/lr": settings.learning_rate(iteration)}

    def _task_of(self, played: Mapping[int, Group]) -> IntArray:
        """Return int64[D], the world of each decision."""
        setup = self._setup
        return np.concatenate([np.full(played[i].lesson.num_decisions, setup.world_of(i)) for i in sorted(played)])

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
        figures = {"explained_variance": explained_variance(values, lesson.advantage)}
        return lesson._replace(advantage=advantage - advantage.mean()), target, figures

    def _batch(self, lesson: Lesson, rows: Rows, target: FloatArray, chosen: IntArray) -> dict[str, Any]:
        """Return some decisions with all their choices."""
        choices, _ = ranges(rows.choices[chosen], lesson.num_choices[chosen])
        advantage = np.repeat(lesson.advantage[chosen], lesson.num_choices[chosen])
        advantage -= self._setup.settings.lost_claims * lesson.lost[choices]
        return {
            "decisions": gather_decisions(lesson, rows, chosen),
            "chosen": torch.from_numpy(lesson.chosen[choices]),
            "log_probability": torch.from_numpy(lesson.log_probability[choices].astype(np.float32)),
            "advantage": torch.from_numpy(advantage.astype(np.float32)),
            "target": torch.from_numpy(target[chosen].astype(np.float32)),
        }


def in_spreads(advantage: FloatArray, task: IntArray) -> FloatArray:
    """Return advantages float64[D] divided by their standard deviation in each task int64[D].

    Without this the tasks whose jobs take the longest would decide alone what is learnt.
    """
    found = np.empty_like(advantage)
    for each in np.unique(task):
        own = task == each
        found[own] = advantage[own] / max(float(advantage[own].std()), 1e-9)
    return found


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

    runner, learner, module, algorithm = OptionRunner, GroupLearner, OptionModule, GroupPPO
