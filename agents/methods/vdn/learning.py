"""Value decomposition on options, as an RLlib `Algorithm`.

The value of all that the nodes decide in a round is a sum with one term for each decision (VDN, Sunehag et al. 2018):

    Q(round) = V(state) + sum over decisions of (u(observation, chosen) - max over options u(observation, option))

where u, the utility, is the score of an option by the policy's network. The value of the state is a term of its own, as
in duelling networks (Wang et al. 2016) and QPLEX (Wang et al. 2021, section 3), for two reasons. How many decisions a
round has depends on what is decided, so that a plain sum of utilities would have to change with their number. And the
maximum over all joint decisions of the next round, in which every observation depends on what nodes before have chosen,
is V of its first state; a plain sum would need that round to be played out greedily. Greedy decisions of all nodes have
the highest value together, which is what decomposition is for.

Returns are those above the mean of the other episodes of the same workload (`compares_groups`), which takes away what
depends on the workload alone. What is said above holds for them as it does for returns, since this mean depends on
nothing that the episode's nodes decide.

Rounds are learnt from once, in a few passes, without a replay memory and without a target network, by returns with
eligibility traces (Peng's Q(lambda)), as in PQN (Gallici et al. 2024), which does this for VDN too. Episodes explore by
a softmax over utilities.

Simplifications: V sees the nodes, the cluster and the jobs that the first node of the round has options for. A running
job on another node is seen through that node's row alone. Traces are not cut where exploration was not greedy.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from torch import Tensor

from agents.on_options.advantage import explained_variance, following_decisions, lambda_advantages
from agents.on_options.learner import OptionLearner, OptionModule, critic_values
from agents.on_options.runner import Group, OptionRunner
from agents.on_ray.pieces import PieceAlgorithm, PieceConfig
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.tape import ranges
from agents.problems.options import OptionSetup
from agents.seeding import Phase, derive_seed
from envs.types import FloatArray, IntArray


class DecidedRounds(NamedTuple):
    """Which decisions belong to each round.

    Attributes:
        order: int64[D], all decisions, those of one round together and in the order in which they were taken.
        first, length: int64[R], where those of each round begin in `order`, and how many there are.
        episode: int64[R], ascending.
        time: float64[R], ascending within an episode, in s.
    """

    order: IntArray
    first: IntArray
    length: IntArray
    episode: IntArray
    time: FloatArray

    @classmethod
    def of(cls, episode: IntArray, time: FloatArray) -> "DecidedRounds":
        """Group decisions int64[D] and float64[D] of the same episode and time."""
        order = np.lexsort((time, episode))  # stable: decisions of a round stay in their order
        starts = np.diff(episode[order], prepend=-1) != 0
        starts |= np.diff(time[order], prepend=-1.0) != 0
        first = np.flatnonzero(starts)
        count = np.diff(first, append=len(order))
        return cls(order, first, count, episode[order[first]], time[order[first]])


class VDNLearner(OptionLearner):
    """Squared errors of the values of rounds."""

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Return the mean squared error of the values of rounds; note figures."""
        decisions, scores = batch["decisions"], fwd_out["scores"]
        highest = torch.full((decisions.num_decisions,), -torch.inf)
        highest = highest.scatter_reduce(0, decisions.decision_of, scores, "amax")
        lost = scores[decisions.first + batch["chosen"]] - highest
        of_round = torch.zeros(len(batch["target"])).index_add(0, batch["round_of"], lost)
        values = fwd_out["values"][batch["first"]] + self._setup.settings.utility_scale * of_round
        loss: Tensor = (values - batch["target"]).square().mean()
        self.figures = {
            "value_loss": float(loss.detach()),
            "greedy_fraction": float((lost.detach() == 0).float().mean()),
            "utility_lost": float(-lost.detach().mean()),
        }
        return loss

    def learn(self, played: Mapping[int, Group], iteration: int) -> dict[str, float]:
        """Take the steps of an iteration; return figures to log.

        Raises:
            MurmurationError: a loss is not finite.
        """
        setup: OptionSetup[Any] = self._setup
        settings = setup.settings
        joined = Group.join([played[number] for number in sorted(played)], settings.group_size)
        rows, rounds = Rows.of(joined.lesson), DecidedRounds.of(joined.episode, joined.time)
        target, explained = self._targets(joined, rows, rounds)
        rng = np.random.default_rng(derive_seed(setup.seed, Phase.LEARNING, iteration, 1))
        optimizer = self.get_optimizer(DEFAULT_MODULE_ID)
        for group, lr in zip(optimizer.param_groups, settings.step_sizes(iteration), strict=True):
            group["lr"] = lr
        for _ in range(settings.num_epochs):
            for chosen in np.array_split(rng.permutation(len(target)), settings.num_minibatches):
                if len(chosen):
                    self.take_step(optimizer, self._of_rounds(joined, rows, rounds, target, chosen))
        figures = {
            **self.figures,
            "explained_variance": explained,
            "temperature": settings.temperature_at(iteration),
        }
        return joined.figures | {f"learner/{name}": value for name, value in figures.items()}

    def _targets(self, joined: Group, rows: Rows, rounds: DecidedRounds) -> tuple[FloatArray, float]:
        """Return float64[R], the return that each round should be worth, in the critic's units; explained variance."""
        settings, critic, first = self._setup.settings, self._own.critic, rounds.order[rounds.first]
        returns = joined.lesson.advantage[first]
        critic.observe(torch.from_numpy(returns.astype(np.float32)))
        values = critic_values(critic, joined.lesson, rows, first)
        found = values + lambda_advantages(
            values - returns, rounds.time, following_decisions(rounds.episode), settings.horizon, settings.trace_decay
        )
        return np.asarray((found - float(critic.mean)) / float(critic.scale)), explained_variance(values, returns)

    def _of_rounds(
        self, joined: Group, rows: Rows, rounds: DecidedRounds, target: FloatArray, chosen: IntArray
    ) -> dict[str, Any]:
        """Return some rounds with all their decisions."""
        places, first = ranges(rounds.first[chosen], rounds.length[chosen])
        taken = rounds.order[places]
        return {
            "decisions": gather_decisions(joined.lesson, rows, taken),
            "chosen": torch.from_numpy(joined.lesson.chosen[taken]),
            "round_of": torch.from_numpy(np.repeat(np.arange(len(chosen)), rounds.length[chosen])),
            "first": torch.from_numpy(first),
            "target": torch.from_numpy(target[chosen].astype(np.float32)),
        }


class VDN(PieceAlgorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the workloads, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> "VDNConfig":
        """Return an empty configuration; use `VDNConfig.of`."""
        return VDNConfig(cls)


class VDNConfig(PieceConfig):
    """RLlib's configuration for value decomposition."""

    runner, learner, module, algorithm = OptionRunner, VDNLearner, OptionModule, VDN
