"""The environment for many episodes at once, with observations and masks in preallocated arrays."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from envs.episodes import EpisodeBatch, Reward
from envs.gpu_cluster import kernels
from envs.gpu_cluster.negotiation import Negotiation, Observation
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation import Setup, SimulationView
from envs.simulation.kernels import LOG_FULL
from envs.types import FloatArray, IntArray, MurmurationError


class GpuClusterBatch(EpisodeBatch):
    """`batch_size` independent episodes on one cluster, stepped in one call.

    The other arguments are those of `EpisodeBatch`.

    Args:
        rules: see its class.
    """

    def __init__(
        self,
        setup: Setup,
        models: tuple[str, ...],
        num_jobs: int,
        batch_size: int = 1,
        rules: DecisionRules | None = None,
        reward: Reward | None = None,
        logging: bool = False,
    ) -> None:
        super().__init__(setup, models, num_jobs, batch_size, reward, logging)
        self.rules = rules or DecisionRules()
        self.spec = EnvSpec.of(self.cluster, self.rules)
        self.negotiation = Negotiation(setup, self.state, self.spec, self.rules, self.table)

    @property
    def observation(self) -> Observation:
        """Arrays by name with a leading batch axis, overwritten by the next step. `EnvSpec` gives the shapes."""
        return self.negotiation.observation

    def _use_table(self) -> None:
        self.negotiation.use_table(self.table)

    def _begin(self, b: int) -> None:
        self.negotiation.clear_counters(b)
        self._proceed(b)

    def step(self, actions: IntArray) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Apply a joint action int64[B, num_nodes] in every episode.

        An episode that has ended must be loaded again before the next step.

        Returns:
            rewards float64[B], elapsed simulated seconds float64[B], ended bool[B].

        Raises:
            MurmurationError: the reward is not finite, or is not one number for each episode.
        """
        before = self._totals()
        self.negotiation.set_actions(actions)
        kernels.step(self.negotiation.arrays, 0, self.batch_size, True, self._outcomes)
        for b in np.flatnonzero(self._outcomes == LOG_FULL):
            self._proceed(int(b))
        return *self._pay(before), self.ended

    def replay(self, b: int, actions: IntArray) -> None:
        """Apply joint actions int64[T, num_nodes] to one episode alone, as so many steps of the batch would."""
        for joint in actions:
            self.negotiation.set_episode_actions(b, joint)
            kernels.step(self.negotiation.arrays, b, b + 1, True, self._outcomes)
            if self._outcomes[b] == LOG_FULL:
                self._proceed(b)

    def counters(self, b: int = 0) -> dict[str, int]:
        """Count decisions, claims, conflicts and incomplete gangs of an episode so far."""
        return self.negotiation.counters(b)

    def legal(self, actions: Iterable[int], b: int = 0) -> npt.NDArray[np.bool_]:
        """Return bool[num_nodes]: whether the mask allows each node's action."""
        mask = self.negotiation.arrays.mask[b]
        index = np.fromiter(actions, np.int64)
        inside = (index >= 0) & (index < mask.shape[1])
        allowed: npt.NDArray[np.bool_] = inside & (mask[np.arange(len(index)), np.where(inside, index, 0)] > 0)
        return allowed

    def _proceed(self, b: int) -> None:
        """Apply a closed round and advance time to the next choice."""
        while True:
            kernels.step(self.negotiation.arrays, b, b + 1, False, self._outcomes)
            if self._outcomes[b] != LOG_FULL:
                return
            self.state.grow_log()
            self.negotiation.use_log()

    @contextmanager
    def view_at_round(self, b: int) -> Iterator[SimulationView]:
        """Show an episode to a scheduler as its round began, while the context lasts.

        Raises:
            MurmurationError: nodes have decided in this round, or the episode has not begun.
        """
        if self.negotiation.arrays.rules[b, 0]["decision"] > 0:
            raise MurmurationError(f"episode {b}: nodes have decided in this round; ask before the first decision")
        yield self.view(b)
