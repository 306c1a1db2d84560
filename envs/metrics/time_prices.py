"""A tighter lower bound on mean JCT: the Lagrangian dual of a linear program with a price for GPUs at every time.

Why every vector of prices gives a bound. In any schedule, job j is submitted at r, waits at least d, the shorter of
its start and restart delay, before its first sample, and ends at C. So its work w is done between r' = r + d and C,
and C >= r' + its least duration. At each time it runs at some size n on some GPU type k and progresses at x_kn at
most; on several types at once, it is no faster than a mixture of their sizes n, in the shares in which it holds the
types. All jobs together hold at most G_k GPUs. With prices p_k(t) >= 0, the sum of JCTs is therefore at least

    sum_j [ d_j + min over C of (C - r'_j + least cost at these prices of w_j between r'_j and C) ] - sum_k G_k int p_k.

The least cost is a linear program in turn: for any value v >= 0 of a sample, it is at least v w - int max(0, max over
k, n of (v x_kn - n p_k(t))) dt. A grid of values gives a bound for every C; within a bucket of time, in which prices
are constant, each of these bounds is linear in C, so its least value is found exactly. If two jobs share a GPU, each
counts as its throughput's share of `most_together` of a GPU, so no GPU is counted twice.

The bound holds for the jobs that it is given: leaving out other jobs only helps these. It ignores nodes, restarts,
failures, cores and the unknown future. It does not cover limits of run time and jobs that may never run.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from envs.metrics.bounds import Relaxation, most_throughputs, most_together
from envs.simulation import Setup
from envs.types import FloatArray, IntArray, MurmurationError, Seconds
from envs.workloads import Workload
from envs.workloads.classes import classes_of
from envs.workloads.waiting import ANY

VALUES = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 63)])  # of a sample, in least GPU-seconds for it
BUCKETS = 200  # of time
HORIZON = 1.2  # how long prices last, in least makespans
BEYOND: Seconds = 1e6  # how far past the last price completions are looked at


@njit(cache=True)
def _best_columns(columns, values, prices, gain, held, held_type):  # type: ignore[no-untyped-def]
    """Write, for each value and bucket, the largest gain per second, and the GPUs and the type of its column.

    Args:
        columns: float64[num_columns, 3], GPU type, GPUs counted, samples/s.
        values: float64[num_values], of a sample.
        prices: float64[num_gpu_types, num_buckets], of a GPU-second.
        gain: float64[num_values, num_buckets], output.
        held: float64[num_values, num_buckets], output: GPUs.
        held_type: int64[num_values, num_buckets], output: their type.
    """
    for a in range(len(values)):
        for i in range(prices.shape[1]):
            best, gpus, gpu_type = 0.0, 0.0, 0
            for m in range(len(columns)):
                k = int(columns[m, 0])
                net = values[a] * columns[m, 2] - prices[k, i] * columns[m, 1]
                if net > best:
                    best, gpus, gpu_type = net, columns[m, 1], k
            gain[a, i], held[a, i], held_type[a, i] = best, gpus, gpu_type


@njit(cache=True)
def _lowest(at_left, at_right, rise_left, rise_right, width):  # type: ignore[no-untyped-def]
    """Return the least value over a bucket of the larger of two lines, where it is (0 to 1), and the first's weight.

    The first line has the value `at_left` and the slope `rise_left` at the left end; the second is `at_right` at the
    right end, where its slope is `rise_right`.
    """
    if rise_left >= 0:
        return at_left, 0.0, 1.0
    if rise_right <= 0:
        return at_right, 1.0, 0.0
    first_end, second_start = at_left + width * rise_left, at_right - width * rise_right
    steep = (at_right - second_start) - (first_end - at_left)
    x = (at_left - second_start) / steep
    return at_left + x * (first_end - at_left), x, (at_right - second_start) / steep


@njit(cache=True)
def _job_bound(job, values, edges, gain, total, free_gain, held, held_type, usage):  # type: ignore[no-untyped-def]
    """Return the least cost of a job over all completions, and add the GPU-seconds of that schedule to `usage`.

    Args:
        job: release in seconds, work in samples, least duration in seconds.
        values: float64[num_values].
        edges: float64[num_buckets + 1], seconds.
        gain: float64[num_values, num_buckets], as of `_best_columns`.
        total: float64[num_values, num_buckets + 1], the integral of `gain` up to each edge.
        free_gain: float64[num_values], the gain where GPUs are free, after the last edge.
        held: as of `_best_columns`.
        held_type: as of `_best_columns`.
        usage: float64[num_gpu_types, num_buckets], GPU-seconds, added to.
    """
    release, work, alone = job
    count, buckets = gain.shape
    step = edges[1] - edges[0]
    first = min(int((release - edges[0]) / step), buckets)
    earliest = release + alone
    start = min(int((earliest - edges[0]) / step), buckets)
    best, left_line, right_line, weight, end = np.inf, 0, 0, 1.0, earliest
    for i in range(start, buckets + 1):
        left = earliest if i == start else edges[i]
        if left - release >= best:  # every later completion costs more
            break
        right = edges[i + 1] if i < buckets else left + BEYOND
        at_left, at_right, a1, a2 = -np.inf, -np.inf, 0, 0
        for a in range(count):
            slope = gain[a, i] if i < buckets else free_gain[a]
            inside = gain[a, first] if first < buckets else free_gain[a]
            earned = total[a, i] + (left - edges[i]) * slope - total[a, first] - (release - edges[first]) * inside
            low = left - release + values[a] * work - earned
            high = low + (right - left) * (1 - slope)
            if low > at_left:
                at_left, a1 = low, a
            if high > at_right:
                at_right, a2 = high, a
        slope1 = gain[a1, i] if i < buckets else free_gain[a1]
        slope2 = gain[a2, i] if i < buckets else free_gain[a2]
        least, x, share = _lowest(at_left, at_right, 1 - slope1, 1 - slope2, right - left)
        if i == buckets:
            least = min(least, right - release)  # of completions later still
        if least < best:
            best, left_line, right_line, weight, end = least, a1, a2, share, left + x * (right - left)
    for a, share in ((left_line, weight), (right_line, 1 - weight)):
        for i in range(first, buckets):
            if edges[i] >= end:
                break
            seconds = min(end, edges[i + 1]) - max(release, edges[i])
            usage[held_type[a, i], i] += share * held[a, i] * max(seconds, 0.0)
    return max(best, alone)


@dataclass(frozen=True)
class TimePrices:
    """Some jobs of a workload, for which prices at every time are searched.

    Attributes:
        jobs: float64[num_jobs, 3], release in seconds, work in samples, least duration in seconds.
        job_class: int64[num_jobs], an index of `columns`.
        columns: for each class float64[num_columns, 3], GPU type, GPUs counted, samples/s.
        num_gpus: int64[num_gpu_types].
        delays: the sum of the delays that are certain, in seconds.
        makespan: a lower bound on last finish - first submission, in seconds.
    """

    jobs: FloatArray
    job_class: IntArray
    columns: tuple[FloatArray, ...]
    num_gpus: IntArray
    delays: Seconds
    makespan: Seconds

    @classmethod
    def of(cls, workload: Workload, setup: Setup, some: IntArray) -> "TimePrices":
        """Relax some jobs of a workload, at the batch sizes and plans that the simulator chooses.

        Raises:
            MurmurationError: a job has a limit of run time or may never run, so this bound does not hold for it.
            ClusterError: a job does not run on the cluster.
        """
        if workload.limited or any(met_by != ANY for _, _, met_by in workload.dependencies):
            raise MurmurationError(
                f"workload {workload.name}: time-priced bounds do not cover time limits and jobs that may never run; "
                "use `Relaxation.mean_jct`"
            )
        rows, relaxation = workload.jobs[some], Relaxation.of(workload, setup).of_jobs(some)
        distinct, job_class = classes_of(np.stack([rows[name] for name in ("model", "min_gpus", "max_gpus")], axis=1))
        share, columns = most_together(workload, setup), []
        for model, *sizes in distinct.tolist():
            throughputs, _ = most_throughputs(workload.models[model], np.array([sizes]), None, setup)
            types, gpus = np.nonzero(throughputs)
            columns.append(np.stack([types, gpus / share[types], throughputs[types, gpus]], axis=1))
        # A restart during the start delay ends it, so only the shorter of the two delays is certain.
        delays = np.minimum(*setup.scenario.delays(workload.models))[rows["model"]]
        jobs = np.stack([rows["submit_time"] + delays, rows["work"], relaxation.alone], axis=1)
        return cls(jobs, job_class, tuple(columns), relaxation.num_gpus, float(delays.sum()), relaxation.makespan())

    def mean_jct(self, steps: int = 60) -> Seconds:
        """A lower bound on the mean JCT of these jobs, in seconds, after a number of steps of ascent; NaN without jobs.

        Each step moves the prices along a momentum of the supergradient, GPU-seconds used less those there are.
        """
        if not len(self.jobs):
            return float("nan")
        edges = self._edges()
        prices = self._first_prices(edges)
        scale = 0.15 * prices[prices > 0].mean() if prices.any() else 0.0
        best, mean, square = -np.inf, np.zeros_like(prices), 0.0
        for step in range(steps):
            value, gradient = self.total(prices, edges)
            best = max(best, value)
            mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * float((gradient**2).mean())
            length = scale * (0.5 + 0.5 * np.cos(np.pi * step / steps) + 0.005) / (1 - 0.9 ** (step + 1))
            prices = np.maximum(prices + length * mean / np.sqrt(square / (1 - 0.99 ** (step + 1)) + 1e-12), 0.0)
        return best / len(self.jobs)

    def total(self, prices: FloatArray, edges: FloatArray) -> tuple[Seconds, FloatArray]:
        """Return the bound on the sum of JCTs at some prices, and its supergradient.

        Args:
            prices: float64[num_gpu_types, num_buckets], of a GPU-second, at least 0.
            edges: float64[num_buckets + 1], seconds, evenly spaced, the first not after the first submission.
        """
        width, usage = edges[1] - edges[0], np.zeros_like(prices)
        supply = np.repeat(self.num_gpus[:, None] * width, prices.shape[1], axis=1)
        total = self.delays - float((supply * prices).sum())
        shape = len(VALUES), prices.shape[1]
        for index, columns in enumerate(self.columns):
            values = VALUES / (columns[:, 2] / columns[:, 1]).max()
            gain, held, held_type = np.empty(shape), np.empty(shape), np.empty(shape, np.int64)
            _best_columns(columns, values, prices, gain, held, held_type)
            summed = np.concatenate([np.zeros((len(values), 1)), np.cumsum(gain, axis=1) * width], axis=1)
            free = values * columns[:, 2].max()
            for job in self.jobs[self.job_class == index]:
                total += _job_bound(job, values, edges, gain, summed, free, held, held_type, usage)
        return total, usage - supply

    def _edges(self) -> FloatArray:
        """float64[num_buckets + 1]: the buckets of time with prices."""
        first = self.jobs[:, 0].min()
        return np.linspace(first, first + HORIZON * self.makespan, BUCKETS + 1)

    def _first_prices(self, edges: FloatArray) -> FloatArray:
        """float64[num_gpu_types, num_buckets]: half the jobs that would be there, each alone, for each GPU."""
        middle = (edges[1:] + edges[:-1]) / 2
        present = (self.jobs[:, :1] <= middle) & (middle < (self.jobs[:, :1] + self.jobs[:, 2:]))
        worth = np.zeros(len(self.num_gpus))
        for columns in self.columns:
            each = columns[:, 2] / columns[:, 1]
            np.maximum.at(worth, columns[:, 0].astype(np.int64), each / each.max())
        return np.asarray(0.5 * worth[:, None] / (worth @ self.num_gpus) * present.sum(axis=0))
