"""Themis: auctions of GPUs among the jobs that are treated worst, by finish-time fairness."""

import math
from dataclasses import dataclass

import numpy as np

from baselines.parts.choosing import Choice, Options, Solver
from baselines.parts.estimates import remaining_work
from baselines.parts.grants import free_by_type, held_grants, runs_on_one_type
from baselines.parts.marginal_gain import Grant
from baselines.parts.pace import ROUNDING
from baselines.parts.priority import jobs_present
from baselines.parts.sizing import configurations, speeds, start_in_order
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Seconds


@dataclass(frozen=True)
class Bids:
    """What one auction is about.

    Attributes:
        jobs: int64[num_bidders].
        options: bundles of GPUs; their cost is minus the logarithm of how many times they lower a bidder's rho.
    """

    jobs: IntArray
    options: Options

    def without(self, place: int) -> Options:
        """The options if one bidder had stayed away."""
        others = self.options.job != place
        kept = self.options
        return Options(kept.job[others], kept.gpu_type[others], kept.num_gpus[others], kept.cost[others], kept.idle)


class Themis:
    """Finish-time fair auctions (Mahajan et al., NSDI'20), a reconstruction for jobs that are gangs.

    A job's rho is its time from submission to its end, over the time on a fair share: alone, divided by the share if
    that is smaller than the request, with N the mean number of jobs since it came (section 3.2, and
    `envs.metrics.finish_time_fairness`). GPUs are leased. When some are idle or their leases have ended, they are
    auctioned among the fraction 1 - `fairness` of the jobs without a lease whose rho is worst. Bidders say what rho
    every bundle would give them; the bundles with the largest product of improvements win (proportional fairness), and
    each winner pays with the fraction by which it makes the others' product smaller (partial allocation, section 3.3).
    Leftovers go to the other jobs in random order. A lease that has ended is lost to a better bid, though its holder
    goes on where it is if it wins the same again.

    What the paper leaves open for gangs: a bidder without GPUs counts as if it waited for one lease and then ran as
    requested, so that products are finite; bundles are the job's configurations of GPUs of one type; and since a gang
    cannot run on a fraction of its bundle, the payment shortens the lease. An end of a lease is noticed at the
    next round of the scenario. A gang larger than every type does not bid; it has its turn among the leftovers.

    Args:
        fairness: f; the larger, the fewer and worse treated jobs bid.
        lease: seconds.
        time_limit: wall-clock seconds for each integer program.

    Attributes:
        counters: of the solver; see `choosing.Solver`. A run is repeatable where no program was stopped.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(self, fairness: float = 0.8, lease: Seconds = 1200.0, time_limit: Seconds = 2.0) -> None:
        if not 0 <= fairness < 1:
            raise MurmurationError(f"Themis: fairness is {fairness}; it must be at least 0 and below 1")
        if not (lease > 0 and math.isfinite(lease)):
            raise MurmurationError(f"Themis: lease is {lease} s; it must be positive and finite")
        if not time_limit > 0:
            raise MurmurationError(f"Themis: time_limit is {time_limit} s; it must be positive")
        self.fairness, self.lease = fairness, lease
        self._solver = Solver(time_limit)
        self._contention = Contention()
        self._leases: dict[JobId, Seconds] = {}  # when they end
        self._rng = np.random.default_rng(0)

    @property
    def counters(self) -> dict[str, int]:
        """What the solver did in this episode."""
        return self._solver.counters

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode; draw the order of leftovers from `rng`."""
        self._solver.forget()
        self._contention = Contention()
        self._leases = {}
        self._rng = rng

    def schedule(self, view: ClusterView) -> Allocation:
        """What is leased goes on; the rest is auctioned.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        present = jobs_present(view)
        self._contention.advance(view, present, usual_times(view, present))
        wish = view.allocation(keep_running=True)
        bidders = present[[self._leases.get(job, -math.inf) <= view.time + ROUNDING for job in present.tolist()]]
        held = {job: grant for job, grant in held_grants(view).items() if job in set(bidders.tolist())}
        for job in held:
            wish.stop(job)
        if not bidders.size or not wish.free_gpus.any():
            return wish
        worst = self._worst(view, bidders[runs_on_one_type(view, bidders)], held)
        bids = self._bids(view, worst, held)
        choice = self._solver.choose(bids.options, free_by_type(wish))
        leases = self._payments(bids, choice, free_by_type(wish))
        _hand_out(view, wish, bids, choice, held)
        self._leftovers(view, wish, bidders, held)
        for job in bidders.tolist():
            if wish.placement(job):
                self._leases[job] = view.time + leases.get(job, self.lease)
        return wish

    def _worst(self, view: ClusterView, jobs: IntArray, held: dict[JobId, Grant]) -> IntArray:
        """The part of the jobs that bids: those with the largest rho if they went on as they are, or as requested."""
        work = remaining_work(view, jobs, "Themis")
        seconds = usual_times(view, jobs)
        for place, job in enumerate(jobs.tolist()):
            if job in held and (speed := view.speed(job)[held[job].gpu_type, held[job].num_gpus]) > 0:
                seconds[place] = work[place] / speed
        rho = (view.time - view.submit_time[jobs] + seconds) / self._contention.fair_times(view, jobs)
        count = math.ceil((1 - self.fairness) * len(jobs) - 1e-9)
        return np.sort(jobs[np.lexsort((jobs, -rho))][:count])

    def _bids(self, view: ClusterView, jobs: IntArray, held: dict[JobId, Grant]) -> Bids:
        """For every bundle how much smaller it makes the bidder's rho; rho's denominator cancels."""
        work = remaining_work(view, jobs, "Themis")
        age = view.time - view.submit_time[jobs]
        without = age + self.lease + usual_times(view, jobs)
        rows: list[tuple[int, int, int]] = []
        costs: list[float] = []
        for place, job in enumerate(jobs.tolist()):
            speed = speeds(view, job)
            for grant in configurations(view, job):
                pause = float(view.restart_delay[job]) if job in held and held[job] != grant else 0.0
                whole = age[place] + pause + work[place] / speed[grant.gpu_type, grant.num_gpus]
                rows.append((place, grant.gpu_type, grant.num_gpus))
                costs.append(-math.log(max(without[place], 1e-9) / max(whole, 1e-9)))
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return Bids(jobs, Options(table[:, 0], table[:, 1], table[:, 2], np.array(costs), np.zeros(len(jobs))))

    def _payments(self, bids: Bids, choice: Choice, pool: IntArray) -> dict[JobId, Seconds]:
        """The length of each winner's lease: the fraction of the others' product that its presence leaves them."""
        best = np.zeros(len(bids.jobs))  # what each bidder would have of the bundle that it likes best
        np.maximum.at(best, bids.options.job, np.where(_fits(bids.options, pool), bids.options.saving, 0.0))
        gains = np.array([bids.options.saving[pick] if pick >= 0 else 0.0 for pick in choice.chosen.tolist()])
        leases: dict[JobId, Seconds] = {}
        for place, job in enumerate(bids.jobs.tolist()):
            if choice.chosen[place] < 0:
                continue
            leases[job] = self.lease
            others = np.arange(len(gains)) != place
            if (gains[others] < best[others] - 1e-9).any():  # else nobody would have more without this winner
                alone = bids.without(place)
                freed = -alone.total(self._solver.choose(alone, pool).chosen)
                leases[job] *= math.exp(min(float(gains[others].sum()) - freed, 0.0))
        return leases

    def _leftovers(self, view: ClusterView, wish: Allocation, jobs: IntArray, held: dict[JobId, Grant]) -> None:
        """What no bid has won, in random order: where they ran if that is free, else as requested, else least sizes."""
        order = [job for job in self._rng.permutation(jobs).tolist() if wish.placement(job) is None]
        for job in order:
            if job in held and all(wish.free_gpus[node] >= n for node, n in view.placement(job).gpus.items()):
                wish.keep(job)
        start_in_order(view, wish, order)


class Contention:
    """How long jobs would take alone, and among how many they have been since; belongs to one episode."""

    def __init__(self) -> None:
        self._time: Seconds = 0.0
        self._present = 0
        self._area = 0.0  # job-seconds so far
        self._came: dict[JobId, tuple[float, Seconds, Seconds]] = {}  # area then, submission, time alone

    def advance(self, view: ClusterView, jobs: IntArray, alone: FloatArray) -> None:
        """Count jobs up to now; `alone` is what the new ones of `jobs` need, their whole time."""
        self._area += self._present * (view.time - self._time)
        self._time, self._present = view.time, len(jobs)
        for job, seconds in zip(jobs.tolist(), alone.tolist(), strict=True):
            self._came.setdefault(job, (self._area, view.time, seconds))

    def fair_times(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """float64[len(jobs)]: seconds that each job takes on an equal share of the GPUs."""
        gpus = max(int(view.capacity.sum()), 1)
        fair = np.zeros(len(jobs))
        for place, job in enumerate(jobs.tolist()):
            area, came, alone = self._came[job]
            among = (self._area - area) / (self._time - came) if self._time > came else float(self._present)
            fair[place] = max(alone, 1e-9) * max(1.0, float(view.num_gpus[job]) * among / gpus)
        return fair


def usual_times(view: ClusterView, jobs: IntArray) -> FloatArray:
    """float64[len(jobs)]: seconds left as requested on the fastest type.

    Of a job that does not run as requested, on the fastest GPUs of its range; infinite if it runs on no one type.

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    tables = [speeds(view, job) for job in jobs.tolist()]
    sizes = view.num_gpus[jobs].tolist()
    usual = [float(table[:, min(size, table.shape[1] - 1)].max()) for table, size in zip(tables, sizes, strict=True)]
    speed = np.array([now if now > 0 else table.max() for now, table in zip(usual, tables, strict=True)])
    seconds = np.full(len(jobs), np.inf)
    np.divide(remaining_work(view, jobs, "Themis"), speed, out=seconds, where=speed > 0)
    return seconds


def _fits(options: Options, pool: IntArray) -> BoolArray:
    """bool[num_options]: whether a bundle is there at all."""
    there: BoolArray = options.num_gpus <= pool[options.gpu_type]
    return there


def _hand_out(view: ClusterView, wish: Allocation, bids: Bids, choice: Choice, held: dict[JobId, Grant]) -> None:
    """Nodes for the winners: who has won what it held stays, the others come largest first, whole if they can be."""
    won = {
        job: Grant(int(bids.options.gpu_type[pick]), int(bids.options.num_gpus[pick]))
        for job, pick in zip(bids.jobs.tolist(), choice.chosen.tolist(), strict=True)
        if pick >= 0
    }
    for job, grant in won.items():
        if held.get(job) == grant:
            wish.keep(job)
    for job, grant in sorted(won.items(), key=lambda item: (-item[1].num_gpus, item[0])):
        if wish.placement(job) is None:
            wish.pack(job, grant.num_gpus, gpu_types=(grant.gpu_type,), scatter=True)
