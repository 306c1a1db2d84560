"""Sampling-based matching: sizes by sampled categories, workers by a market, over several GPU types at once."""

import math

import numpy as np

from baselines.sampling_matching.placing import place_others, place_plan
from baselines.sampling_matching.round import GangSpeeds, Round, round_of, those_that_fit
from baselines.sampling_matching.search import Plan, Sampling, best_plan
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, MurmurationError, Seconds


class SamplingMatching:
    """Multi-job placement by sampled categories and matching markets (TPDS'24, doi 10.1109/TPDS.2024.3390109), online.

    A reconstruction: the paper's body is not public. Its parts are the proportional split of mini-batches over unequal
    workers, categories (how many workers each job gets), a market for each category in which jobs buy workers, and
    sampling of the categories with priority for heavy jobs. See `problem`, `categories`,
    `market`, `search`.

    The paper decides once for a fixed set of jobs. Here every round is such a decision over the jobs that run or wait:

    - more jobs than workers: those with the fewest GPU-seconds to go are let in, the others wait;
    - migration: what differs from the present costs its restart, and one candidate is the present plan with as little
      change as newcomers need, so jobs move only if that pays;
    - greedy growth and exchanges between jobs, which are ours, stand beside sampling; the best candidate is played.

    It takes workers of several types to share the mini-batch in proportion to speed, the scenario's default.

    Args:
        sampling: how categories are drawn.
        restart_cost: seconds that a resize, a migration or a restart costs; if None, what the view says in
            `restart_delay`.
        shortness: 0 is the paper's objective, the sum of completion times; larger values serve short jobs first, which
            matters where others will come or wait.
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
        self._rng = np.random.default_rng(0)  # until `reset` gives one
        self._speeds = GangSpeeds()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the last episode; categories are drawn from `rng`."""
        self._rng = rng
        self._speeds = GangSpeeds()

    def schedule(self, view: ClusterView) -> Allocation:
        """The best of the candidate plans, placed on nodes; what is left over goes to whoever waits.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        self._speeds.look_up(view)
        wish = view.allocation(keep_running=True)
        this = round_of(view, self._speeds, type(self).__name__, self.shortness, self.restart_cost)
        this, plan = self._decide(this)
        if plan is None:
            place_others(view, wish, this.order.tolist())
        else:
            place_plan(view, wish, this, plan.counts)
        return wish

    def _decide(self, this: Round) -> tuple[Round, Plan | None]:
        """The best plan for a round, of fewer jobs if GPU types do not suffice for all; None if for nobody."""
        if this.problem is None:
            return this, None
        plan = best_plan(this.problem, self._rng, self.sampling)
        if math.isinf(plan.worth):
            this = those_that_fit(this)
            plan = best_plan(this.problem, self._rng, self.sampling) if this.problem else plan
        return this, plan if math.isfinite(plan.worth) else None
