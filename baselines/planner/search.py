"""The search of one round: proposals of schedulers, then local changes of the best candidate, judged by rollouts."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from baselines.planner.changes import LocalChanges
from baselines.planner.rollouts import Rollouts
from baselines.planner.round_placements import Key, RoundPlacements
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Snapshot
from envs.simulation.seen.replica import Replica
from envs.types import Allocation, ClusterSpec, MurmurationError

ROUNDING = 1e-9  # a smaller share of a value is rounding
Copies = tuple[Snapshot, Snapshot] | tuple[Replica, Replica]  # of a round, and one to play on
DRAWS = 4  # local changes drawn for each rollout at most, since some are known already or are refused
PROPOSALS, LOCAL_CHANGES = "chosen_proposals", "chosen_local_changes"  # counters


@dataclass(frozen=True, slots=True)
class Budget:
    """The effort of one decision.

    Attributes:
        rollouts: most rollouts, that of the base scheduler's allocation included; below 2 nothing is compared.
        milliseconds: most wall-clock time; None for no limit. With a limit, results depend on the machine.

    Raises:
        MurmurationError: one of them is negative.
    """

    rollouts: int
    milliseconds: float | None = None

    def __post_init__(self) -> None:
        if self.rollouts < 0 or (self.milliseconds is not None and self.milliseconds < 0):
            raise MurmurationError(
                f"planner: the budget is {self.rollouts} rollouts and {self.milliseconds} ms; neither may be negative"
            )

    @property
    def compares(self) -> bool:
        """Whether it is enough to compare two candidates."""
        return self.rollouts > 1 and self.milliseconds != 0

    def deadline(self) -> float:
        """Return the time of `time.perf_counter` at which a decision that begins now must end."""
        return float("inf") if self.milliseconds is None else time.perf_counter() + 1e-3 * self.milliseconds


class Search:
    """Chooses the best of several candidates for each round; belongs to one planner.

    Args:
        proposers: further schedulers whose allocations are compared; those that refuse the scenario are left out.
        rollouts: values a candidate.
        budget: the effort for each decision.
        share: the largest share of the budget that proposals use; local changes use the rest.
        margin: the share of the value of the base's allocation by which a candidate must be better than the best one.

    Raises:
        MurmurationError: `share` or `margin` is not between 0 and 1.

    Attributes:
        counters: rollouts so far, and decisions for a proposal or a local change instead of the base's allocation.
    """

    def __init__(
        self,
        proposers: Sequence[Scheduler],
        rollouts: Rollouts,
        budget: Budget,
        share: float,
        margin: float,
    ) -> None:
        for name, value in (("share", share), ("margin", margin)):
            if not 0 <= value <= 1:
                raise MurmurationError(f"planner: {name} is {value}; it must be between 0 and 1")
        self.proposers, self.rollouts, self.budget, self.share = tuple(proposers), rollouts, budget, share
        self.margin = margin
        self.counters: dict[str, int] = {}
        self._able: list[Scheduler] = []
        self._rng = np.random.default_rng(0)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode; local changes are drawn from `rng`."""
        self._rng, self._able = rng, list(self.proposers)
        self.counters = {"rollouts": 0, PROPOSALS: 0, LOCAL_CHANGES: 0}
        for scheduler in self.proposers:
            scheduler.reset(cluster, rng)
        self.rollouts.reset(cluster, rng)

    def choose(self, view: ClusterView, base: Allocation, copies: Copies) -> Allocation:
        """Return the best allocation found; `base` unless a better one is.

        Args:
            view: the round.
            base: the base scheduler's allocation.
            copies: a copy of this round, and another one to be overwritten.
        """
        deadline, present = self.budget.deadline(), RoundPlacements.present(view)
        best, chosen, source = present.with_allocation(base), base, ""
        self.rollouts.begin(later_jobs=isinstance(copies[0], Replica))
        value = self._value(base, copies)
        if value is None:
            return base
        least = max(self.margin, ROUNDING) * value
        seen: set[Key] = {best.key}
        proposals, local = self._proposals(view, present), LocalChanges(view, present, best)
        draws = DRAWS * self.budget.rollouts
        while draws and self.rollouts.count < self.budget.rollouts and time.perf_counter() < deadline:
            early = self.rollouts.count <= self.share * self.budget.rollouts
            candidate, origin = next(proposals, None) if early else None, PROPOSALS
            if candidate is None:
                candidate, origin, draws = local.draw(best, self._rng), LOCAL_CHANGES, draws - 1
            if candidate is None or candidate.key in seen:
                continue
            seen.add(candidate.key)
            allocation = candidate.allocation(view, present)
            allocation.next_decision = base.next_decision
            found = self._value(allocation, copies)
            if found is not None and value - found > least:
                best, chosen, value, source = candidate, allocation, found, origin
        self.counters["rollouts"] += self.rollouts.count
        if source:
            self.counters[source] += 1
        return chosen

    def _value(self, allocation: Allocation, copies: Copies) -> float | None:
        """Return the value of an allocation, played on the second copy; None if it is refused."""
        root, trial = copies
        trial.copy_from(root)  # type: ignore[arg-type]  # both are of one type
        return self.rollouts.play(trial, allocation)

    def _proposals(self, view: ClusterView, present: RoundPlacements) -> Iterator[RoundPlacements]:
        """Yield what the jobs hold now, and what the other schedulers would allocate."""
        if not present.is_idle():
            yield present
        for scheduler in list(self._able):
            try:
                allocation = scheduler.schedule(view)
            except MurmurationError:  # it needs to know more than the scenario reveals
                self._able.remove(scheduler)
                continue
            candidate = present.with_allocation(allocation)
            if not candidate.is_idle():
                yield candidate
