"""A lower bound on mean JCT: the Lagrangian dual of a linear program with a price for each resource at every time.

Why every vector of prices gives a bound. In any schedule, job j is submitted at r, waits at least d, the shorter of
its start and restart delay, before its first sample, and ends at C. So its work w is done between r' = r + d and C,
and C >= r' + its least duration. At each time it is no faster than a mixture of `columns`, m, which holds no more than
it: a_mk of resource k (the GPUs, cores and GB of a GPU type), at x_m samples/s. All jobs together hold at most G_k of
it. With prices p_k(t) >= 0, the sum of JCTs is therefore at least

    sum_j [ d_j + min over C of (C - r'_j + least cost at these prices of w_j between r'_j and C) ] - sum_k G_k int p_k.

The least cost is a linear program in turn: for any value v >= 0 of a sample, it is at least v w - int max(0, max over
m of (v x_m - sum_k a_mk p_k(t))) dt. A grid of values gives a bound for every C; within a bucket of time, in which
prices are constant, each of these bounds is linear in C, so its least value is found exactly. The best value falls as
C grows, so it is looked for once along all buckets, and a worse one is no less a bound.

The bound holds for the jobs that it is given, and so for the jobs of a measurement window: leaving out other jobs only
helps these. It ignores where free GPUs are, restarts after the first start, failures, jobs' neighbours on the network
and the unknown future. It does not cover limits of run time.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from envs.simulation.compiled.jit import kernel, part
from envs.types import FloatArray, IntArray, Seconds

VALUES = np.concatenate([[0.0], np.geomspace(1e-3, 100.0, 70)])  # of a sample, in least GPU-seconds for it
BUCKETS = 200  # of time
EVEN = 0.7  # of the buckets are even ones, while jobs arrive
HORIZON = 1.6  # how long prices last, in least makespans
BEYOND: Seconds = 1e6  # how far past the last price completions are looked at
STEPS = (15, 40, 150)  # of ascent: with fewer than the first, the search is left out; usually; of few jobs, at most
FIRST_STEP = 0.7  # relative to the mean of the first prices
OPERATIONS = (1.5e8, 1e9)  # of all steps, up to which there are more than usual; at most, about five CPU-seconds
ROUNDING = 1e-10  # relative, of sums of costs


class Prices(NamedTuple):
    """Gains of a class of jobs at some prices, for each value of a sample and bucket: arrays that `gains_of` writes.

    Fields:
        values: float64[num_values], of a sample.
        edges: float64[num_buckets + 1], seconds.
        gain: float64[num_values, num_buckets], per second.
        total: float64[num_values, num_buckets + 1], its integral up to each edge.
        free: float64[num_values], the gain where everything is free, after the last edge.
        column: int64[num_values, num_buckets], which column gains so much; -1 for none.
    """

    values: FloatArray
    edges: FloatArray
    gain: FloatArray
    total: FloatArray
    free: FloatArray
    column: IntArray


class PriceWorkspace(NamedTuple):
    """Arrays that kernels write.

    Fields:
        stack: int64[most_columns + 1], columns of which each is the best from some value on.
        begins: float64[most_columns + 1], these values.
        costs: float64[most_columns + 1], their costs per second.
        usage: float64[3, num_gpu_types, num_buckets], resource-seconds that jobs use at some prices.
    """

    stack: IntArray
    begins: FloatArray
    costs: FloatArray
    usage: FloatArray


@kernel
def price_class(
    columns: FloatArray, jobs: FloatArray, prices: FloatArray, found: Prices, workspace: PriceWorkspace
) -> float:
    """Return the sum of the least costs of the jobs of a class, in seconds, and add what they use.

    Args:
        columns: float64[num_columns, 5], ascending in samples/s; see `ColumnBuilder.of_range`.
        jobs: float64[num_jobs, 3], release in seconds, work in samples, least duration in seconds.
        prices: float64[3, num_gpu_types, num_buckets], of a second of a GPU, a core and a GB.
        found: of the class; written.
        workspace: written.
    """
    for a in range(len(found.values)):
        found.total[a, 0] = 0.0
        found.free[a] = found.values[a] * columns[len(columns) - 1, 4]
    for bucket in range(prices.shape[2]):
        gains_of(columns, prices, bucket, found, workspace)
    total = 0.0
    for job in range(len(jobs)):
        total += job_bound(jobs[job], columns, found, workspace.usage)
    return total


@part
def gains_of(columns: FloatArray, prices: FloatArray, bucket: int, found: Prices, workspace: PriceWorkspace) -> None:
    """Write the largest gain of a class in a bucket for each value: the upper envelope of a line for each column."""
    stack, begins, costs, _ = workspace
    free = True
    for resource in range(prices.shape[0]):
        for gpu_type in range(prices.shape[1]):
            free = free and prices[resource, gpu_type, bucket] == 0.0
    stack[0], begins[0], costs[0], depth = -1, 0.0, 0.0, 1
    for m in range(len(columns) - 1 if free else 0, len(columns)):  # the fastest one if nothing costs
        gpu_type, throughput, cost = int(columns[m, 0]), columns[m, 4], 0.0
        for resource in range(prices.shape[0]):
            cost += columns[m, 1 + resource] * prices[resource, gpu_type, bucket]
        while True:
            below = stack[depth - 1]
            rise = throughput - columns[below, 4] if below >= 0 else throughput
            begin = (cost - costs[depth - 1]) / rise if rise > 0 else np.inf
            if rise <= 0 and cost >= costs[depth - 1]:
                break
            if depth == 1 or (rise > 0 and begin > begins[depth - 1]):
                stack[depth], begins[depth], costs[depth] = m, begin, cost
                depth += 1
                break
            depth -= 1
    at, width = 0, found.edges[bucket + 1] - found.edges[bucket]
    for a in range(len(found.values)):
        while at + 1 < depth and begins[at + 1] <= found.values[a]:
            at += 1
        best = stack[at]
        found.column[a, bucket] = best
        gain = found.values[a] * columns[best, 4] - costs[at] if best >= 0 else 0.0
        found.gain[a, bucket] = gain
        found.total[a, bucket + 1] = found.total[a, bucket] + gain * width


@part
def job_bound(job: FloatArray, columns: FloatArray, found: Prices, usage: FloatArray) -> float:
    """Return the least cost of a job over all completions, in seconds, and add what that schedule uses to `usage`."""
    values, edges, gain, _, free, column = found
    release, work, alone = job[0], job[1], job[2]
    buckets = gain.shape[1]
    first = max(np.searchsorted(edges, release, side="right") - 1, 0)
    start = max(np.searchsorted(edges, release + alone, side="right") - 1, 0)
    best, left_line, right_line, weight, end = np.inf, 0, 0, 1.0, release + alone
    a = len(values) - 1
    for i in range(start, buckets + 1):
        left = release + alone if i == start else edges[i]
        if left - release >= best:  # every later completion costs more
            break
        right = edges[i + 1] if i < buckets else left + BEYOND
        a1 = best_value(a, left, i, release, work, first, found)
        a2 = best_value(a1, right, i, release, work, first, found)
        a = a2
        at_left = cost_at(a1, left, i, release, work, first, found)
        at_right = cost_at(a2, right, i, release, work, first, found)
        rise1 = 1 - (gain[a1, i] if i < buckets else free[a1])
        rise2 = 1 - (gain[a2, i] if i < buckets else free[a2])
        least, x, share = at_left, 0.0, 1.0
        if rise1 < 0 and rise2 <= 0:
            least, x, share = at_right, 1.0, 0.0
        elif rise1 < 0:  # the lines cross
            fall, ascent = -rise1 * (right - left), rise2 * (right - left)
            x = (at_left - at_right + ascent) / (fall + ascent)
            least, share = at_left - x * fall, rise2 / (rise2 - rise1)
        if i == buckets:
            least = min(least, right - release)  # of completions later still
        if least < best:
            best, left_line, right_line, weight, end = least, a1, a2, share, left + x * (right - left)
    for line in range(2):
        chosen, share = (left_line, weight) if line == 0 else (right_line, 1 - weight)
        for i in range(first, buckets if share > 0 else 0):
            if edges[i] >= end:
                break
            held = column[chosen, i]
            seconds = share * max(min(end, edges[i + 1]) - max(release, edges[i]), 0.0)
            for resource in range(usage.shape[0] if held >= 0 else 0):
                usage[resource, int(columns[held, 0]), i] += seconds * columns[held, 1 + resource]
    return float(max(best, alone))


@part
def best_value(start: int, end: float, bucket: int, release: float, work: float, first: int, found: Prices) -> int:
    """Return the first value, from `start` down, of which the next one down makes a completion cost less."""
    chosen, cost = start, cost_at(start, end, bucket, release, work, first, found)
    while chosen > 0:
        lower = cost_at(chosen - 1, end, bucket, release, work, first, found)
        if lower < cost:
            break
        chosen, cost = chosen - 1, lower
    return chosen


@part
def cost_at(a: int, end: float, bucket: int, release: float, work: float, first: int, found: Prices) -> float:
    """Return the cost of a completion within a bucket at a value of a sample: what every such completion costs."""
    buckets = found.gain.shape[1]
    slope = found.gain[a, bucket] if bucket < buckets else found.free[a]
    before = found.gain[a, first] if first < buckets else found.free[a]
    earned = found.total[a, bucket] + (end - found.edges[bucket]) * slope
    earned -= found.total[a, first] + (release - found.edges[first]) * before
    return float(end - release + found.values[a] * work - earned)


@dataclass(frozen=True)
class TimePrices:
    """Jobs for which prices at every time are searched.

    Attributes:
        jobs: float64[num_jobs, 3], release in seconds, work in samples, least duration in seconds.
        job_class: int64[num_jobs], an index of `columns`.
        columns: for each class its columns, see `ColumnBuilder.of_range`.
        supply: float64[3, num_gpu_types], GPUs, cores and GB; the first row alone if only GPUs count.
    """

    jobs: FloatArray
    job_class: IntArray
    columns: Sequence[FloatArray]
    supply: FloatArray

    def of_jobs(self, some: IntArray) -> "TimePrices":
        """Return some of the jobs."""
        return replace(self, jobs=self.jobs[some], job_class=self.job_class[some])

    @property
    def digest(self) -> str:
        """A hash of the jobs, columns and supply with seven significant digits, and of how prices are searched."""
        used, job_class = np.unique(self.job_class, return_inverse=True)
        arrays = self.jobs, job_class, self.supply, *(self.columns[index] for index in used.tolist())
        found = hashlib.sha256(repr((len(VALUES), BUCKETS, EVEN, HORIZON, STEPS, FIRST_STEP, OPERATIONS)).encode())
        for array in arrays:
            size = np.floor(np.log10(np.where(array == 0, 1.0, np.abs(array))))
            found.update(repr(array.shape).encode() + np.rint(array / 10.0 ** (size - 6)).tobytes() + size.tobytes())
        return found.hexdigest()[:20]

    def total_jct(self, makespan: Seconds) -> Seconds:
        """Return a lower bound on the sum of completion - release, in seconds; of no use, 0, for very many jobs.

        Each step of ascent moves the prices along a momentum of the supergradient, what is used less what there is.

        Args:
            makespan: a lower bound on last completion - first release, in seconds.
        """
        buckets = min(BUCKETS, 16 * len(self.jobs))
        edges = self._edges(buckets, makespan)
        spare, most = (int(allowed / self._operations(buckets)) for allowed in OPERATIONS)
        fewest, usual, many = STEPS
        steps = min(max(usual, min(spare, many)), most)
        if steps < fewest or not makespan > 0:
            return 0.0
        prices = self._first_prices(edges)
        scale = FIRST_STEP * prices[0][prices[0] > 0].mean() if prices.any() else 0.0
        units = self.supply[0] / self.supply  # of a resource in GPUs
        best, mean, square = -np.inf, np.zeros_like(prices), 0.0
        for step in range(steps):
            value, gradient = self.total(prices * units[:, :, None], edges)
            best = max(best, value)
            gradient = gradient * units[:, :, None]
            mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * float((gradient[0] ** 2).mean())
            length = scale * (0.5 + 0.5 * np.cos(np.pi * step / steps) + 0.005) / (1 - 0.9 ** (step + 1))
            prices = np.maximum(prices + length * mean / np.sqrt(square / (1 - 0.99 ** (step + 1)) + 1e-12), 0.0)
        return best - ROUNDING * abs(best)

    def total(self, prices: FloatArray, edges: FloatArray) -> tuple[Seconds, FloatArray]:
        """Return the bound on the sum at some prices, and its supergradient.

        Args:
            prices: float64 of the shape of `supply` and num_buckets, of a second of each resource, at least 0.
            edges: float64[num_buckets + 1], seconds, ascending, the first not after the first release.
        """
        shape, most = (len(VALUES), prices.shape[2]), max(map(len, self.columns)) + 1
        workspace = PriceWorkspace(np.empty(most, np.int64), np.empty(most), np.empty(most), np.zeros(prices.shape))
        arrays = np.empty(shape), np.empty((shape[0], shape[1] + 1)), np.empty(shape[0]), np.empty(shape, np.int64)
        there = self.supply[:, :, None] * np.diff(edges)
        total = -float((there * prices).sum())
        for index in np.unique(self.job_class).tolist():
            columns = self.columns[index]
            values = VALUES / (columns[:, 4] / columns[:, 1]).max()
            jobs = self.jobs[self.job_class == index]
            total += price_class(columns, jobs, prices, Prices(values, edges, *arrays), workspace)
        return total, workspace.usage - there

    def _edges(self, buckets: int, makespan: Seconds) -> FloatArray:
        """float64[num_buckets + 1]: even ones while jobs arrive, then ever longer ones."""
        first, fine = self.jobs[:, 0].min(), int(EVEN * buckets)
        even = max(np.ptp(self.jobs[:, 0]), 0.3 * makespan)
        late = even + (HORIZON * makespan - even) * np.linspace(0, 1, buckets - fine + 1) ** 2
        return np.asarray(first + np.concatenate([np.linspace(0, even, fine + 1), late[1:]]))

    def _operations(self, buckets: int) -> float:
        """Return about how many operations a step takes."""
        columns = sum(len(self.columns[index]) for index in np.unique(self.job_class).tolist())
        values = len(VALUES) * len(np.unique(self.job_class))
        return float(buckets * (4 * columns + values) + len(self.jobs) * 4 * (buckets + len(VALUES)))

    def _first_prices(self, edges: FloatArray) -> FloatArray:
        """float64 of the shape of `supply` and num_buckets: half the jobs that would be there alone, for each GPU."""
        middle = (edges[1:] + edges[:-1]) / 2
        present = (self.jobs[:, :1] <= middle) & (middle < (self.jobs[:, :1] + self.jobs[:, 2:]))
        worth = np.zeros(self.supply.shape[1])
        for columns in self.columns:
            each = columns[:, 4] / columns[:, 1]
            np.maximum.at(worth, columns[:, 0].astype(np.int64), each / each.max())
        prices = np.zeros((*self.supply.shape, len(middle)))
        prices[0] = 0.5 * worth[:, None] / (worth @ self.supply[0]) * present.sum(axis=0)
        return prices
