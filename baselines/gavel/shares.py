"""Gavel's optimisation problems: the share of its time that each job spends on each GPU type.

Shares are float64[num_jobs, num_gpu_types]; rows sum to at most 1, and the average demand for a type is at most its
number of GPUs (Narayanan et al., OSDI'20, section 4.1). All problems are linear programs, solved by HiGHS within a
limit of iterations. An unsolved program falls back to equal shares and is counted as a failure.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from baselines.parts.highs import ITERATION_LIMIT, solve_linear
from envs.types import FloatArray, IntArray

_CLOSE = 1e-3  # relative width at which the bisection of the finish-time ratio ends
MOST_STEPS = 30  # of the bisection


@dataclass(frozen=True)
class Sharing:
    """Jobs and the GPUs that they share.

    Attributes:
        throughput: float64[num_jobs, num_gpu_types], samples/s on the requested GPUs; 0 where a job does not run.
        gpus: int64[num_jobs], GPUs of each job.
        capacity: int64[num_gpu_types], GPUs of each type.
        iteration_limit: simplex iterations of each linear program.
    """

    throughput: FloatArray
    gpus: IntArray
    capacity: IntArray
    iteration_limit: int = ITERATION_LIMIT

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return len(self.gpus)

    @cached_property
    def proportional(self) -> FloatArray:
        """float64[num_jobs]: samples/s with time split over types by their GPUs; 0 only for a job that cannot run."""
        throughput: FloatArray = self.throughput @ (self.capacity / self.capacity.sum())
        return throughput

    @cached_property
    def isolated(self) -> FloatArray:
        """Equal shares: 1 / num_jobs of each type, scaled down to sum to at most 1 (Gavel's "isolated")."""
        shares = np.outer(1.0 / self.gpus, self.capacity / self.num_jobs)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        return np.where(self.throughput > 0, shares, 0.0)


@dataclass(frozen=True)
class TimeShares:
    """Shares of time, and how they were computed.

    Attributes:
        shares: float64[num_jobs, num_gpu_types].
        programs: linear programs that were run for them.
        failures: how many of these were not solved within their limits; equal shares replace their results.
    """

    shares: FloatArray
    programs: int
    failures: int


def maximise_least_throughput(sharing: Sharing) -> TimeShares:
    """Maximise the least throughput per GPU, normalised by the proportional throughput (section 4.1).

    Jobs with equal throughputs and sizes have equal shares, so the program has one row for each class of such jobs.
    """
    weight = sharing.gpus / np.where(sharing.proportional > 0, sharing.proportional, 1.0)
    return _largest_level(sharing, sharing.throughput * weight[:, None])


def minimise_makespan(sharing: Sharing, work: FloatArray) -> TimeShares:
    """Minimise the last finish time (section 4.2): maximise the least ratio of throughput to remaining work.

    Args:
        sharing: jobs and GPUs.
        work: float64[num_jobs], samples left, positive.
    """
    return _largest_level(sharing, sharing.throughput / work[:, None])


def maximise_total_throughput(sharing: Sharing) -> TimeShares:
    """Maximise the sum of throughputs, each in units of the job's proportional throughput."""
    gain = sharing.throughput / np.where(sharing.proportional > 0, sharing.proportional, 1.0)[:, None]
    classes, first, count = _alike(gain, sharing.gpus)
    shares = _solve(sharing, gain[first], sharing.gpus[first], count, None)
    return TimeShares(sharing.isolated, 1, 1) if shares is None else TimeShares(shares[classes], 1, 0)


def minimise_finish_time_ratio(
    sharing: Sharing, work: FloatArray, waited: FloatArray, deserved: FloatArray
) -> TimeShares:
    """Minimise the largest finish-time ratio (section 4.2; the fairness of Themis, NSDI'20).

    A job's ratio is its time from submission to its end under the shares, over the same time under equal shares. A
    linear program gives the shares for a given ratio; bisection finds the least ratio.

    Args:
        sharing: jobs and GPUs.
        work: float64[num_jobs], samples left, positive.
        waited: float64[num_jobs], seconds since submission.
        deserved: float64[num_jobs], seconds from submission to the end under equal shares, positive.
    """
    best = sharing.isolated
    high = worst_ratio(sharing, best, work, waited, deserved)
    low = float((waited / deserved).max())
    programs = failures = 0
    while high - low > _CLOSE * high and programs < MOST_STEPS:
        ratio = (low + high) / 2
        spare = ratio * deserved - waited
        found = _largest_level(sharing, sharing.throughput * (spare / work)[:, None])
        programs += found.programs
        failures += found.failures
        reached = np.inf if found.failures else worst_ratio(sharing, found.shares, work, waited, deserved)
        if reached < high:
            best, high = found.shares, reached
        if reached > ratio * (1 + _CLOSE / 10):
            low = ratio
    return TimeShares(best, programs, failures)


def worst_ratio(
    sharing: Sharing, shares: FloatArray, work: FloatArray, waited: FloatArray, deserved: FloatArray
) -> float:
    """The largest finish-time ratio under the given shares; infinite if a job does not run."""
    throughput = (sharing.throughput * shares).sum(axis=1)
    with np.errstate(divide="ignore"):
        return float(((waited + work / throughput) / deserved).max())


def _largest_level(sharing: Sharing, gain: FloatArray) -> TimeShares:
    """Maximise the least gain of a job, then the sum of gains.

    Args:
        sharing: jobs and GPUs.
        gain: float64[num_jobs, num_gpu_types], gain of a job that spends all its time on a type.
    """
    classes, first, count = _alike(gain, sharing.gpus)
    gain, gpus = gain[first], sharing.gpus[first]
    scale = np.abs(gain).max()
    level = _level(sharing, gain / scale, gpus, count) if scale > 0 else None
    if level is None:
        return TimeShares(sharing.isolated, 1, 1)
    # Just below the optimum, so that rounding does not make the second program infeasible.
    shares = _solve(sharing, gain / scale, gpus, count, level * (1 - 1e-7))
    return TimeShares(sharing.isolated, 2, 1) if shares is None else TimeShares(shares[classes], 2, 0)


def _alike(gain: FloatArray, gpus: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Classes of equal jobs: the class of each job, one job of each class, and the number of jobs in each class."""
    _, first, classes, count = np.unique(
        np.column_stack([gain, gpus]), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return classes.reshape(-1), first, count


def _level(sharing: Sharing, gain: FloatArray, gpus: IntArray, count: IntArray) -> float | None:
    """The largest least gain; None if the program is not solved."""
    most = np.concatenate([_bounds(sharing, gain), np.zeros(len(gain))])
    rows = _rows(gain, gpus * count, level_column=True)
    cost = np.zeros(gain.size + 1)
    cost[-1] = -1.0
    found = solve_linear(cost, rows, most, iteration_limit=sharing.iteration_limit)
    return None if found is None else float(found[-1])


def _solve(
    sharing: Sharing, gain: FloatArray, gpus: IntArray, count: IntArray, level: float | None
) -> FloatArray | None:
    """float64[num_classes, num_gpu_types]: shares of the largest sum of gains, each >= `level`; None if unsolved."""
    bounds, rows = _bounds(sharing, gain), _rows(gain, gpus * count)
    if level is None:
        rows = rows[: len(bounds)]
    else:
        bounds = np.concatenate([bounds, np.full(len(gain), -level)])
    cost = -(gain * count[:, None]).ravel()
    found = solve_linear(cost, rows, bounds, iteration_limit=sharing.iteration_limit)
    if found is None:
        return None
    shares: FloatArray = np.where(gain > 0, found.reshape(gain.shape).clip(0.0, 1.0), 0.0)
    return shares


def _bounds(sharing: Sharing, gain: FloatArray) -> FloatArray:
    """float64[num_classes + num_gpu_types]: limits of the shares of each class, and of the GPUs of each type."""
    return np.concatenate([np.ones(len(gain)), sharing.capacity.astype(np.float64)])


def _rows(gain: FloatArray, gpus: IntArray, *, level_column: bool = False) -> csr_array:
    """Rows A of A x <= b: the shares of each class, the GPUs taken of each type, and minus the gain of each class.

    They are written directly in compressed form, since a matrix in blocks takes SciPy longer than the program itself.

    Args:
        gain: float64[num_classes, num_gpu_types].
        gpus: int64[num_classes], GPUs of all jobs of a class.
        level_column: whether the last column is a level that no gain may be below.
    """
    num_classes, num_types = gain.shape
    cells = np.arange(gain.size)
    taken = np.tile(gpus.astype(np.float64), num_types)
    values, columns, length = -gain, cells.reshape(gain.shape), num_types
    if level_column:
        values = np.column_stack([values, np.ones(num_classes)])
        columns = np.column_stack([columns, np.full(num_classes, gain.size)])
        length += 1
    data = np.concatenate([np.ones(gain.size), taken, values.ravel()])
    indices = np.concatenate([cells, cells.reshape(gain.shape).T.ravel(), columns.ravel()])
    lengths = np.repeat([num_types, num_classes, length], [num_classes, num_types, num_classes])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((data, indices, starts), shape=(2 * num_classes + num_types, gain.size + level_column))
