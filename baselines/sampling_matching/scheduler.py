"""Sampling-based matching: sizes from sampled categories, workers from an assignment, over several GPU types."""

import math

import numpy as np

from baselines.sampling_matching.placing import place_matching, place_others
from baselines.sampling_matching.round import GangThroughputs, MatchingRound, drop_unplaceable, round_of
from baselines.sampling_matching.search import Matching, Sampling, best_matching
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, MurmurationError, Seconds


class SamplingMatching:
    """Multi-job placement by sampled categories and assignments (TPDS'24, doi 10.1109/TPDS.2024.3390109), online.

    A reconstruction: the paper's body is not public. Its parts are the proportional split of mini-batches over unequal
    workers, categories (numbers of workers per job), an assignment for each category, in which jobs buy workers (a
    "matching market"), and sampling of the categories with priority for heavy jobs. See `problem`, `categories`,
    `kernels`, `search`.

    The paper decides once for a fixed set of jobs. Here every round is such a decision over the jobs that run or wait:

    - If there are more jobs than workers, those with the fewest remaining GPU-seconds are admitted; the others wait.
    - Each change of a running job's GPUs costs a restart. One candidate is the present matching with the least change
      that new jobs need, so jobs move only if moving pays off.
    - Greedy growth and exchanges between jobs, which are ours, give further candidates; the best candidate is used.

    Jobs of one model often gain equally from a worker. Gains that are equal up to rounding count as equal everywhere,
    and the job submitted first, or the candidate found first, is taken.

    It assumes that workers of several types share the mini-batch in proportion to throughput, the scenario's default.

    Args:
        sampling: settings of the category sampling.
        restart_cost: seconds that a resize, a migration or a restart costs; if None, the view's `restart_delay`.
        shortness: 0 is the paper's objective, the sum of completion times; larger values serve short jobs first, which
            helps when jobs wait or will arrive.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(
        self, sampling: Sampling | None = None, restart_cost: Seconds | None = None, shortness: float = 1.0
    ) -> None:
        if restart_cost is not None and not (restart_cost >= 0 and math.isfinite(restart_cost)):
            raise MurmurationError(
                f"SamplingMatching: restart_cost is {restart_cost} s; it must be finite and not negative, or null"
            )
        if not (shortness >= 0 and math.isfinite(shortness)):
            raise MurmurationError(f"SamplingMatching: shortness is {shortness}; it must be finite and not negative")
        self.sampling = sampling or Sampling()
        self.restart_cost = restart_cost
        self.shortness = shortness
        self._rng = np.random.default_rng(0)  # replaced by `reset`
        self._gang_throughputs = GangThroughputs()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the last episode; categories are drawn from `rng`."""
        self._rng = rng
        self._gang_throughputs = GangThroughputs()

    def schedule(self, view: ClusterView) -> Allocation:
        """Place the best matching on nodes; left-over GPUs go to waiting jobs.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        self._gang_throughputs.look_up(view)
        allocation = view.allocation(keep_running=True)
        this = round_of(view, self._gang_throughputs, type(self).__name__, self.shortness, self.restart_cost)
        this, matching = self._decide(this)
        if matching is None:
            place_others(view, allocation, this.order.tolist())
        else:
            place_matching(view, allocation, this, matching.counts)
        return allocation

    def _decide(self, this: MatchingRound) -> tuple[MatchingRound, Matching | None]:
        """The best matching for a round, with fewer jobs if GPU types do not suffice for all; None without jobs."""
        if this.problem is None:
            return this, None
        matching = best_matching(this.problem, self._rng, self.sampling)
        if math.isinf(matching.worth):
            this = drop_unplaceable(this)
            matching = best_matching(this.problem, self._rng, self.sampling) if this.problem else matching
        return this, matching if math.isfinite(matching.worth) else None
