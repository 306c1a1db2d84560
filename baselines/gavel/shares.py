"""Gavel's optimisation problems: which share of its time each job is to spend on each type of GPU.

Shares are float64[num_jobs, num_gpu_types], rows summing to at most 1; the GPUs that they take of a type on average are
at most those that there are (Narayanan et al., OSDI'20, section 4.1). All problems are linear programs, solved by HiGHS
within a time limit; what cannot be solved falls back to equal shares, and says so.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, hstack, vstack

from envs.types import FloatArray, IntArray, Seconds

CLOSE = 1e-3  # relative width at which the search for the least finish-time ratio ends
MOST_STEPS = 30  # of that search


@dataclass(frozen=True)
class Sharing:
    """Jobs and the GPUs that they share.

    Attributes:
        rate: float64[num_jobs, num_gpu_types], samples/s on the requested GPUs; 0 where a job does not run.
        gpus: int64[num_jobs], GPUs that each job takes.
        capacity: int64[num_gpu_types], GPUs of each type.
        time_limit: seconds of wall-clock time for each linear program.
    """

    rate: FloatArray
    gpus: IntArray
    capacity: IntArray
    time_limit: Seconds = 10.0

    @property
    def num_jobs(self) -> int:
        """Jobs that share."""
        return len(self.gpus)

    @cached_property
    def proportional(self) -> FloatArray:
        """float64[num_jobs]: speed if all time is split over the types as the GPUs are; never 0 for a job that runs."""
        speed: FloatArray = self.rate @ (self.capacity / self.capacity.sum())
        return speed

    @cached_property
    def isolated(self) -> FloatArray:
        """Equal shares: every job has 1 / num_jobs of each type, cut to all of its time (Gavel's "isolated")."""
        shares = np.outer(1.0 / self.gpus, self.capacity / self.num_jobs)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        return np.where(self.rate > 0, shares, 0.0)


@dataclass(frozen=True)
class Shares:
    """An answer.

    Attributes:
        shares: float64[num_jobs, num_gpu_types].
        programs: linear programs that were solved for it.
        failures: of these, how many were not solved within their limits; equal shares stand in then.
    """

    shares: FloatArray
    programs: int
    failures: int


def max_min(sharing: Sharing) -> Shares:
    """The least normalised speed as large as can be (section 4.1): each job's over its proportional one, per GPU.

    Jobs alike in speed and size have equal shares, so the program has one row for each kind of job.
    """
    weight = sharing.gpus / np.where(sharing.proportional > 0, sharing.proportional, 1.0)
    return _largest_level(sharing, sharing.rate * weight[:, None])


def makespan(sharing: Sharing, work: FloatArray) -> Shares:
    """The last job done as early as can be (section 4.2): the least speed over remaining work as large as can be.

    Args:
        sharing: jobs and GPUs.
        work: float64[num_jobs], samples left, positive.
    """
    return _largest_level(sharing, sharing.rate / work[:, None])


def total_speed(sharing: Sharing) -> Shares:
    """The sum of speeds as large as can be, in the units of each job's proportional speed."""
    gain = sharing.rate / np.where(sharing.proportional > 0, sharing.proportional, 1.0)[:, None]
    kinds, first, count = _alike(gain, sharing.gpus)
    shares = _solve(sharing, gain[first], sharing.gpus[first], count, None)
    return Shares(sharing.isolated, 1, 1) if shares is None else Shares(shares[kinds], 1, 0)


def finish_time(sharing: Sharing, work: FloatArray, waited: FloatArray, deserved: FloatArray) -> Shares:
    """The largest finish-time ratio as small as can be (section 4.2; the fairness of Themis, NSDI'20).

    A job's ratio is its time from submission to its end under the shares, over the same with equal shares. For a given
    ratio the shares follow from a linear program; the least ratio is found by bisection.

    Args:
        sharing: jobs and GPUs.
        work: float64[num_jobs], samples left, positive.
        waited: float64[num_jobs], seconds since submission.
        deserved: float64[num_jobs], seconds from submission to the end with equal shares, positive.
    """
    best = sharing.isolated
    high = worst_ratio(sharing, best, work, waited, deserved)
    low = float((waited / deserved).max())
    programs = failures = 0
    while high - low > CLOSE * high and programs < MOST_STEPS:
        ratio = (low + high) / 2
        spare = ratio * deserved - waited
        found = _largest_level(sharing, sharing.rate * (spare / work)[:, None])
        programs += found.programs
        failures += found.failures
        reached = np.inf if found.failures else worst_ratio(sharing, found.shares, work, waited, deserved)
        if reached < high:
            best, high = found.shares, reached
        if reached > ratio * (1 + CLOSE / 10):
            low = ratio
    return Shares(best, programs, failures)


def worst_ratio(
    sharing: Sharing, shares: FloatArray, work: FloatArray, waited: FloatArray, deserved: FloatArray
) -> float:
    """The largest finish-time ratio under some shares; infinite if a job does not run."""
    speed = (sharing.rate * shares).sum(axis=1)
    with np.errstate(divide="ignore"):
        return float(((waited + work / speed) / deserved).max())


def _largest_level(sharing: Sharing, gain: FloatArray) -> Shares:
    """Shares under which the least of the jobs' gains is largest; among these, those of the largest sum of gains.

    Args:
        sharing: jobs and GPUs.
        gain: float64[num_jobs, num_gpu_types], what a job has of all its time on a type.
    """
    kinds, first, count = _alike(gain, sharing.gpus)
    gain, gpus = gain[first], sharing.gpus[first]
    scale = np.abs(gain).max()
    level = _level(sharing, gain / scale, gpus, count) if scale > 0 else None
    if level is None:
        return Shares(sharing.isolated, 1, 1)
    # Just below the optimum, so that rounding does not make the second program infeasible.
    shares = _solve(sharing, gain / scale, gpus, count, level * (1 - 1e-7))
    return Shares(sharing.isolated, 2, 1) if shares is None else Shares(shares[kinds], 2, 0)


def _alike(gain: FloatArray, gpus: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Jobs of one kind: the kind of each job, a job of each kind, and how many jobs a kind has."""
    _, first, kinds, count = np.unique(
        np.column_stack([gain, gpus]), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return kinds.reshape(-1), first, count


def _level(sharing: Sharing, gain: FloatArray, gpus: IntArray, count: IntArray) -> float | None:
    """The largest least gain; None if the program is not solved."""
    limits, bounds = _limits(sharing, gain, gpus, count)
    level = coo_array(np.ones((len(gain), 1)))
    rows = vstack([hstack([limits, coo_array((len(bounds), 1))]), hstack([-_gains(gain), level])])
    cost = np.zeros(gain.size + 1)
    cost[-1] = -1.0
    found = _optimum(cost, rows, np.concatenate([bounds, np.zeros(len(gain))]), sharing.time_limit)
    return None if found is None else float(found[-1])


def _solve(
    sharing: Sharing, gain: FloatArray, gpus: IntArray, count: IntArray, level: float | None
) -> FloatArray | None:
    """float64[num_kinds, num_gpu_types]: the largest sum of gains, none of them below `level`; None if unsolved."""
    rows, bounds = _limits(sharing, gain, gpus, count)
    if level is not None:
        rows = vstack([rows, -_gains(gain)])
        bounds = np.concatenate([bounds, np.full(len(gain), -level)])
    found = _optimum(-(gain * count[:, None]).ravel(), rows, bounds, sharing.time_limit)
    if found is None:
        return None
    shares: FloatArray = np.where(gain > 0, found.reshape(gain.shape).clip(0.0, 1.0), 0.0)
    return shares


def _limits(sharing: Sharing, gain: FloatArray, gpus: IntArray, count: IntArray) -> tuple[coo_array, FloatArray]:
    """All time of a job at most once, GPUs of a type at most those that there are: A x <= b."""
    num_kinds, num_types = gain.shape
    cells = np.arange(gain.size)
    once = coo_array((np.ones(gain.size), (cells // num_types, cells)), shape=(num_kinds, gain.size))
    taken = np.repeat((gpus * count).astype(np.float64), num_types)
    room = coo_array((taken, (cells % num_types, cells)), shape=(num_types, gain.size))
    return vstack([once, room]), np.concatenate([np.ones(num_kinds), sharing.capacity.astype(np.float64)])


def _gains(gain: FloatArray) -> coo_array:
    """Rows that add up each kind's gains."""
    cells = np.arange(gain.size)
    return coo_array((gain.ravel(), (cells // gain.shape[1], cells)), shape=(len(gain), gain.size))


def _optimum(cost: FloatArray, rows: coo_array, bounds: FloatArray, time_limit: Seconds) -> FloatArray | None:
    """The minimum of cost @ x with rows @ x <= bounds, x >= 0; None if it is not found in time."""
    constraint = LinearConstraint(rows.tocsr(), -np.inf, bounds)
    found = milp(cost, constraints=constraint, bounds=Bounds(0.0, np.inf), options={"time_limit": time_limit})
    if found.status != 0:
        return None
    optimum: FloatArray = found.x
    return optimum
