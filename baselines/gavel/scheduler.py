"""Gavel: shares of time on each GPU type from linear programs, realised in rounds."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baselines.gavel.pairs import PairRule
from baselines.gavel.rounds import (
    Combination,
    TimeReceived,
    choose_grants,
    order_types_by_throughput,
    place_combinations,
)
from baselines.gavel.shares import (
    Sharing,
    TimeShares,
    maximise_least_throughput,
    maximise_total_throughput,
    minimise_finish_time_ratio,
    minimise_makespan,
)
from baselines.parts.arrays import gang_sizes
from baselines.parts.estimates import require_remaining_work
from baselines.parts.grants import capacity_by_type
from baselines.parts.highs import ITERATION_LIMIT
from baselines.parts.priority import jobs_present
from baselines.parts.round_timer import ROUNDING, RoundTimer
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Samples, Seconds

OBJECTIVES = ("max_min", "makespan", "finish_time", "total_throughput", "isolated")


@dataclass
class FairProgress:
    """Progress of a job under equal shares, for finish-time fairness.

    Attributes:
        seconds: time that the work done so far would have taken under equal shares.
        work: samples left when shares were last computed.
        throughput: samples/s under equal shares at that time.
    """

    seconds: Seconds
    work: Samples
    throughput: float


class Gavel:
    """Heterogeneity-aware fairness, makespan or finish times for gangs (Narayanan et al., OSDI'20).

    A linear program chooses the share of time that each job spends on each GPU type, so that an objective over the
    jobs' effective throughputs is optimal (`baselines.gavel.shares`). Each round runs the jobs that are furthest behind
    their shares: a job's priority on a type is its share divided by the fraction of the type's time that it has
    received (section 5). Types are filled from the fastest to the slowest, jobs by priority. A gang that does not fit
    is skipped. GPUs that no share claims are assigned anyway. A job that stays on its type keeps its GPUs. Jobs whose
    priorities, owed times and shares are equal up to rounding are served in the order of submission.

    Shares are recomputed after jobs have arrived or left, at most once per `reset_interval`. Received times then
    restart from zero, and time still owed breaks ties. Between rounds running jobs continue, and others start on idle
    GPUs. The scheduler decides only when the scenario has a round: for Gavel's own behaviour set
    `scenario.rounds.interval` to `round_length`.

    Differences from the paper: among optimal shares the ones with the largest sum of gains are taken. A gang larger
    than every type starts on nodes of several types when they are free, and is never interrupted. A gang that requests
    more GPUs than there are counts as a gang of the most GPUs on which it runs. Priority weights are not implemented.

    With `pairs`, where the scenario lets two jobs share GPUs, two jobs of equal size are a combination with a share of
    its own, and a job's throughput is that over all combinations with it (space sharing, section 3.1). In the program,
    jobs of one model and size count as one class, as in the artifact's program over job types; the time of two classes
    is then divided among few pairs of jobs. Not every pair counts: see `least_together` and `most_partners`. A round
    takes pairs only with their shares, and a job once. The artifact gives pairs no head start until shares are first
    recomputed, so that they go first; here they are as jobs alone are.

    Args:
        objective: "max_min" maximises the least normalised throughput (least attained service across types).
            "makespan" minimises the last finish time. "finish_time" minimises the worst finish-time ratio.
            "total_throughput" maximises the sum of normalised throughputs, which starves slow jobs. "isolated" gives
            equal shares of every type. "makespan" and "finish_time" need remaining work.
        aware: whether a job's throughput differs by type. If False, every type counts as the job's fastest one, time
            is split over the types in proportion to their GPUs, and types are filled in random order: Gavel's
            baselines without knowledge of heterogeneity.
        round_length: seconds of a round; choices are kept for its duration.
        reset_interval: least seconds between two computations of shares.
        iteration_limit: simplex iterations of each linear program; over the limit, equal shares replace its solution.
        pairs: whether two jobs may share GPUs, where the scenario lets them. Needs `aware`; "isolated" makes no pairs.
        least_together: the least sum of the fractions of their throughputs that the two of a pair keep; 1 is what they
            reach in turns, below which the artifact's Gandiva policy separates them.
        most_partners: of each class so many partners count, those with the largest sums; a limit of ours.

    Attributes:
        counters: linear programs started, and how many of them were not solved in time.
    """

    preemptive = True
    elastic = False

    def __init__(
        self,
        objective: Literal["max_min", "makespan", "finish_time", "total_throughput", "isolated"] = "max_min",
        aware: bool = True,
        round_length: Seconds = 360.0,
        reset_interval: Seconds = 1920.0,
        iteration_limit: int = ITERATION_LIMIT,
        pairs: bool = False,
        least_together: float = 1.0,
        most_partners: int = 16,
    ) -> None:
        if objective not in OBJECTIVES:
            raise MurmurationError(f"Gavel: objective is {objective!r}; it must be one of {', '.join(OBJECTIVES)}")
        if not (reset_interval >= 0 and math.isfinite(reset_interval)):
            raise MurmurationError(f"Gavel: reset_interval is {reset_interval} s; it must be finite and not negative")
        if not iteration_limit > 0:
            raise MurmurationError(f"Gavel: iteration_limit is {iteration_limit}; it must be positive")
        if pairs and not aware:
            raise MurmurationError("Gavel: pairs is True and aware False; pairs need aware=True")
        if not (0 < least_together <= 2 and most_partners >= 1):
            raise MurmurationError(
                f"Gavel: least_together is {least_together}, most_partners {most_partners}; the first must be above 0 "
                "and at most 2, the second at least 1"
            )
        self.objective, self.aware = objective, aware
        self.pairs, self.least_together, self.most_partners = pairs, least_together, most_partners
        self.reset_interval, self.iteration_limit = reset_interval, iteration_limit
        self._round_clock = RoundTimer("Gavel", round_length)
        self.information = "estimate" if objective in ("makespan", "finish_time") else "none"
        self._forget()

    def _forget(self) -> None:
        self._round_clock.forget()
        self._received = TimeReceived(self._round_clock.round_length / 2)
        self._renewed: Seconds = -math.inf
        self._shared: frozenset[JobId] = frozenset()  # jobs that the shares are for
        self._deserved: dict[JobId, FairProgress] = {}
        self.counters = {"linear_programs": 0, "unsolved_programs": 0}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._forget()
        self._rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """Run the jobs that are furthest behind their shares; between rounds assign only idle GPUs.

        Raises:
            MurmurationError: the objective needs remaining work, and the scenario hides it.
        """
        jobs = jobs_present(view)
        sizes = gang_sizes(view, jobs)
        sized = zip(jobs.tolist(), sizes.tolist(), strict=True)
        throughput = np.array([view.throughputs(job)[:, size] for job, size in sized])
        if len(jobs):
            throughput[:, capacity_by_type(view) == 0] = 0.0  # all nodes of these types are down
        typed = throughput.max(axis=1, initial=0.0) > 0 if len(jobs) else np.zeros(0, np.bool_)
        self._received.advance(view)
        due = self._round_clock.begin(view.time)
        if due and typed.any():
            self._renew(view, jobs[typed], sizes[typed], throughput[typed])
        allocation = view.allocation(keep_running=True)
        if self.aware:
            gpu_types = order_types_by_throughput(throughput[typed])
        else:
            gpu_types = self._rng.permutation(throughput.shape[-1]).tolist()
        takes = jobs[typed], sizes[typed], throughput[typed] > 0
        chosen = choose_grants(view, allocation, *takes, gpu_types, self._received, keep=not due)
        place_combinations(view, allocation, chosen, jobs[~typed].tolist())
        self._received.begin(view, allocation)
        return allocation

    def _renew(self, view: ClusterView, jobs: IntArray, sizes: IntArray, throughput: FloatArray) -> None:
        """Recompute shares if jobs have arrived or left and the last computation is old enough."""
        present = frozenset(jobs.tolist())
        if present == self._shared or view.time - self._renewed < self.reset_interval - ROUNDING:
            return
        found = self._optimise(view, jobs, sizes, throughput)
        self.counters["linear_programs"] += found.programs
        self.counters["unsolved_programs"] += found.failures
        combinations: list[Combination] = [(job,) for job in jobs.tolist()]
        shares = found.shares
        if len(found.pairs):
            combinations += [(one, other) for one, other in jobs[found.pairs].tolist()]
            shares = np.concatenate([shares, found.pair_shares])
        self._received.renew(view.time, combinations, shares)
        self._shared, self._renewed = present, view.time

    def _optimise(self, view: ClusterView, jobs: IntArray, sizes: IntArray, throughput: FloatArray) -> TimeShares:
        capacity = capacity_by_type(view)
        if self.aware:
            rule = None
            if self.pairs and view.shares_gpus:
                rule = PairRule(view.model[jobs], view.pair_factors, self.least_together, self.most_partners)
            return self._shares(view, jobs, Sharing(throughput, sizes, capacity, self.iteration_limit, rule))
        merged = Sharing(
            throughput.max(axis=1, keepdims=True), sizes, capacity.sum(keepdims=True), self.iteration_limit
        )
        found = self._shares(view, jobs, merged)
        usable = np.where(throughput > 0, capacity, 0.0)
        split = usable / usable.sum(axis=1, keepdims=True)
        return TimeShares(found.shares * split, found.programs, found.failures)

    def _shares(self, view: ClusterView, jobs: IntArray, sharing: Sharing) -> TimeShares:
        if self.objective == "max_min":
            return maximise_least_throughput(sharing)
        if self.objective == "isolated":
            return TimeShares(sharing.isolated, 0, 0)
        if self.objective == "total_throughput":
            return maximise_total_throughput(sharing)
        work = np.maximum(require_remaining_work(view, jobs, f"Gavel with objective={self.objective}"), 1e-9)
        if self.objective == "makespan":
            return minimise_makespan(sharing, work)
        deserved = self._deserve(jobs, work, (sharing.throughput * sharing.isolated).sum(axis=1))
        return minimise_finish_time_ratio(sharing, work, view.time - view.submit_time[jobs], deserved)

    def _deserve(self, jobs: IntArray, work: FloatArray, throughput: FloatArray) -> FloatArray:
        """float64[len(jobs)]: seconds from submission to the end under equal shares of the jobs present over time."""
        whole = np.zeros(len(jobs))
        for place, (job, left, now) in enumerate(zip(jobs.tolist(), work.tolist(), throughput.tolist(), strict=True)):
            past = self._deserved.get(job)
            seconds = past.seconds + max(past.work - left, 0.0) / past.throughput if past else 0.0
            self._deserved[job] = FairProgress(seconds, left, now)
            whole[place] = seconds + left / now
        return whole
