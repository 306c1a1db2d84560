"""Themis: auctions of GPUs among the worst treated jobs, by finish-time fairness."""

import math
from dataclasses import dataclass

import numpy as np

from baselines.parts.choosing import NODE_LIMIT, SizeChoice, Solver
from baselines.parts.estimates import remaining_time, require_remaining_work
from baselines.parts.grants import Grant, free_by_type, held_grants, pack_grant
from baselines.parts.offers import Offer, OfferCache
from baselines.parts.options import Options
from baselines.parts.prices import best_prices, useful_options
from baselines.parts.priority import jobs_present
from baselines.parts.round_timer import ROUNDING
from baselines.parts.sizing import configurations, start_in_order, throughputs
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Seconds

MOST_AUCTIONS = 64  # auctions held again, each without one winner, to compute what that winner costs the others


@dataclass(frozen=True)
class Bids:
    """The bids of one auction.

    Attributes:
        jobs: int64[num_bidders].
        options: bundles of GPUs; their cost is minus the logarithm of the factor by which they lower a bidder's rho.
    """

    jobs: IntArray
    options: Options

    def without(self, place: int) -> Options:
        """Return the options without one bidder."""
        return self.options.only(np.flatnonzero(self.options.job != place))


class Themis:
    """Finish-time fair auctions (Mahajan et al., NSDI'20), a reconstruction for jobs that are gangs.

    A job's rho is its time from submission to its end, over its time on a fair share. The time on a fair share is its
    time alone, divided by the share if the share is smaller than the request; N is the mean number of jobs since the
    job arrived (section 3.2, and `envs.metrics.finish_time_fairness`).

    GPUs are leased. When some are idle or their leases have ended, they are auctioned among the fraction
    1 - `fairness` of the jobs without a lease whose rho is worst. Bidders state the rho that each bundle would give
    them. The bundles with the largest product of improvements win (proportional fairness), and each winner pays with
    the fraction by which it makes the others' product smaller (partial allocation, section 3.3). Leftovers go to the
    other jobs in random order. A job whose lease has ended can lose its GPUs to a better bid; it stays where it is if
    it wins the same again.

    Choices that the paper leaves open for gangs:
    - A bidder without GPUs counts as if it waited for one lease and then ran as requested, so products are finite.
    - Bundles are the job's configurations of GPUs of one type.
    - A gang cannot run on a fraction of its bundle, so the payment shortens the lease.
    - The end of a lease takes effect at the next round of the scenario.
    - A gang larger than every type does not bid; it takes part in the leftovers.
    - An auction with more than 64 winners that displace others is not held again for each of them. They pay the price
      of their GPUs (`baselines.parts.prices`), which is to first order the most that other jobs could gain from them.

    Args:
        fairness: f; with a larger value fewer and worse treated jobs bid.
        lease: seconds.
        node_limit: nodes of the search tree for each program; a stopped program gives the best choice found.

    Attributes:
        counters: of the solver, see `choosing.Solver`; and the winners that paid by price.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(self, fairness: float = 0.8, lease: Seconds = 1200.0, node_limit: int = NODE_LIMIT) -> None:
        if not 0 <= fairness < 1:
            raise MurmurationError(f"Themis: fairness is {fairness}; it must be at least 0 and below 1")
        if not (lease > 0 and math.isfinite(lease)):
            raise MurmurationError(f"Themis: lease is {lease} s; it must be positive and finite")
        self.fairness, self.lease = fairness, lease
        self._solver = Solver("Themis", node_limit)
        self._contention = JobContention()
        self._offers = OfferCache(_offer)
        self._leases: FloatArray = np.zeros(0)  # when they end, by job
        self._priced = 0
        self._rng = np.random.default_rng(0)

    @property
    def counters(self) -> dict[str, int]:
        """Return the counters of this episode: the solver's, and the winners that paid by price."""
        return {**self._solver.counters, "priced_winners": self._priced}

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode; draw the order of leftovers from `rng`."""
        self._solver.forget()
        self._contention = JobContention()
        self._offers = OfferCache(_offer)
        self._leases = np.zeros(0)
        self._priced = 0
        self._rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """Keep leased GPUs as they are and auction the rest.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        present = jobs_present(view)
        self._offers.look_up(view)
        self._leases = np.append(self._leases, np.full(len(view.num_gpus) - len(self._leases), -np.inf))
        self._contention.advance(view, present, usual_times(view, present))
        allocation = view.allocation(keep_running=True)
        bidders = present[self._leases[present] <= view.time + ROUNDING]
        if not bidders.size:
            return allocation
        held = {job: grant for job, grant in held_grants(view).items() if self._leases[job] <= view.time + ROUNDING}
        for job in held:
            allocation.stop(job)
        if not allocation.free_gpus.any():
            return allocation
        worst = self._worst(view, bidders[self._offers.count(bidders) > 0], held)
        bids = self._bids(view, worst, held)
        choice = self._solver.choose(bids.options, free_by_type(allocation))
        leases = self._payments(bids, choice, free_by_type(allocation))
        _hand_out(view, allocation, bids, choice, held)
        self._leftovers(view, allocation, bidders, held)
        for job in bidders.tolist():
            if allocation.placement(job):
                self._leases[job] = view.time + leases.get(job, self.lease)
        return allocation

    def _worst(self, view: ClusterView, jobs: IntArray, held: dict[JobId, Grant]) -> IntArray:
        """Select the bidders: the jobs with the largest rho if they continued as they are, or ran as requested."""
        work = require_remaining_work(view, jobs, "Themis")
        seconds = usual_times(view, jobs)
        for place, job in enumerate(jobs.tolist()):
            if job in held and (throughput := view.throughputs(job)[held[job].gpu_type, held[job].num_gpus]) > 0:
                seconds[place] = work[place] / throughput
        rho = (view.time - view.submit_time[jobs] + seconds) / self._contention.fair_times(view, jobs)
        count = math.ceil((1 - self.fairness) * len(jobs) - 1e-9)
        return np.sort(jobs[np.lexsort((jobs, -rho))][:count])

    def _bids(self, view: ClusterView, jobs: IntArray, held: dict[JobId, Grant]) -> Bids:
        """Compute by what factor each bundle lowers the bidder's rho; rho's denominator cancels."""
        age = view.time - view.submit_time[jobs]
        without = age + self.lease + usual_times(view, jobs)
        offered = self._offers.of(jobs)
        now = [held.get(job, Grant(-1, 0)) for job in jobs.tolist()]
        gpu_type = np.array([grant.gpu_type for grant in now], dtype=np.int64)[offered.job]
        size = np.array([grant.num_gpus for grant in now], dtype=np.int64)[offered.job]
        moves = (gpu_type >= 0) & ((gpu_type != offered.gpu_type) | (size != offered.num_gpus))
        pause = np.where(moves, view.restart_delay[jobs][offered.job], 0.0)
        whole = age[offered.job] + pause + require_remaining_work(view, jobs, "Themis")[offered.job] / offered.worth
        cost = -np.log(np.maximum(without[offered.job], 1e-9) / np.maximum(whole, 1e-9))
        return Bids(jobs, Options(offered.job, offered.gpu_type, offered.num_gpus, cost, np.zeros(len(jobs))))

    def _payments(self, bids: Bids, choice: SizeChoice, pool: IntArray) -> dict[JobId, Seconds]:
        """Compute each winner's lease: its full length times the part of the others' product that remains beside it."""
        best = np.zeros(len(bids.jobs))  # each bidder's gain from its best bundle
        np.maximum.at(best, bids.options.job, np.where(_fits(bids.options, pool), bids.options.saving, 0.0))
        gains = np.array([bids.options.saving[pick] if pick >= 0 else 0.0 for pick in choice.chosen.tolist()])
        # If every other bidder has its best bundle, none of them would gain from the absence of a winner.
        short = gains < best - 1e-9
        in_the_way = np.flatnonzero((choice.chosen >= 0) & (short.sum() - short > 0))
        leases = {int(job): self.lease for job in bids.jobs[choice.chosen >= 0]}
        prices = None
        if len(in_the_way) > MOST_AUCTIONS:
            prices = best_prices(bids.options.only(useful_options(bids.options, pool)), pool).prices
            self._priced += len(in_the_way)
        for place in in_the_way.tolist():
            pick = choice.chosen[place]
            if prices is None:
                alone = bids.without(place)
                lost = -alone.total(self._solver.choose(alone, pool).chosen) - float(np.delete(gains, place).sum())
            else:
                price = float(prices[bids.options.gpu_type[pick]] * bids.options.num_gpus[pick])
                lost = min(price, float(gains[place]))  # a winner gains at least what the others lose
            leases[int(bids.jobs[place])] *= math.exp(-max(lost, 0.0))
        return leases

    def _leftovers(self, view: ClusterView, allocation: Allocation, jobs: IntArray, held: dict[JobId, Grant]) -> None:
        """Start other jobs in random order: where they ran if that is free, else as requested, else at least sizes."""
        order = [job for job in self._rng.permutation(jobs).tolist() if allocation.placement(job) is None]
        for job in order:
            if job in held and allocation.has_room(job, view.placement(job).gpus):
                allocation.keep(job)
        start_in_order(view, allocation, order)


class JobContention:
    """Jobs' times alone, and the mean number of jobs since each arrived; belongs to one episode."""

    def __init__(self) -> None:
        self._time: Seconds = 0.0
        self._present = 0
        self._area = 0.0  # job-seconds so far
        self._came: FloatArray = np.zeros((0, 3))  # by job: area and time at arrival, time alone; NaN before

    def advance(self, view: ClusterView, jobs: IntArray, alone: FloatArray) -> None:
        """Count jobs up to now; `alone` is the whole time, in seconds, of those of `jobs` that are new."""
        self._area += self._present * (view.time - self._time)
        self._time, self._present = view.time, len(jobs)
        more = len(view.num_gpus) - len(self._came)
        self._came = np.concatenate([self._came, np.full((more, 3), np.nan)])
        new = np.isnan(self._came[jobs, 0])
        self._came[jobs[new], :2] = self._area, view.time
        self._came[jobs[new], 2] = alone[new]

    def fair_times(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: seconds that each job takes on an equal share of the GPUs."""
        area, came, alone = self._came[jobs].T
        among = np.full(len(jobs), float(self._present))
        np.divide(self._area - area, self._time - came, out=among, where=self._time > came)
        share = view.num_gpus[jobs] * among / max(int(view.capacity.sum()), 1)
        fair: FloatArray = np.maximum(alone, 1e-9) * np.maximum(share, 1.0)
        return fair


def usual_times(view: ClusterView, jobs: IntArray) -> FloatArray:
    """float64[len(jobs)]: seconds left on the requested GPUs of the fastest type.

    A job that does not run as requested counts on the fastest GPUs of its range; infinite if it runs on no one type.

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    seconds = remaining_time(view, jobs, "Themis")
    unusual = np.flatnonzero(np.isinf(seconds))
    if unusual.size:
        work = require_remaining_work(view, jobs[unusual], "Themis")
        fastest = np.array([throughputs(view, job).max() for job in jobs[unusual].tolist()])
        np.divide(work, fastest, out=work, where=fastest > 0)
        seconds[unusual] = np.where(fastest > 0, work, np.inf)
    return seconds


def _offer(view: ClusterView, job: JobId) -> Offer:
    """Offer the bundles for which a job bids, worth its throughput."""
    throughput = throughputs(view, job)
    table = np.array([(grant.gpu_type, grant.num_gpus) for grant in configurations(view, job)], dtype=np.int64)
    gpu_type, size = table.reshape(-1, 2).T
    return Offer(gpu_type, size, throughput[gpu_type, size])


def _fits(options: Options, pool: IntArray) -> BoolArray:
    """bool[num_options]: whether the pool has enough GPUs for a bundle."""
    there: BoolArray = options.num_gpus <= pool[options.gpu_type]
    return there


def _hand_out(
    view: ClusterView, allocation: Allocation, bids: Bids, choice: SizeChoice, held: dict[JobId, Grant]
) -> None:
    """Place the winners: a winner of what it held stays; the others follow, largest first, on few nodes if possible."""
    won = {
        job: Grant(int(bids.options.gpu_type[pick]), int(bids.options.num_gpus[pick]))
        for job, pick in zip(bids.jobs.tolist(), choice.chosen.tolist(), strict=True)
        if pick >= 0
    }
    for job, grant in won.items():
        if held.get(job) == grant:
            allocation.keep(job)
    for job, grant in sorted(won.items(), key=lambda item: (-item[1].num_gpus, item[0])):
        if allocation.placement(job) is None:
            pack_grant(view, allocation, job, grant, scatter=True)
