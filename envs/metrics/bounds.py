"""What no scheduler can beat: lower bounds on mean JCT and makespan, from relaxations of a workload.

Every bound drops what holds schedulers back in the world: nodes and their fragmentation, restarts, contention,
failures, shortage of cores, not knowing the future. What stays is each job's own speed and the sum of GPUs.
They hold at the plan and batch size that the world chooses; for schedulers that choose batch sizes there is a bound of
its own, at the fastest batch size of each job's range (`Relaxation.of` with `any_batch`).
"""

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.optimize

from envs.performance import PerformanceModel, model_profile
from envs.types import ClusterError, ClusterSpec, FloatArray, IntArray, PerformanceError, Seconds
from envs.workloads import Workload

BATCH_SLACK = 0.02  # share by which the speed at the fastest batch size may be overrated, for fewer sizes to ask


@dataclass(frozen=True)
class Relaxation:
    """A workload without nodes: how long each job takes at least, and how much of the cluster.

    Attributes:
        submit_time: float64[num_jobs], seconds.
        alone: float64[num_jobs], seconds that a job takes with as many of the fastest GPUs as it can use.
        demand: float64[num_jobs, num_gpu_types], GPU-seconds that it takes at its most efficient size, were it on GPUs
            of this type only; infinite where it does not run.
        num_gpus: int64[num_gpu_types], GPUs there are.
    """

    submit_time: FloatArray
    alone: FloatArray
    demand: FloatArray
    num_gpus: IntArray

    @classmethod
    def of(
        cls, workload: Workload, cluster: ClusterSpec, performance: PerformanceModel, *, any_batch: bool = False
    ) -> "Relaxation":
        """The relaxation of a workload.

        A gang over several types is no faster than the fastest of them on so many GPUs, and takes no less of the
        cluster than on that of its types where it takes least: so single types are enough.

        Args:
            workload: the jobs.
            cluster: the nodes.
            performance: how fast jobs run.
            any_batch: whether schedulers may name any batch size of a job's range, besides the world's; see
                `fastest_batch`.

        Raises:
            ClusterError: a job runs nowhere on the cluster.
        """
        jobs = workload.jobs
        key = np.stack([jobs[name] for name in ("model", "min_batch", "max_batch", "min_gpus", "max_gpus")], axis=1)
        if not any_batch:
            key[:, 1:3] = 0
        distinct, kind_of_job = np.unique(key, axis=0, return_inverse=True)
        best, per_gpu = np.zeros(len(distinct)), np.zeros((len(distinct), len(cluster.gpu_types)))
        for model, low, high in np.unique(distinct[:, :3], axis=0).tolist():
            rows = np.flatnonzero((distinct[:, :3] == (model, low, high)).all(axis=1))
            name = workload.models[model]
            span = batch_range(name, low, high) if any_batch else None
            speeds = _speeds(name, distinct[rows, 3:], span, cluster, performance)
            for row in rows.tolist():
                least, most = distinct[row, 3:].tolist()
                sizes = np.arange(least, min(most, cluster.num_gpus) + 1)
                curve = speeds[:, sizes]
                if not curve.size or curve.max() <= 0:
                    raise ClusterError(
                        f"workload {workload.name}: {name} on {least} to {most} GPUs runs nowhere on "
                        f"cluster {cluster.name}; take a larger cluster"
                    )
                best[row], per_gpu[row] = curve.max(), (curve / sizes).max(axis=1)
        with np.errstate(divide="ignore"):
            demand = jobs["work"][:, None] / per_gpu[kind_of_job]
        counts = np.array(list(cluster.gpus_by_type.values()), dtype=np.int64)
        return cls(jobs["submit_time"].copy(), jobs["work"] / best[kind_of_job], demand, counts)

    def of_jobs(self, jobs: IntArray) -> "Relaxation":
        """The same for some of the jobs alone: leaving the others out can only help them."""
        return Relaxation(self.submit_time[jobs], self.alone[jobs], self.demand[jobs], self.num_gpus)

    def mean_jct(self) -> Seconds:
        """A lower bound on the mean JCT, in seconds; NaN without jobs.

        The jobs fall into busy periods of one machine that is as fast as the whole cluster (`cluster_seconds`). Of each
        period the largest of three bounds counts: every job alone; shortest remaining first on that machine (Schrage
        1968, optimal there); and busy dates (`busy_date_bound`).
        """
        if not len(self.alone):
            return float("nan")
        return self._total_jct(self.cluster_seconds) / len(self.alone)

    def makespan(self) -> Seconds:
        """A lower bound on last finish - first submission, in seconds; NaN without jobs.

        No job ends before it would alone, and what is submitted from some time on needs the whole cluster for the sum
        of its `cluster_seconds`.
        """
        if not len(self.alone):
            return float("nan")
        order = np.argsort(self.submit_time, kind="stable")
        still_to_come = np.cumsum(self.cluster_seconds[order][::-1])[::-1]
        last = max((self.submit_time + self.alone).max(), (self.submit_time[order] + still_to_come).max())
        return float(last - self.submit_time.min())

    @cached_property
    def cluster_seconds(self) -> FloatArray:
        """float64[num_jobs]: seconds of the whole cluster that a job takes at least.

        GPUs of the types are weighed by prices under which the cluster is worth 1: a job's demand is then worth at
        least its cheapest type's, under any prices. Those are taken that make the bound largest (local search).
        """
        if len(self.num_gpus) == 1:
            return np.asarray(self.demand[:, 0] / self.num_gpus[0])

        def negative_bound(logs: FloatArray) -> float:
            return -self._total_jct(self._priced(logs))

        # To begin with, a GPU is worth what it brings for a typical job that runs on every type.
        everywhere = np.isfinite(self.demand).all(axis=1)
        start = -np.log(self.demand[everywhere]).mean(axis=0) if everywhere.any() else np.zeros(len(self.num_gpus))
        found = scipy.optimize.minimize(
            negative_bound, start - start[0], method="Nelder-Mead", options={"maxfev": 40 * len(start)}
        )
        return self._priced(found.x)

    def _priced(self, logs: FloatArray) -> FloatArray:
        """float64[num_jobs]: the worth of each job's demand at prices proportional to `exp(logs)`."""
        prices = np.exp(logs - logs.max())
        prices /= prices @ self.num_gpus
        return np.asarray((self.demand * prices).min(axis=1))

    def _total_jct(self, seconds: FloatArray) -> Seconds:
        """The sum of the bounds of all busy periods, JCTs added up."""
        total = 0.0
        for period in busy_periods(self.submit_time, seconds):
            submit, alone, need = self.submit_time[period], self.alone[period], seconds[period]
            shortest = preemptive(submit, need, static=False)[0].sum() - submit.sum()
            total += max(float(alone.sum()), float(shortest), busy_date_bound(submit, alone, need))
        return total


def busy_periods(submit_time: FloatArray, seconds: FloatArray) -> list[IntArray]:
    """Jobs by the busy period of one machine in which they fall, in order of submission."""
    order = np.argsort(submit_time, kind="stable")
    begin = submit_time[order]
    done = np.cumsum(seconds[order])
    # When everybody so far is done on a machine that never rests while there is work.
    free_at = np.maximum.accumulate(begin - (done - seconds[order])) + done
    idle_before = np.concatenate([[False], begin[1:] >= free_at[:-1]])
    return [np.asarray(part) for part in np.split(order, np.flatnonzero(idle_before))]


def busy_date_bound(submit_time: FloatArray, alone: FloatArray, seconds: FloatArray) -> Seconds:
    """A lower bound on the sum of JCTs, in seconds, that counts both speed limits: of the cluster and of each job.

    A job that takes `alone` seconds at least ends no earlier than half of them after its mean busy date, the average
    time of its work. The sum of mean busy dates on one machine is least if the shortest job, by its whole length,
    always goes first (Goemans, Queyranne, Schulz, Skutella, Wang 2002, "Single machine scheduling with release dates").
    Without release dates this is the bound of Eastman, Even and Isaacs (1964).
    """
    _, busy_dates = preemptive(submit_time, seconds, static=True)
    return float((busy_dates + alone / 2 - submit_time).sum())


def preemptive(submit_time: FloatArray, seconds: FloatArray, *, static: bool) -> tuple[FloatArray, FloatArray]:
    """One machine that always works on the shortest job.

    Args:
        submit_time: float64[num_jobs].
        seconds: float64[num_jobs], of the machine.
        static: the shortest by its whole length, not by what remains.

    Returns:
        float64[num_jobs] twice: when each job ends, and the mean time of its work.
    """
    ends, moments = np.zeros(len(seconds)), np.zeros(len(seconds))
    left = seconds.tolist()
    waiting: list[tuple[float, int]] = []
    coming = np.argsort(submit_time, kind="stable").tolist()
    submit = submit_time.tolist()
    now, next_one = 0.0, 0
    while waiting or next_one < len(coming):
        if not waiting:
            now = max(now, submit[coming[next_one]])
        while next_one < len(coming) and submit[coming[next_one]] <= now:
            heapq.heappush(waiting, (left[coming[next_one]], coming[next_one]))
            next_one += 1
        key, job = heapq.heappop(waiting)
        until = submit[coming[next_one]] if next_one < len(coming) else np.inf
        step = min(left[job], until - now)
        moments[job] += step * (now + step / 2)
        now += step
        left[job] -= step
        if left[job] > 0:
            heapq.heappush(waiting, (key if static else left[job], job))
        else:
            ends[job] = now
    mean = np.divide(moments, seconds, out=ends.copy(), where=seconds > 0)
    return ends, mean


def batch_range(model: str, low: int, high: int) -> tuple[int, int] | None:
    """The batch sizes that may be named for a job: its own range within its model's.

    Args:
        model: as the performance model knows it.
        low: the job's own lower end; 0 leaves it to the profile.
        high: the job's own upper end; 0 leaves it to the profile.

    Returns:
        Both ends, or None where nobody knows a range, or where it is empty.
    """
    try:
        profile = model_profile(model)
        low, high = max(low, profile.min_batch), min(high or profile.max_batch, profile.max_batch)
    except PerformanceError:
        pass  # a model of the performance model's own: what the job says
    return (low, high) if 1 <= low <= high else None


def fastest_batch(speeds_at: Callable[[int], FloatArray], low: int, high: int) -> FloatArray:
    """At least the speeds at the fastest batch size of a range, and at most `BATCH_SLACK` more.

    Speed is nearly, but not exactly, monotone in the batch size: GPUs whose samples do not divide evenly wait, and
    measured peaks stand out. The search relies on steps that take no less time between two batch sizes b < c than at
    the quicker of both; tests hold this against every batch size. So no size between is faster than
    max(speed(b) (c - 1) / b, speed(c)), and only where that is more than the best found are sizes between asked.

    Args:
        speeds_at: of a batch size, float64[n], samples/s in n situations; 0 where it does not run.
        low: the least batch size.
        high: the largest batch size.

    Returns:
        float64[n], samples/s.
    """
    # Doublings to begin with: they find a performance model's own range within a wider one.
    ladder = [*(low << i for i in range((high // low).bit_length()) if low << i < high), high]
    speeds = {batch: speeds_at(batch) for batch in ladder}
    best = np.asarray(np.max(list(speeds.values()), axis=0))
    pending, settled = list(itertools.pairwise(ladder)), best.copy()
    while pending:
        below, above = pending.pop()
        between = np.maximum(speeds[below] * ((above - 1) / below), speeds[above])
        if above - below <= 1 or (between <= best * (1 + BATCH_SLACK)).all():
            settled = np.maximum(settled, between) if above - below > 1 else settled
            continue
        middle = min(max(math.isqrt(below * above), below + 1), above - 1)
        speeds[middle] = speeds_at(middle)
        best = np.maximum(best, speeds[middle])
        pending += [(below, middle), (middle, above)]  # the larger batches first: they are mostly the faster ones
    return np.asarray(np.maximum(settled, best))


def _speeds(
    name: str, ranges: IntArray, span: tuple[int, int] | None, cluster: ClusterSpec, performance: PerformanceModel
) -> FloatArray:
    """float64[num_gpu_types, sizes]: samples/s of a model on the fewest nodes that hold so many GPUs, of any type.

    Args:
        name: the model.
        ranges: int64[num_ranges, 2], fewest and most GPUs of its jobs.
        span: batch sizes that may be named; None leaves the batch size to the world.
        cluster: the nodes.
        performance: how fast jobs run.
    """
    first, last = int(ranges[:, 0].min()), min(int(ranges[:, 1].max()), cluster.num_gpus)
    sizes = list(range(first, last + 1))
    nodes = (np.searchsorted(np.cumsum(np.sort(cluster.node_gpus)[::-1]), sizes) + 1).tolist()
    speeds = np.zeros((len(cluster.gpu_types), last + 1))

    def world(kind: str, batch: int | None = None) -> FloatArray:
        return np.array(
            [performance.throughput(name, kind, *on, batch_size=batch) for on in zip(sizes, nodes, strict=True)]
        )

    def named(kind: str, batch: int) -> FloatArray:
        try:
            return world(kind, batch)
        except PerformanceError:  # the performance model knows a narrower range
            return np.zeros(len(sizes))

    for row, kind in enumerate(cluster.gpu_types):
        speeds[row, first:] = world(kind)
        if span and sizes:
            speeds[row, first:] = np.maximum(speeds[row, first:], fastest_batch(partial(named, kind), *span))
    return speeds
