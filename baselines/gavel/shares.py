"""Gavel's optimisation problems: the share of its time that each job spends on each GPU type.

Shares are float64[num_jobs, num_gpu_types]; rows sum to at most 1, and the average demand for a type is at most its
number of GPUs (Narayanan et al., OSDI'20, section 4.1). Where two jobs may share GPUs, pairs have shares of their own;
a job's time is that of all combinations with it (section 3.1). All problems are linear programs, solved by HiGHS within
a limit of iterations. An unsolved program falls back to equal shares and is counted as a failure.

Many of these programs have several optimal solutions, and which of them a solver returns depends on its version and on
the last bits of the throughputs. So a last program chooses among them (`_preference`): earlier jobs have time first, on
earlier GPU types. The paper leaves this open.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, vstack

from baselines.gavel.pairs import Columns, PairRule, alone, split_pair, with_pairs
from baselines.parts.highs import ITERATION_LIMIT, solve_linear
from baselines.parts.ties import merge_ties
from envs.types import FloatArray, IntArray

_CLOSE = 1e-3  # relative width at which the bisection of the finish-time ratio ends
MOST_STEPS = 30  # of the bisection
SLACK = 1e-7  # relative, by which a program may fall behind the optimum of the one before it
DIGITS = 9  # decimal digits of a share of time: the rest is the solver's rounding


@dataclass(frozen=True)
class Sharing:
    """Jobs and the GPUs that they share.

    Attributes:
        throughput: float64[num_jobs, num_gpu_types], samples/s on the requested GPUs; 0 where a job does not run.
        gpus: int64[num_jobs], GPUs of each job.
        capacity: int64[num_gpu_types], GPUs of each type.
        iteration_limit: simplex iterations of each linear program.
        pair_rule: which two jobs may share GPUs; None if none may.
    """

    throughput: FloatArray
    gpus: IntArray
    capacity: IntArray
    iteration_limit: int = ITERATION_LIMIT
    pair_rule: PairRule | None = None

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return len(self.gpus)

    @cached_property
    def proportional(self) -> FloatArray:
        """float64[num_jobs]: samples/s with time split over types by their GPUs; 0 only for a job that cannot run."""
        throughput: FloatArray = (self.throughput * (self.capacity / self.capacity.sum())).sum(axis=1)
        return throughput

    @cached_property
    def isolated(self) -> FloatArray:
        """Equal shares: 1 / num_jobs of each type, scaled down to sum to at most 1 (Gavel's "isolated")."""
        shares = np.outer(1.0 / self.gpus, self.capacity / self.num_jobs)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        return np.where(self.throughput > 0, shares, 0.0)

    def reach(self, found: "TimeShares") -> FloatArray:
        """float64[num_jobs]: effective throughputs under shares, in samples/s."""
        reached: FloatArray = (self.throughput * found.shares).sum(axis=1)
        if self.pair_rule is not None and len(found.pairs):
            for job, other in (found.pairs.T, found.pairs.T[::-1]):
                kept = self.pair_rule.factors[:, self.pair_rule.models[job], self.pair_rule.models[other]].T
                np.add.at(reached, job, (self.throughput[job] * kept * found.pair_shares).sum(axis=1))
        return reached


@dataclass(frozen=True)
class TimeShares:
    """Shares of time, and how they were computed.

    Attributes:
        shares: float64[num_jobs, num_gpu_types], time alone.
        programs: linear programs that were run for them.
        failures: how many of these were not solved within their limits; equal shares replace their results.
        pairs: int64[num_pairs, 2], places of two jobs that spend time on the same GPUs, the lower one first.
        pair_shares: float64[num_pairs, num_gpu_types], the time of each pair.
    """

    shares: FloatArray
    programs: int
    failures: int
    pairs: IntArray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    pair_shares: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


def maximise_least_throughput(sharing: Sharing) -> TimeShares:
    """Maximise the least throughput per GPU, normalised by the proportional throughput (section 4.1).

    Jobs with equal throughputs and sizes have equal shares, so the program has one row for each class of such jobs.
    """
    weight = sharing.gpus / np.where(sharing.proportional > 0, sharing.proportional, 1.0)
    return _largest_level(sharing, sharing.throughput * weight[:, None])


def minimise_makespan(sharing: Sharing, work: FloatArray) -> TimeShares:
    """Minimise the last finish time (section 4.2): maximise the least ratio of throughput to remaining work.

    Of the optimal shares, those with the largest sum of these ratios are taken, which serve short jobs first. The
    artifact takes any shares within 5 % of the optimum, with longer mean JCTs (docs/cross_validation.md).

    Args:
        sharing: jobs and GPUs.
        work: float64[num_jobs], samples left, positive.
    """
    return _largest_level(sharing, sharing.throughput / work[:, None])


def maximise_total_throughput(sharing: Sharing) -> TimeShares:
    """Maximise the sum of throughputs, each in units of the job's proportional throughput."""
    gain = sharing.throughput / np.where(sharing.proportional > 0, sharing.proportional, 1.0)[:, None]
    classes, first, count = _alike(sharing, gain)
    columns = _columns(sharing, gain, first, count)
    times = _solve(sharing, columns, first, count, None)
    return TimeShares(sharing.isolated, 1, 1) if times is None else _divide(columns, times, classes, count, 2)


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
    best = TimeShares(sharing.isolated, 0, 0)
    high = worst_ratio(sharing.reach(best), work, waited, deserved)
    low = float((waited / deserved).max())
    programs = failures = 0
    while high - low > _CLOSE * high and programs < MOST_STEPS:
        ratio = (low + high) / 2
        spare = ratio * deserved - waited
        found = _largest_level(sharing, sharing.throughput * (spare / work)[:, None])
        programs += found.programs
        failures += found.failures
        reached = np.inf if found.failures else worst_ratio(sharing.reach(found), work, waited, deserved)
        if reached < high:
            best, high = found, reached
        if reached > ratio * (1 + _CLOSE / 10):
            low = ratio
    return replace(best, programs=programs, failures=failures)


def worst_ratio(throughput: FloatArray, work: FloatArray, waited: FloatArray, deserved: FloatArray) -> float:
    """The largest finish-time ratio of jobs with these effective throughputs; infinite if a job does not run."""
    with np.errstate(divide="ignore"):
        return float(((waited + work / throughput) / deserved).max())


def _largest_level(sharing: Sharing, gain: FloatArray) -> TimeShares:
    """Maximise the least gain of a job, then the sum of gains.

    Args:
        sharing: jobs and GPUs.
        gain: float64[num_jobs, num_gpu_types], gain of a job that spends all its time on a type.
    """
    scale = np.abs(gain).max()
    if not scale > 0:
        return TimeShares(sharing.isolated, 1, 1)
    classes, first, count = _alike(sharing, gain)
    columns = _columns(sharing, gain / scale, first, count)
    level = _level(sharing, columns, len(count))
    if level is None:
        return TimeShares(sharing.isolated, 1, 1)
    # Just below the optimum, so that rounding does not make the second program infeasible.
    times = _solve(sharing, columns, first, count, level * (1 - SLACK))
    return TimeShares(sharing.isolated, 2, 1) if times is None else _divide(columns, times, classes, count, 3)


def _alike(sharing: Sharing, gain: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Classes of equal jobs: the class of each job, the first job of each class, and the number of jobs in each."""
    gain = merge_ties(gain)
    told = [gain, sharing.gpus] if sharing.pair_rule is None else [gain, sharing.gpus, sharing.pair_rule.models]
    _, first, classes, count = np.unique(
        np.column_stack(told), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return classes.reshape(-1), first, count


def _columns(sharing: Sharing, gain: FloatArray, first: IntArray, count: IntArray) -> Columns:
    """Columns of the classes of which `first` are examples; see `_alike`."""
    rule, gain, gpus = sharing.pair_rule, gain[first], sharing.gpus[first]
    if rule is None:
        return alone(gain, gpus, count)
    return with_pairs(gain, gpus, count, replace(rule, models=rule.models[first]))


def _divide(columns: Columns, times: FloatArray, classes: IntArray, count: IntArray, programs: int) -> TimeShares:
    """Give each job the share of its class, and divide the time of pairs of classes among pairs of jobs."""
    found = TimeShares(times[: len(count)][classes], programs, 0)
    members = np.split(np.argsort(classes, kind="stable"), np.cumsum(count)[:-1])
    of_pairs = times[len(count) :]
    used = np.flatnonzero(of_pairs.max(axis=1, initial=0.0) > 0)
    if not used.size:
        return found
    split = [
        split_pair(of_pairs[place], members[one], members[other])
        for place, (one, other) in zip(used.tolist(), columns.pairs[used].tolist(), strict=True)
    ]
    pairs, shares = (np.concatenate(parts) for parts in zip(*split, strict=True))
    return replace(found, pairs=np.sort(pairs, axis=1), pair_shares=shares)


def _level(sharing: Sharing, columns: Columns, num_classes: int) -> float | None:
    """The largest least gain; None if the program is not solved."""
    most = np.concatenate([_bounds(sharing, num_classes), np.zeros(num_classes)])
    rows = _rows(columns, num_classes, level_column=True)
    cost = np.zeros(rows.shape[1])
    cost[-1] = -1.0
    found = solve_linear(cost, rows, most, iteration_limit=sharing.iteration_limit)
    return None if found is None else float(found[-1])


def _solve(
    sharing: Sharing, columns: Columns, first: IntArray, count: IntArray, level: float | None
) -> FloatArray | None:
    """float64[num_columns, num_gpu_types]: times of the largest sum of gains, each >= `level`; None if unsolved.

    A second program chooses among all times with this sum, see `_preference`. If it reaches its limit, the first one's
    times are returned.
    """
    bounds, rows = _bounds(sharing, len(count)), _rows(columns, len(count))
    if level is None:
        rows = rows[: len(bounds)]
    else:
        bounds = np.concatenate([bounds, np.full(len(count), -level)])
    value = np.zeros((len(columns.gpus), columns.gain.shape[1]))
    np.add.at(value, columns.column, columns.gain * count[columns.job, None])
    best = solve_linear(-value.ravel(), rows, bounds, iteration_limit=sharing.iteration_limit)
    if best is None:
        return None
    cost = np.where(value > 0, -_preference(columns, first, value.shape[1]), 1.0)
    rows = vstack([rows, csr_array(-value.reshape(1, -1))], format="csr")
    bounds = np.append(bounds, -(value.ravel() * best).sum() * (1 - SLACK))
    found = solve_linear(cost.ravel(), rows, bounds, iteration_limit=sharing.iteration_limit)
    times: FloatArray = (best if found is None else found).reshape(value.shape)
    times = np.where(value > 0, times.clip(0.0), 0.0).round(DIGITS)
    times[: len(count)] = times[: len(count)].clip(max=1.0)
    return times


def _preference(columns: Columns, first: IntArray, num_types: int) -> FloatArray:
    """float64[num_columns, num_gpu_types]: what time is worth where the objective leaves the choice open.

    The worth of a GPU falls with the place of a class in the order of submission, and with the GPU type's. Its factors
    differ, so an exchange between two classes or types is never worth nothing, and the choice is unique.
    """
    place = np.argsort(np.argsort(first))
    of_class = 1.0 / (1.0 + place / len(place))
    of_type = 1.0 / (1.0 + np.arange(num_types) / num_types)
    of_column = np.ones(len(columns.gpus))
    np.multiply.at(of_column, columns.column, of_class[columns.job])
    return np.asarray((columns.gpus * of_column)[:, None] * of_type)


def _bounds(sharing: Sharing, num_classes: int) -> FloatArray:
    """float64[num_classes + num_gpu_types]: limits of the shares of each class, and of the GPUs of each type."""
    return np.concatenate([np.ones(num_classes), sharing.capacity.astype(np.float64)])


def _rows(columns: Columns, num_classes: int, *, level_column: bool = False) -> csr_array:
    """Rows A of A x <= b: the shares of each class, the GPUs taken of each type, and minus the gain of each class.

    They are written directly in compressed form, since a matrix in blocks takes SciPy longer than the program itself.

    Args:
        columns: what the variables stand for.
        num_classes: classes of equal jobs.
        level_column: whether the last column is a level that no gain may be below.
    """
    num_columns, num_types = len(columns.gpus), columns.gain.shape[1]
    cells = np.arange(num_columns * num_types).reshape(num_columns, num_types)
    order = np.lexsort((columns.column, columns.job))
    own, part = cells[columns.column[order]], np.repeat(columns.part[order], num_types)
    length = num_types * np.bincount(columns.job, minlength=num_classes)
    values, places, gain_length = -columns.gain[order].ravel(), own.ravel(), length
    if level_column:
        ends = np.cumsum(length)
        values, places = np.insert(values, ends, 1.0), np.insert(places, ends, cells.size)
        gain_length = length + 1
    data = np.concatenate([part, np.tile(columns.gpus.astype(np.float64), num_types), values])
    indices = np.concatenate([own.ravel(), cells.T.ravel(), places])
    lengths = np.concatenate([length, np.full(num_types, num_columns), gain_length])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((data, indices, starts), shape=(2 * num_classes + num_types, cells.size + level_column))
