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
from envs.simulation.kernels import END, LOG_FULL
from envs.simulation.market import Market
from envs.types import FloatArray, IntArray


class GpuClusterBatch(EpisodeBatch):
    """`batch_size` independent episodes on one cluster, stepped in one call.

    The other arguments are those of `EpisodeBatch`.

    Args:
        rules: see its class.
        market: proposes the allocation with which each round begins; only with `rules.amendments`. None for the present
            placements.
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
        market: Market | None = None,
    ) -> None:
        super().__init__(setup, models, num_jobs, batch_size, reward, logging)
        self.rules = rules or DecisionRules()
        self.spec = EnvSpec.of(self.cluster, self.rules)
        self.negotiation = Negotiation(setup, self.state, self.spec, self.rules, self.table, self.exact, market)
        self._closed = np.zeros(batch_size, np.bool_)

    @property
    def observation(self) -> Observation:
        """Arrays by name with a leading batch axis, overwritten by the next step. `EnvSpec` gives the shapes."""
        return self.negotiation.observation

    def _use_table(self) -> None:
        self.negotiation.use_table(self.table)
        for b, workload in enumerate(self.workloads):
            if workload is not None:
                self._begin_market(b)

    def _begin(self, b: int) -> None:
        self.negotiation.clear_counters(b)
        self._begin_market(b)
        if self._in_python:
            self._closed[:] = False
            self._closed[b] = True
            self._pass_time(self._closed)
        else:
            self._proceed(b)

    def _begin_market(self, b: int) -> None:
        if self.negotiation.market is not None:
            self.negotiation.market.begin(self.negotiation.arrays.world, b, self.view(b))

    @property
    def _in_python(self) -> bool:
        """Whether rounds begin or close with work that is not compiled: proposals, and prices of named amounts."""
        return self.negotiation.market is not None or self.negotiation.names_amounts

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
        if self._in_python:
            self._closed[:] = True
            kernels.decide_all(self.negotiation.rules, self.negotiation.arrays, 0, self.batch_size, self._closed)
            self._pass_time(self._closed)
        else:
            kernels.step(self.negotiation.rules, self.negotiation.arrays, 0, self.batch_size, True, self._outcomes)
            for b in np.flatnonzero(self._outcomes == LOG_FULL):
                self._proceed(int(b))
        return *self._pay(before), self.ended

    def replay(self, b: int, actions: IntArray) -> None:
        """Apply joint actions int64[T, num_nodes] to one episode alone, as so many steps of the batch would."""
        for joint in actions:
            self.negotiation.set_episode_actions(b, joint)
            if self._in_python:
                self._closed[:] = False
                kernels.decide_all(self.negotiation.rules, self.negotiation.arrays, b, b + 1, self._closed)
                self._pass_time(self._closed)
                continue
            kernels.step(self.negotiation.rules, self.negotiation.arrays, b, b + 1, True, self._outcomes)
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
            kernels.step(self.negotiation.rules, self.negotiation.arrays, b, b + 1, False, self._outcomes)
            if self._outcomes[b] != LOG_FULL:
                return
            self.state.grow_log()
            self.negotiation.use_log()

    def _pass_time(self, closed: npt.NDArray[np.bool_]) -> None:
        """Apply the closed rounds of these episodes; advance each to the next round in which some node has a choice.

        Args:
            closed: bool[B], overwritten.
        """
        negotiation = self.negotiation
        while closed.any():
            waiting = np.flatnonzero(closed).tolist()
            for b in waiting:
                negotiation.price(b)
                self._outcomes[b] = self._next_round(b)
            begun = closed & (self._outcomes != END)
            if negotiation.market is not None and begun.any():
                negotiation.propose(begun)
            for b in waiting:
                closed[b] = negotiation.kernels.observe(negotiation.arrays, b) == 0 and self._outcomes[b] != END
                if closed[b]:
                    negotiation.kernels.close(negotiation.arrays, b)

    def _next_round(self, b: int) -> int:
        """Advance one episode to its next round or its end; return the result code."""
        while True:
            outcome = kernels.leave_round(self.negotiation.arrays, b)
            if outcome != LOG_FULL:
                return outcome
            self.state.grow_log()
            self.negotiation.use_log()

    @contextmanager
    def view_at_round(self, b: int) -> Iterator[SimulationView]:
        """Show an episode to a scheduler as its round began, without the proposal, while the context lasts.

        Raises:
            MurmurationError: nodes have decided in this round, or the episode has not begun.
        """
        with self.negotiation.without_proposal(b):
            yield self.view(b)
