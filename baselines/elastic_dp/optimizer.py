"""Share out GPUs so that the sum of values is largest: a dynamic program, and a bound that proves its result.

The recurrence is that of elastic scaling with batch sizes (Saxena et al., "Effective Elastic Scaling of Deep Learning
Workloads", MASCOTS 2020; also US patent 11,586,475): P(j, K) is the best value of the first j jobs on K GPUs,

    P(j, K) = max over g of P(j - 1, K - g) + value_j(g),        every job gets one of its sizes.

The paper's program runs over all sizes. Here most sizes are ruled out beforehand, with the same result. If each job's
values are replaced by their upper concave hull, sharing out by falling slope is optimal (Ibaraki and Katoh 1988,
chapter 4), so its value is an upper bound. Shares that reach the bound, as they do if the last GPU completes a slope,
are proved optimal without a program. Otherwise the slope at which the GPUs end is a price per GPU. A size that loses
more at this price than the gap between the bound and the best known shares is in no better result (reduced costs; Dyer,
Kayal and Walker 1984 for multiple-choice knapsacks). The program runs over the remaining sizes.
"""

from dataclasses import dataclass

import numpy as np

from envs.simulation.compiled.jit import jit
from envs.types import BoolArray, FloatArray, IntArray

_ROUNDING = 1e-9  # relative to the sum of values: no size is ruled out by a smaller difference


@dataclass(frozen=True)
class OptimalShares:
    """GPUs for each job, with the bound that proves them optimal.

    Attributes:
        sizes: int64[num_jobs], GPUs.
        value: sum of the jobs' values.
        bound: upper bound on the value of any shares, from the concave hulls.
        cells: entries of the dynamic program that were computed; 0 if the bound alone proved the shares.
    """

    sizes: IntArray
    value: float
    bound: float
    cells: int


@dataclass(frozen=True)
class Hulls:
    """Shares by the concave hulls: the start of the dynamic program, or its replacement.

    Attributes:
        sizes: int64[num_jobs], the shares; they may leave some GPUs unused.
        bound: value of the hulls with the last slope taken in part.
        price: value per GPU of the slope at which the GPUs end; 0 if GPUs are left over.
    """

    sizes: IntArray
    bound: float
    price: float


def best_shares(values: FloatArray, capacity: int, *, prune: bool = True) -> OptimalShares:
    """Find the shares of largest value; deterministic.

    Args:
        values: float64[num_jobs, sizes], value of a job on so many GPUs; -inf where it cannot run. Column 0 is a job
            without GPUs.
        capacity: GPUs of all jobs together.
        prune: whether sizes are ruled out by the bound; if False, this is the paper's program unchanged.

    Raises:
        ValueError: a job has no size, or the least sizes of all jobs together exceed the capacity.
    """
    jobs = np.arange(len(values))
    least = np.isfinite(values).argmax(axis=1)
    if not np.isfinite(values[jobs, least]).all():
        raise ValueError(f"job {int(np.isfinite(values[jobs, least]).argmin())} has no size on which it runs")
    if least.sum() > capacity:
        raise ValueError(f"the least sizes of {len(values)} jobs add up to {least.sum()} GPUs; there are {capacity}")
    hulls = share_by_hulls(values, least, capacity)
    sizes, cells = hulls.sizes, 0
    if prune:
        fill_up(values, sizes, capacity - int(sizes.sum()))
        if hulls.bound - values[jobs, sizes].sum() > _rounding(hulls.bound):
            sizes, cells = _program(values, worth_keeping(values, sizes, hulls), capacity, sizes)
    else:
        sizes, cells = _program(values, np.isfinite(values), capacity, sizes)
    return OptimalShares(sizes, float(values[jobs, sizes].sum()), hulls.bound, cells)


def share_by_hulls(values: FloatArray, least: IntArray, capacity: int) -> Hulls:
    """Give least sizes, then take steps along the concave hulls by falling slope until one does not fit.

    Args:
        values: as for `best_shares`.
        least: int64[num_jobs], least sizes; together at most `capacity`.
        capacity: GPUs.
    """
    count, corners = concave_hulls(values, least)
    job = np.repeat(np.arange(len(values)), count - 1)
    step = np.arange(len(job)) - np.repeat(np.cumsum(count - 1) - (count - 1), count - 1)
    start, end = corners[job, step], corners[job, step + 1]
    slope = (values[job, end] - values[job, start]) / (end - start)
    order = np.argsort(-slope, kind="stable")
    used = np.cumsum((end - start)[order])
    room = capacity - int(least.sum())
    whole = int(np.searchsorted(used, room, side="right"))
    sizes = least.astype(np.int64)
    np.maximum.at(sizes, job[order[:whole]], end[order[:whole]])
    bound = float(values[np.arange(len(values)), sizes].sum())
    left = room - (int(used[whole - 1]) if whole else 0)
    if whole == len(order):
        return Hulls(sizes, bound, 0.0)
    price = float(slope[order[whole]])
    return Hulls(sizes, bound + left * price, price)


def worth_keeping(values: FloatArray, sizes: IntArray, hulls: Hulls) -> BoolArray:
    """bool[num_jobs, sizes]: sizes that might be part of better shares than `sizes`, and `sizes` themselves.

    At the price each job has a best size. The worth of these sizes plus the price of all GPUs is the bound. A size that
    is worth less than its job's best size, by more than the gap between the bound and the value of `sizes`, cannot be
    part of better shares.
    """
    jobs = np.arange(len(values))
    worth = values - hulls.price * np.arange(values.shape[1])
    value = float(values[jobs, sizes].sum())
    allowed = hulls.bound - value + _rounding(value)
    keep: BoolArray = worth >= worth.max(axis=1, keepdims=True) - allowed
    keep[jobs, sizes] = True
    return keep


def _rounding(value: float) -> float:
    return _ROUNDING * (1.0 + abs(value))


def _program(values: FloatArray, keep: BoolArray, capacity: int, known: IntArray) -> tuple[IntArray, int]:
    """Run the program over the kept sizes; return the best sizes, or `known` if none are better, and the entries."""
    jobs = np.arange(len(values))
    open_jobs = np.flatnonzero(keep.sum(axis=1) > 1)
    if not open_jobs.size:
        return known, 0
    sizes = keep.argmax(axis=1).astype(np.int64)
    room = capacity - int(sizes.sum() - sizes[open_jobs].sum())
    rows, size = np.nonzero(keep[open_jobs])
    first = np.searchsorted(rows, np.arange(len(open_jobs) + 1))
    sizes[open_jobs], cells = maximise(size, values[open_jobs[rows], size], first, room)
    better = values[jobs, sizes].sum() > values[jobs, known].sum()
    return (sizes if better else known), int(cells)


@jit
def concave_hulls(values: FloatArray, least: IntArray) -> tuple[IntArray, IntArray]:
    """Find the corners of each job's upper concave hull, from its least size to the smallest size of largest value.

    Args:
        values: float64[num_jobs, sizes], -inf where a job cannot run.
        least: int64[num_jobs], least sizes.

    Returns:
        int64[num_jobs], number of corners; int64[num_jobs, sizes], their sizes, ascending; slopes between them fall
        and are positive.
    """
    corners = np.zeros(values.shape, np.int64)
    count = np.zeros(len(values), np.int64)
    for job in range(len(values)):
        corner = corners[job]
        value = values[job]
        n = 0
        for size in range(least[job], values.shape[1]):
            if n > 0 and not value[size] > value[corner[n - 1]]:
                continue  # more GPUs for no more value
            while n > 1 and (value[size] - value[corner[n - 1]]) * (corner[n - 1] - corner[n - 2]) >= (
                value[corner[n - 1]] - value[corner[n - 2]]
            ) * (size - corner[n - 1]):
                n -= 1
            corner[n] = size
            n += 1
        count[job] = n
    return count, corners


@jit
def fill_up(values: FloatArray, sizes: IntArray, room: int) -> None:
    """Give out GPUs left over: each time the step of largest gain that fits, the lowest job's of equals."""
    while room > 0:
        gain = 0.0
        best = -1
        size = 0
        for job in range(len(values)):
            now = sizes[job]
            for more in range(now + 1, min(now + room + 1, values.shape[1])):
                if values[job, more] - values[job, now] > gain:
                    gain = values[job, more] - values[job, now]
                    best = job
                    size = more
        if best < 0:
            return
        room -= size - sizes[best]
        sizes[best] = size


@jit
def maximise(size: IntArray, value: FloatArray, first: IntArray, capacity: int) -> tuple[IntArray, int]:
    """Solve the recurrence of the module over lists of sizes: the sizes of largest value, the smallest of equals.

    Args:
        size: int64[num_options], sizes, job after job, ascending within each.
        value: float64[num_options], their values.
        first: int64[num_jobs + 1], where each job's options begin; at least one for each job.
        capacity: GPUs; at least the sum of the least sizes.

    Returns:
        int64[num_jobs], and the number of table entries computed.
    """
    num_jobs = len(first) - 1
    low = np.zeros(num_jobs + 1, np.int64)  # fewest and most GPUs that the first j jobs may use together
    high = np.zeros(num_jobs + 1, np.int64)
    later = np.int64(0)  # fewest GPUs of the later jobs
    for job in range(num_jobs):
        low[job + 1] = low[job] + size[first[job]]
        high[job + 1] = high[job] + size[first[job + 1] - 1]
    for job in range(num_jobs, -1, -1):
        high[job] = min(high[job], capacity - later)
        later += size[first[job - 1]] if job > 0 else 0
    start = np.zeros(num_jobs + 2, np.int64)  # where each job's row begins: rows hold exactly low to high GPUs
    for job in range(num_jobs + 1):
        start[job + 1] = start[job] + high[job] - low[job] + 1
    best = np.full(start[num_jobs + 1], -np.inf)
    best[0] = 0.0
    for job in range(num_jobs):
        before = best[start[job] : start[job + 1]]
        row = best[start[job + 1] : start[job + 2]]
        for option in range(first[job], first[job + 1]):
            shift = low[job] + size[option] - low[job + 1]
            reach = min(len(before), len(row) - shift)
            more = value[option]
            for used in range(reach):
                row[shift + used] = max(row[shift + used], before[used] + more)
    return trace_back(size, value, first, best, start, low), start[num_jobs + 1]


@jit
def trace_back(
    size: IntArray, value: FloatArray, first: IntArray, best: FloatArray, start: IntArray, low: IntArray
) -> IntArray:
    """Trace the sizes of the largest entry of the last row of `maximise`, at the fewest GPUs among equals."""
    num_jobs = len(first) - 1
    used = low[num_jobs] + np.argmax(best[start[num_jobs] : start[num_jobs + 1]])
    chosen = np.zeros(num_jobs, np.int64)
    for job in range(num_jobs - 1, -1, -1):
        target = best[start[job + 1] + used - low[job + 1]]
        for option in range(first[job], first[job + 1]):
            at = used - size[option] - low[job]
            if 0 <= at < start[job + 1] - start[job] and best[start[job] + at] + value[option] == target:
                chosen[job] = size[option]
                used -= size[option]
                break
    return chosen
