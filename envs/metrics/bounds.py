"""Lower bounds on mean JCT and makespan that no scheduler can beat, from relaxations of a workload.

Every bound ignores constraints of the simulation: nodes and their fragmentation, restarts, contention, failures,
shortage of cores, and the unknown future. It keeps each job's own throughput, what a link carries of it, and the total
number of GPUs. The bounds hold at the plan and batch size that the simulator chooses. Schedulers that choose batch
sizes have a separate bound, at the batch size of highest goodput (throughput x statistical efficiency) of those offered
to each job (`Relaxation.of` with `any_batch`).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter

import numpy as np
import scipy.optimize

from envs.metrics.one_machine import OneMachine
from envs.performance import BatchSizes, find_pair_factor, find_throughput, plain_model
from envs.simulation import LinkLimit, Setup
from envs.types import BoolArray, ClusterError, Configuration, FloatArray, IntArray, PerformanceError, Seconds
from envs.workloads import Workload
from envs.workloads.classes import classes_of
from envs.workloads.demand import node_counts
from envs.workloads.waiting import ANY

SHORTEST: Seconds = 1e-9  # of a job that may leave without having run
SEARCHED = 10_000  # jobs for which prices are searched: of more jobs, one of every few
NOTHING_OFFERED = (1, 0)  # an empty range of batch sizes
BATCH_SLACK = 0.02  # allowed overestimate of the throughput at the fastest batch size; saves evaluations


def most_together(workload: Workload, setup: Setup) -> FloatArray:
    """float64[num_gpu_types]: the most that two jobs on a GPU do together, in units of what each does alone.

    If both count their share of it, no GPU-second is counted more than once.
    """
    gpu_types = setup.cluster.gpu_types
    if setup.scenario.sharing == "off":
        return np.ones(len(gpu_types))
    models = sorted({plain_model(model) for model in workload.models})
    pairs = list(itertools.combinations_with_replacement(models, 2))
    found = [
        [sum(find_pair_factor(setup.performance, *names, gpu_type) for names in ((a, b), (b, a))) for a, b in pairs]
        for gpu_type in gpu_types
    ]
    most: FloatArray = np.maximum(np.array(found).max(axis=1), 1.0)
    return most


@dataclass(frozen=True)
class Relaxation:
    """A workload without nodes: for each job its least duration and its least demand of GPU-seconds.

    Attributes:
        submit_time: float64[num_jobs], seconds.
        alone: float64[num_jobs], seconds that a job takes with as many of the fastest GPUs as it can use.
        demand: float64[num_jobs, num_gpu_types], GPU-seconds that a job takes at its most efficient size if it runs on
            this GPU type only, beside the other job with which most is done; infinite where it does not run.
        num_gpus: int64[num_gpu_types], GPUs of each type.
    """

    submit_time: FloatArray
    alone: FloatArray
    demand: FloatArray
    num_gpus: IntArray

    @classmethod
    def of(cls, workload: Workload, setup: Setup, *, any_batch: bool = False) -> "Relaxation":
        """Relax a workload.

        Single GPU types are enough: a job on several types is no faster than on as many GPUs of its fastest type, and
        its demand is no less than on the type where its demand is least. The limit by links is an exception, as GPUs
        of several types together can fill a link that those of one type would exceed or not reach. So it lowers the
        throughput of a size for the demand only if all types on which this size runs reach it.

        Args:
            workload: the jobs.
            setup: the cluster and the performance model. Of the scenario, contention lowers throughputs to what links
                carry, and `statistical_efficiency` has an effect with `any_batch`.
            any_batch: whether schedulers may choose any batch size that is offered, besides the simulator's; see
                `fastest_batch`.

        Raises:
            ClusterError: a job does not run on the cluster.
        """
        cluster, jobs = setup.cluster, workload.jobs
        key = np.stack([jobs[name] for name in ("model", "min_batch", "max_batch", "min_gpus", "max_gpus")], axis=1)
        if not any_batch:
            key[:, 1:3] = 0
        distinct, job_class = classes_of(key)
        best, per_gpu = np.zeros(len(distinct)), np.zeros((len(distinct), len(cluster.gpu_types)))
        for model, low, high in np.unique(distinct[:, :3], axis=0).tolist():
            rows = np.flatnonzero((distinct[:, :3] == (model, low, high)).all(axis=1))
            name = workload.models[model]
            throughputs, limit = most_throughputs(name, distinct[rows, 3:], (low, high) if any_batch else None, setup)
            for row in rows.tolist():
                least, most = distinct[row, 3:].tolist()
                sizes = np.arange(least, min(most, cluster.num_gpus) + 1)
                curve = throughputs[:, sizes]
                if not curve.size or curve.max() <= 0:
                    raise ClusterError(
                        f"workload {workload.name}: {name} on {least} to {most} GPUs does not run on "
                        f"cluster {cluster.name}; take a larger cluster"
                    )
                best[row], per_gpu[row] = np.minimum(curve, limit[sizes]).max(), (curve / sizes).max(axis=1)
        with np.errstate(divide="ignore"):
            demand = jobs["work"][:, None] / per_gpu[job_class] / most_together(workload, setup)
        alone = jobs["work"] / best[job_class]
        if workload.limited:  # a job that reaches its limit has had its fewest GPUs for so long, two at most on each
            limit = np.where(jobs["time_limit"] > 0, jobs["time_limit"], np.inf)
            held = limit * jobs["min_gpus"] / (2 if setup.scenario.sharing == "pairs" else 1)
            alone, demand = np.minimum(alone, limit), np.minimum(demand, held[:, None])
        if may_not_run := sorted({job for job, _, met_by in workload.dependencies if met_by != ANY}):
            alone[may_not_run] = demand[may_not_run] = SHORTEST
        counts = np.array(list(cluster.gpus_by_type.values()), dtype=np.int64)
        return cls(jobs["submit_time"].copy(), alone, demand, counts)

    def of_jobs(self, jobs: IntArray) -> "Relaxation":
        """Return the relaxation of some of the jobs. It stays a bound, as leaving out jobs can only help the others."""
        return Relaxation(self.submit_time[jobs], self.alone[jobs], self.demand[jobs], self.num_gpus)

    def mean_jct(self) -> Seconds:
        """A lower bound on the mean JCT, in seconds; NaN without jobs.

        The jobs are divided into busy periods of one machine that is as fast as the whole cluster (`cluster_seconds`).
        The bound of a period is the largest of three: the sum of least durations; shortest remaining time first on that
        machine (optimal there: Schrage 1968); and the sum of mean busy dates, each half a least duration later. A job
        that takes at least `alone` seconds ends no earlier than `alone / 2` after its mean busy date, the average time
        of its work. The sum of mean busy dates on one machine is least if the shortest job, by total length, always
        goes first (Goemans, Queyranne, Schulz, Skutella, Wang 2002, "Single machine scheduling with release dates").
        Without release dates this is the bound of Eastman, Even and Isaacs (1964).
        """
        if not len(self.alone):
            return float("nan")
        return self._best[0] / len(self.alone)

    def makespan(self) -> Seconds:
        """A lower bound on last finish - first submission, in seconds; NaN without jobs.

        No job ends earlier than it would alone, and the jobs submitted from any time on need the whole cluster for the
        sum of their `cluster_seconds`.
        """
        if not len(self.alone):
            return float("nan")
        order = np.argsort(self.submit_time, kind="stable")
        still_to_come = np.cumsum(self.cluster_seconds[order][::-1])[::-1]
        last = max((self.submit_time + self.alone).max(), (self.submit_time[order] + still_to_come).max())
        return float(last - self.submit_time.min())

    @cached_property
    def cluster_seconds(self) -> FloatArray:
        """float64[num_jobs]: least seconds for which a job needs the whole cluster.

        At any `prices`, a job costs at least its demand on its cheapest type.
        """
        return np.asarray((self.demand * self.prices).min(axis=1))

    @cached_property
    def prices(self) -> FloatArray:
        """float64[num_gpu_types]: the price of a GPU of each type, at which the whole cluster costs 1.

        Any such prices give a bound. A local search chooses those that make it largest. Of more than `SEARCHED` jobs it
        looks at one of every two, three and so on, in order of submission, at the same load.
        """
        return self._best[1]

    @cached_property
    def _best(self) -> tuple[Seconds, FloatArray]:
        """The largest bound found on the sum of JCTs, and its prices."""
        machine = OneMachine.of(self.submit_time, self.alone, self.demand)
        # Start from prices proportional to the types' throughputs for a typical job that runs on every type.
        everywhere = np.isfinite(self.demand).all(axis=1)
        start = -np.log(self.demand[everywhere]).mean(axis=0) if everywhere.any() else np.zeros(len(self.num_gpus))
        start -= start[0]
        if len(start) == 1:
            return machine.total_jct(self._prices(start)), self._prices(start)
        few = machine.every(-(-len(self.alone) // SEARCHED))

        def negative_bound(logs: FloatArray) -> float:
            return -few.total_jct(self._prices(logs))

        found = scipy.optimize.minimize(
            negative_bound, start, method="Nelder-Mead", options={"maxfev": 40 * len(start)}
        ).x
        return max(
            ((machine.total_jct(prices), prices) for prices in map(self._prices, (found, start))), key=itemgetter(0)
        )

    def _prices(self, logs: FloatArray) -> FloatArray:
        """float64[num_gpu_types]: prices proportional to `exp(logs)`."""
        prices = np.exp(logs - logs.max())
        return np.asarray(prices / (prices @ self.num_gpus))


@dataclass(frozen=True)
class BatchSearch:
    """The batch sizes among which `fastest_batch` searches.

    Attributes:
        low: the least batch size.
        high: the largest batch size.
        noise_scale: phi of the statistical efficiency, which falls as 1 / (phi + batch); infinite if all samples count
            alike.
        windows: int64[n, 2], least and largest batch size of each situation, outside of which its throughput is 0; None
            if all of them may use the whole range.
    """

    low: int
    high: int
    noise_scale: float = math.inf
    windows: IntArray | None = None

    def ladder(self) -> list[int]:
        """Return the batch sizes to begin with: doublings, and the ends of all windows.

        Doublings find the performance model's own range where that is narrower.
        """
        low, high = self.low, self.high
        rungs = {low, high, *(low << i for i in range((high // low).bit_length()))}
        if self.windows is not None:
            rungs |= set(self.windows.ravel().tolist())
        return sorted(rung for rung in rungs if low <= rung <= high)

    def progress_ratio(self, below: int, above: int) -> float:
        """Return the progress of a step at the larger batch size over that of one at the smaller, which is at least 1.

        A step makes progress in proportion to batch x efficiency.
        """
        if math.isinf(self.noise_scale):
            return above / below
        return above * (self.noise_scale + below) / (below * (self.noise_scale + above))

    def reaches(self, below: int, above: int) -> BoolArray | bool:
        """Return, for each situation, whether a batch size strictly between two rungs is in its window."""
        if self.windows is None:
            return True
        inside: BoolArray = (self.windows[:, 0] < above) & (self.windows[:, 1] > below)
        return inside


def fastest_batch(throughputs_at: Callable[[int], FloatArray], search: BatchSearch) -> FloatArray:
    """Return at least the goodputs at the best batch size of a range, and at most `BATCH_SLACK` more.

    Throughput is nearly, but not exactly, monotone in the batch size: GPUs wait where samples do not divide evenly, and
    measured peaks stand out. The search assumes that a step of a batch size between b and c, b < c, takes at least as
    long as the faster of the steps at b and c; tests check this for every batch size. A step's progress, batch x
    efficiency, grows with the batch size. With r the progress at c - 1 over that at b, (c - 1) / b if all samples count
    alike, no size between then has a higher goodput than max(goodput(b) r, goodput(c)), so sizes between are evaluated
    only where that exceeds the best value found. Where a job runs at c but not at b, nothing is known of the sizes
    between, and the smallest size that runs is searched for.

    Args:
        throughputs_at: maps a batch size to float64[n], useful samples/s in n situations; 0 where the job does not run.
        search: the batch sizes, and how efficiency falls with them.

    Returns:
        float64[n], useful samples/s.
    """
    ladder = search.ladder()
    found = {batch: throughputs_at(batch) for batch in ladder}
    best = np.asarray(np.max(list(found.values()), axis=0))
    pending, settled = list(itertools.pairwise(ladder)), best.copy()
    while pending:
        below, above = pending.pop()
        if above - below <= 1:
            continue
        between = np.maximum(found[below] * search.progress_ratio(below, above - 1), found[above])
        between[(found[below] == 0) & (found[above] > 0)] = np.inf  # the smallest size that runs is not known yet
        between = np.where(search.reaches(below, above), between, 0.0)
        if (between <= best * (1 + BATCH_SLACK)).all():
            settled = np.maximum(settled, between)
            continue
        middle = min(max(math.isqrt(below * above), below + 1), above - 1)
        found[middle] = throughputs_at(middle)
        best = np.maximum(best, found[middle])
        pending += [(below, middle), (middle, above)]  # larger batches first, as most of them are faster
    return np.asarray(np.maximum(settled, best))


def carried_throughput(
    name: str, links: LinkLimit, batches: BatchSizes, batch: int | None, size: tuple[int, int]
) -> float:
    """Return the most useful samples/s that links carry for a job; infinite where a plan may exceed it.

    Args:
        name: the model.
        links: the limit.
        batches: how batch sizes count.
        batch: the batch size; None for the usual one.
        size: GPUs and nodes.
    """
    if not links.active or not links.covers_plans(name):
        return math.inf
    return links.throughput(name, *size, links.fastest, batch) * batches.efficiency(name, size[0], batch)


def most_throughputs(
    name: str, ranges: IntArray, own: tuple[int, int] | None, setup: Setup
) -> tuple[FloatArray, FloatArray]:
    """Useful samples/s of a model: float64[num_gpu_types, sizes] without links, and float64[sizes], the most over them.

    The first is lowered to the second where all types that run a size reach it. A size uses the fastest link and number
    of nodes, not fewer than those of any type that have this many GPUs. Larger sizes may be slower.

    Args:
        name: the model.
        ranges: int64[num_ranges, 2], fewest and most GPUs of its jobs.
        own: the jobs' own range of batch sizes, 0 for no limit, where schedulers may choose; None leaves the batch size
            to the simulator.
        setup: the cluster and the performance model.
    """
    cluster = setup.cluster
    first, last = int(ranges[:, 0].min()), min(int(ranges[:, 1].max()), cluster.num_gpus)
    sizes = list(range(first, last + 1))
    nodes = (np.searchsorted(np.cumsum(np.sort(cluster.node_gpus)[::-1]), sizes) + 1).tolist()
    table, limit = np.zeros((len(cluster.gpu_types), last + 1)), np.full(last + 1, np.inf)
    batches = setup.scenario.offered_batches(setup.performance)

    def by_size(gpu_type: str, batch: int | None = None) -> FloatArray:
        return np.array(
            [
                max(
                    find_throughput(setup.performance, name, Configuration(gpu_type, gpus, on, batch_size=batch))
                    for on in node_counts(gpus, fewest, cluster.num_nodes)
                )
                * batches.efficiency(name, gpus, batch)
                for gpus, fewest in zip(sizes, nodes, strict=True)
            ]
        )

    def by_size_or_zero(gpu_type: str, windows: IntArray, batch: int) -> FloatArray:
        try:
            goodputs = by_size(gpu_type, batch)
        except PerformanceError:  # the performance model's own range is narrower
            return np.zeros(len(sizes))
        return np.where((windows[:, 0] <= batch) & (batch <= windows[:, 1]), goodputs, 0.0)

    carried = partial(carried_throughput, name, LinkLimit(setup), batches)
    limit[first:] = [carried(None, size) for size in zip(sizes, nodes, strict=True)]
    for row, gpu_type in enumerate(cluster.gpu_types):
        table[row, first:] = by_size(gpu_type)
        if own is None:
            continue
        offered = [batches.offered(name, gpu_type, gpus, *own) or NOTHING_OFFERED for gpus in sizes]
        windows = np.array(offered, np.int64).reshape(-1, 2)
        some = windows[:, 0] <= windows[:, 1]
        for at in np.flatnonzero(some).tolist():  # a larger batch makes more progress for the same traffic
            limit[sizes[at]] = max(limit[sizes[at]], carried(int(windows[at, 1]), (sizes[at], nodes[at])))
        if some.any():
            noise = batches.noise_scale(name)
            low, high = int(windows[some, 0].min()), int(windows[some, 1].max())
            search = BatchSearch(low, high, math.inf if noise is None else noise, windows)
            goodputs = fastest_batch(partial(by_size_or_zero, gpu_type, windows), search)
            table[row, first:] = np.maximum(table[row, first:], goodputs)
    reached = ((table >= limit) | (table == 0)).all(axis=0)
    return np.where(reached, np.minimum(table, limit), table), limit
