"""Gavel: shares of time on every type of GPU by linear programs, realised in rounds."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baselines.gavel.rounds import Received, choose, fastest_first
from baselines.gavel.shares import Shares, Sharing, finish_time, makespan, max_min, total_speed
from baselines.parts.arrays import gang_sizes
from baselines.parts.estimates import remaining_work
from baselines.parts.grants import capacity_by_type, place_grants
from baselines.parts.pace import ROUNDING, Pace
from baselines.parts.priority import jobs_present
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Samples, Seconds

OBJECTIVES = ("max_min", "makespan", "finish_time", "total_speed", "isolated")


@dataclass
class Deserved:
    """What a job would have had with equal shares, for finish-time fairness.

    Attributes:
        seconds: time that the work done so far would have taken with equal shares.
        work: samples left when shares were computed last.
        speed: samples/s with equal shares then.
    """

    seconds: Seconds
    work: Samples
    speed: float


class Gavel:
    """Heterogeneity-aware fairness, makespan or finish times for gangs (Narayanan et al., OSDI'20).

    An objective over the jobs' effective speeds is optimised over the shares of time that they spend on each type of
    GPU (`baselines.gavel.shares`). In rounds, the jobs that have had least of their shares run: a job's priority on a
    type is its share over the fraction of the type's time that it has received (section 5). Types are filled from the
    fastest on, jobs by priority, gangs that do not fit are passed, and what no share asks for is given away
    nevertheless. A job that goes on on the same type keeps its GPUs.

    Shares are computed anew when jobs have come or gone, at most every `reset_interval`; then received times count
    from zero again, and what is still owed breaks ties. Between rounds running jobs go on, and others start where GPUs
    are idle. Decisions fall where the scenario's rounds fall: for Gavel's own behaviour set
    `scenario.rounds.interval` to `round_length`.

    Beyond the paper: among optimal shares those of the largest sum of gains are taken; a gang larger than every type
    starts on nodes of several when they are free and is never interrupted; one that asks for more GPUs than there are
    counts as one of the most on which it runs. Packing of two jobs on a GPU and
    priority weights are left out.

    Args:
        objective: "max_min" makes the least normalised speed largest (least attained service across types),
            "makespan" the last end earliest, "finish_time" the worst finish-time fairness best, "total_speed" the sum
            of normalised speeds largest, which starves whoever is slow; "isolated" gives equal shares of every type.
            Makespan and finish times need remaining work.
        aware: whether a job's speeds on the types are told apart. If False, every type counts as its fastest one, time
            is split over the types as the GPUs are, and types are filled in random order: Gavel's baselines without
            knowledge of heterogeneity.
        round_length: seconds of a round, over which choices are kept.
        reset_interval: seconds between computations of shares, at least.
        time_limit: wall-clock seconds for each linear program; beyond it equal shares stand in.

    Attributes:
        counters: linear programs solved, and how many of them were not solved in time.
    """

    preemptive = True
    elastic = False

    def __init__(
        self,
        objective: Literal["max_min", "makespan", "finish_time", "total_speed", "isolated"] = "max_min",
        aware: bool = True,
        round_length: Seconds = 360.0,
        reset_interval: Seconds = 1920.0,
        time_limit: Seconds = 10.0,
    ) -> None:
        if objective not in OBJECTIVES:
            raise MurmurationError(f"Gavel: objective is {objective!r}; it must be one of {', '.join(OBJECTIVES)}")
        if not (reset_interval >= 0 and math.isfinite(reset_interval)):
            raise MurmurationError(f"Gavel: reset_interval is {reset_interval} s; it must be finite and not negative")
        if not time_limit > 0:
            raise MurmurationError(f"Gavel: time_limit is {time_limit} s; it must be positive")
        self.objective, self.aware = objective, aware
        self.reset_interval, self.time_limit = reset_interval, time_limit
        self._pace = Pace("Gavel", round_length)
        self.information = "estimate" if objective in ("makespan", "finish_time") else "none"
        self._forget()

    def _forget(self) -> None:
        self._pace.forget()
        self._received = Received(self._pace.round_length / 2)
        self._renewed: Seconds = -math.inf
        self._shared: frozenset[JobId] = frozenset()  # jobs that the shares are for
        self._deserved: dict[JobId, Deserved] = {}
        self.counters = {"linear_programs": 0, "unsolved_programs": 0}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._forget()
        self._rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """The jobs that are furthest behind their shares; between rounds only what is idle is given away.

        Raises:
            MurmurationError: the objective needs remaining work, and the scenario hides it.
        """
        jobs = jobs_present(view)
        sizes = gang_sizes(view, jobs)
        rate = np.array([view.speed(job)[:, size] for job, size in zip(jobs.tolist(), sizes.tolist(), strict=True)])
        if len(jobs):
            rate[:, capacity_by_type(view) == 0] = 0.0  # all its nodes are down
        typed = rate.max(axis=1, initial=0.0) > 0 if len(jobs) else np.zeros(0, np.bool_)
        self._received.advance(view)
        due = self._pace.begin(view.time)
        if due and typed.any():
            self._renew(view, jobs[typed], sizes[typed], rate[typed])
        wish = view.allocation(keep_running=True)
        kinds = fastest_first(rate[typed]) if self.aware else self._rng.permutation(rate.shape[-1]).tolist()
        takes = jobs[typed], sizes[typed], rate[typed] > 0
        chosen = choose(view, wish, *takes, kinds, self._received, keep=not due)
        place_grants(view, wish, chosen, jobs[~typed].tolist())
        self._received.begin(view, wish)
        return wish

    def _renew(self, view: ClusterView, jobs: IntArray, sizes: IntArray, rate: FloatArray) -> None:
        """Compute shares if jobs have come or gone and the last ones have stood long enough."""
        present = frozenset(jobs.tolist())
        if present == self._shared or view.time - self._renewed < self.reset_interval - ROUNDING:
            return
        found = self._optimise(view, jobs, sizes, rate)
        self.counters["linear_programs"] += found.programs
        self.counters["unsolved_programs"] += found.failures
        self._received.renew(view.time, jobs, found.shares)
        self._shared, self._renewed = present, view.time

    def _optimise(self, view: ClusterView, jobs: IntArray, sizes: IntArray, rate: FloatArray) -> Shares:
        capacity = capacity_by_type(view)
        if self.aware:
            return self._shares(view, jobs, Sharing(rate, sizes, capacity, self.time_limit))
        merged = Sharing(rate.max(axis=1, keepdims=True), sizes, capacity.sum(keepdims=True), self.time_limit)
        found = self._shares(view, jobs, merged)
        split = np.where(rate > 0, capacity, 0.0) / np.where(rate > 0, capacity, 0.0).sum(axis=1, keepdims=True)
        return Shares(found.shares * split, found.programs, found.failures)

    def _shares(self, view: ClusterView, jobs: IntArray, sharing: Sharing) -> Shares:
        if self.objective == "max_min":
            return max_min(sharing)
        if self.objective == "isolated":
            return Shares(sharing.isolated, 0, 0)
        if self.objective == "total_speed":
            return total_speed(sharing)
        work = np.maximum(remaining_work(view, jobs, f"Gavel with objective={self.objective}"), 1e-9)
        if self.objective == "makespan":
            return makespan(sharing, work)
        deserved = self._deserve(jobs, work, (sharing.rate * sharing.isolated).sum(axis=1))
        return finish_time(sharing, work, view.time - view.submit_time[jobs], deserved)

    def _deserve(self, jobs: IntArray, work: FloatArray, speed: FloatArray) -> FloatArray:
        """float64[len(jobs)]: seconds from submission to the end with equal shares, as the number of jobs went."""
        whole = np.zeros(len(jobs))
        for place, (job, left, now) in enumerate(zip(jobs.tolist(), work.tolist(), speed.tolist(), strict=True)):
            past = self._deserved.get(job)
            seconds = past.seconds + max(past.work - left, 0.0) / past.speed if past else 0.0
            self._deserved[job] = Deserved(seconds, left, now)
            whole[place] = seconds + left / now
        return whole
