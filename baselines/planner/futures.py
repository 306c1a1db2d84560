"""The futures in which the plans of one round are compared: without further arrivals, or with several drawn ones."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baselines.planner.arrivals import ArrivalModel
from baselines.planner.rollouts import Rollouts
from envs.scheduling import ClusterView
from envs.simulation import Snapshot
from envs.simulation.replica import Replica
from envs.types import Allocation, ClusterSpec, FloatArray, MurmurationError

Copies = tuple[Snapshot, Snapshot] | tuple[Replica, Replica]  # of a round, and one to play on


@dataclass(frozen=True, slots=True)
class DrawnFutures:
    """How many futures are drawn in a round, and when one plan counts as better than another.

    Attributes:
        number: of futures; at most half of the rollouts of a decision, so that it compares two plans.
        caution: standard errors by which a plan must be better on average.

    Raises:
        MurmurationError: `number` is below 1, or `caution` is negative or no number.
    """

    number: int = 4
    caution: float = 1.5

    def __post_init__(self) -> None:
        if self.number < 1:
            raise MurmurationError(f"planner: arrivals.number is {self.number}; it must be at least 1")
        if not 0 <= self.caution < np.inf:
            raise MurmurationError(f"planner: arrivals.caution is {self.caution}; it must be at least 0")


class Futures:
    """Copies of one round to which different jobs to come are added; every plan is played on each of them.

    The arrivals of a future are the same for all plans, so what differs between two plans is their own doing.

    Args:
        rollouts: values a plan in one future.
        drawn: how they are drawn, from `ArrivalModel`; None plays once, without further arrivals.
    """

    def __init__(self, rollouts: Rollouts, drawn: DrawnFutures | None) -> None:
        self.arrivals = ArrivalModel() if drawn else None
        self.number, self.caution = (drawn.number, drawn.caution) if drawn else (0, 0.0)
        # Each future has jobs of its own, so that no scheduler may carry what it knows of them to the next one.
        self._players = [rollouts, *(copy.deepcopy(rollouts) for _ in range(self.number))]
        self._roots: list[Snapshot] = []
        self._drawn = 0
        self._copies: Copies | None = None

    @property
    def players(self) -> Sequence[Rollouts]:
        """What plays without further arrivals, then what plays each future."""
        return self._players

    @property
    def count(self) -> int:
        """Rollouts so far in this round."""
        return sum(player.count for player in self._players)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        for player in self._players:
            player.reset(cluster, rng)
        if self.arrivals is not None:
            self.arrivals.reset()
        self._roots = []

    def begin(
        self,
        view: ClusterView,
        base: Allocation,
        copies: Copies,
        assumed: FloatArray | None,
        rng: np.random.Generator,
        most: int,
    ) -> FloatArray | None:
        """Draw the futures of a round, up to the horizon that the base's allocation sets.

        Args:
            view: the round.
            base: the base scheduler's allocation.
            copies: a copy of this round, and another one to be overwritten.
            assumed: float64[num_submitted], samples left where the scenario hides them.
            rng: futures are drawn from it.
            most: the most futures that are drawn.

        Returns:
            float64[futures]: the base's value in each, or None if its allocation is refused.
        """
        self._copies, self._drawn = copies, 0
        root, trial = copies
        for player in self._players:
            player.begin(later_jobs=self.arrivals is not None or isinstance(root, Replica))
        trial.copy_from(root)  # type: ignore[arg-type]  # both are of one type
        alone = self._players[0].play(trial, base)
        if alone is None:
            return None
        if self.arrivals is None or not isinstance(root, Snapshot):
            return np.array([alone])
        self.arrivals.observe(view, assumed)
        self._draw(view, root, rng, min(self.number, most))
        return self.values(base) if self._drawn else np.array([alone])

    def values(self, allocation: Allocation, best: FloatArray | None = None) -> FloatArray | None:
        """Return float64[futures], the value of an allocation in each.

        Args:
            allocation: what is decided in this round.
            best: values of the best plan so far. If the allocation is no better in the first half of the futures, the
                others are not played.

        Returns:
            None if the allocation is refused, or is behind after the first half.
        """
        assert self._copies is not None, "call begin first"
        trial = self._copies[1]
        roots: Sequence[Snapshot | Replica] = self._roots[: self._drawn] or [self._copies[0]]
        players = self._players[1:] if self._drawn else self._players
        values = np.zeros(len(roots))
        for k, root in enumerate(roots):
            trial.copy_from(root)  # type: ignore[arg-type]  # both are of one type
            value = players[k].play(trial, allocation)
            if value is None:
                return None
            values[k] = value
            if best is not None and k + 1 == len(roots) // 2 and values[: k + 1].sum() >= best[: k + 1].sum():
                return None
        return values

    def mean_gain(self, gains: FloatArray) -> float:
        """Return a plan's mean gain over another one, less `caution` standard errors; float64[futures]: its gains."""
        error = float(gains.std(ddof=1)) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
        return float(gains.mean()) - self.caution * error

    def _draw(self, view: ClusterView, root: Snapshot, rng: np.random.Generator, number: int) -> None:
        """Add the arrivals of each future to a copy of the round; none if too little is known of them."""
        assert self.arrivals is not None
        until = self._players[0].until
        if not self.arrivals.knows(view, until):
            return
        while len(self._roots) < number:
            self._roots.append(Snapshot(root.setup, root.table))
        for future, player in zip(self._roots[:number], self._players[1:], strict=False):
            future.copy_from(root)
            jobs = self.arrivals.draw(view, until, rng)
            if jobs:
                future.add_arrivals(jobs)
            player.forget_jobs(view.cluster, rng)  # others had the ids of these
            player.share_horizon(self._players[0])
        self._drawn = number
