"""Lower bounds on mean JCT and makespan that no scheduler can beat, from relaxations of a workload.

Every bound ignores where free GPUs are, restarts, neighbours on the network, failures and the unknown future. It keeps
each job's own throughput with what a node has of cores and memory, what a link carries of it, the delay that its start
certainly costs, and what the cluster has of each resource. Of two bounds on the mean JCT the larger is stated: that of
one machine (`OneMachine`) and that of prices at every time (`TimePrices`). Both hold for the jobs that they are given.
They hold at the plan and batch size that the simulator chooses. Schedulers that choose batch sizes have a separate
bound, at the batch size of highest goodput (throughput x statistical efficiency) of those offered to each job
(`Relaxation.of` with `any_batch`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

import numpy as np
import scipy.optimize

from envs.metrics.columns import ColumnBuilder
from envs.metrics.one_machine import OneMachine
from envs.metrics.time_prices import TimePrices
from envs.simulation import Setup
from envs.types import ClusterError, FloatArray, IntArray, Seconds
from envs.workloads import Workload
from envs.workloads.classes import classes_of
from envs.workloads.waiting import ANY

SHORTEST: Seconds = 1e-9  # of a job that may leave without having run
SEARCHED = 10_000  # jobs for which prices are searched: of more jobs, one of every few


@dataclass(frozen=True)
class Relaxation:
    """A workload without nodes: for each job its least duration and its least demand of GPU-seconds.

    Attributes:
        submit_time: float64[num_jobs], seconds.
        delay: float64[num_jobs], seconds from the first start to the first sample that are certain: the shorter of the
            start and the restart delay, as a restart during the start delay ends it.
        alone: float64[num_jobs], seconds that a job takes after it with as many of the fastest GPUs as it can use.
        demand: float64[num_jobs, num_gpu_types], GPU-seconds that a job takes at its most efficient size if it runs on
            this GPU type only, beside the other job with which most is done; infinite where it does not run.
        num_gpus: int64[num_gpu_types], GPUs of each type.
        priced: the jobs with their columns; None where jobs have time limits.
        known: by their `TimePrices.digest`, sums of JCTs without delays that are known bounds, in seconds.
    """

    submit_time: FloatArray
    delay: FloatArray
    alone: FloatArray
    demand: FloatArray
    num_gpus: IntArray
    priced: TimePrices | None
    known: Mapping[str, Seconds] = field(default_factory=dict)

    @classmethod
    def of(
        cls, workload: Workload, setup: Setup, *, any_batch: bool = False, known: Mapping[str, Seconds] | None = None
    ) -> "Relaxation":
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
            known: known bounds, which need not be searched again.

        Raises:
            ClusterError: a job does not run on the cluster.
        """
        cluster, jobs, made = setup.cluster, workload.jobs, ColumnBuilder(workload, setup)
        key = np.stack([jobs[name] for name in ("model", "min_batch", "max_batch", "min_gpus", "max_gpus")], axis=1)
        if not any_batch:
            key[:, 1:3] = 0
        distinct, job_class = classes_of(key)
        best, per_gpu = np.zeros(len(distinct)), np.zeros((len(distinct), len(cluster.gpu_types)))
        columns = list[FloatArray]()
        for row, (model, low, high, least, most) in enumerate(distinct.tolist()):
            sizes = np.arange(least, min(most, cluster.num_gpus) + 1)
            own, best[row] = made.of_batches(model, sizes, (low, high)) if any_batch else made.of_range(model, sizes)
            if not len(own):
                raise ClusterError(
                    f"workload {workload.name}: {workload.models[model]} on {least} to {most} GPUs does not run on "
                    f"cluster {cluster.name}; take a larger cluster"
                )
            np.maximum.at(per_gpu[row], own[:, 0].astype(np.int64), own[:, 4] / own[:, 1])
            columns.append(own)
        work, delay = jobs["work"].copy(), np.minimum(*setup.scenario.delays(workload.models))[jobs["model"]]
        with np.errstate(divide="ignore"):
            demand = work[:, None] / per_gpu[job_class]
        alone = work / best[job_class]
        if workload.limited:  # a job that reaches its limit has had its fewest GPUs for so long, two at most on each
            limit = np.where(jobs["time_limit"] > 0, jobs["time_limit"], np.inf)
            held = limit * jobs["min_gpus"] / (2 if setup.scenario.sharing == "pairs" else 1)
            alone, demand, delay = np.minimum(alone, limit), np.minimum(demand, held[:, None]), np.zeros(len(jobs))
        if may_not_run := sorted({job for job, _, met_by in workload.dependencies if met_by != ANY}):
            alone[may_not_run] = demand[may_not_run] = SHORTEST
            work[may_not_run] = delay[may_not_run] = 0.0
        rows = np.stack([jobs["submit_time"] + delay, work, alone], axis=1)
        priced = None if workload.limited else TimePrices(rows, job_class, columns, made.supply.resources)
        return cls(jobs["submit_time"].copy(), delay, alone, demand, made.supply.num_gpus, priced, known or {})

    def of_jobs(self, jobs: IntArray) -> "Relaxation":
        """Return the relaxation of some of the jobs. It stays a bound, as leaving out jobs can only help the others."""
        submit_time, delay, alone, demand = (
            each[jobs] for each in (self.submit_time, self.delay, self.alone, self.demand)
        )
        priced = self.priced.of_jobs(jobs) if self.priced else None
        return Relaxation(submit_time, delay, alone, demand, self.num_gpus, priced, self.known)

    def mean_jct(self) -> Seconds:
        """A lower bound on the mean JCT, in seconds; NaN without jobs.

        It is the larger of that of prices at every time (`TimePrices`), which takes about half a CPU-second for 150
        jobs and five at most, and of that of one machine that is as fast as the whole cluster (`cluster_seconds`), on
        which jobs arrive after their delay. For the latter, the jobs are divided into busy periods of the machine.
        The bound of a period is the largest of three: the sum of least durations; shortest remaining time first on that
        machine (optimal there: Schrage 1968); and the sum of mean busy dates, each half a least duration later. A job
        that takes at least `alone` seconds ends no earlier than `alone / 2` after its mean busy date, the average time
        of its work. The sum of mean busy dates on one machine is least if the shortest job, by total length, always
        goes first (Goemans, Queyranne, Schulz, Skutella, Wang 2002, "Single machine scheduling with release dates").
        Without release dates this is the bound of Eastman, Even and Isaacs (1964).
        """
        if not len(self.alone):
            return float("nan")
        return (max([self._best[0], *self.searched.values()]) + float(self.delay.sum())) / len(self.alone)

    def makespan(self) -> Seconds:
        """A lower bound on last finish - first submission, in seconds; NaN without jobs.

        No job ends earlier than it would alone, and the jobs that can begin from any time on need the whole cluster for
        the sum of their `cluster_seconds`.
        """
        if not len(self.alone):
            return float("nan")
        release = self.submit_time + self.delay
        order = np.argsort(release, kind="stable")
        still_to_come = np.cumsum(self.cluster_seconds[order][::-1])[::-1]
        last = max((release + self.alone).max(), (release[order] + still_to_come).max())
        return float(last - self.submit_time.min())

    @cached_property
    def searched(self) -> dict[str, Seconds]:
        """The bound of prices at every time on the sum of JCTs without delays, by its digest; empty without prices."""
        if self.priced is None:
            return {}
        digest = self.priced.digest
        return {digest: self.known[digest] if digest in self.known else self.priced.total_jct(self.makespan())}

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
        """The largest bound of one machine on the sum of JCTs without delays, and its prices."""
        machine = OneMachine.of(self.submit_time + self.delay, self.alone, self.demand)
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
