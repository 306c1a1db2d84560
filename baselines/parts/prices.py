"""Reduce large programs of `choosing` by prices for GPUs.

Given a price for the GPUs of each type, each job alone takes the option that saves most beyond its price. The sum of
these savings and of the price of all GPUs is at least what any choice saves (Lagrange). At the best prices this bound
exceeds the optimum by about the saving of one job per type (Fisher, "The Lagrangian relaxation method", Management
Science 1981). So of thousands of jobs nearly all are settled, and the remaining program contains only the others.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from baselines.parts.highs import solve_linear
from baselines.parts.options import Options
from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, IntArray

MOST_CUTS = 200  # evaluations of the bound, which takes about ten for each type
_CLOSE = 1e-7  # the search for prices ends at this relative distance from the least bound
_SAME = 1e-11  # relative difference of savings that counts as zero
LIKE = 1e-6  # difference of losses, relative to the largest saving, below which options count as equally good
PASSES = 3  # passes over the options that improve a choice


@dataclass(frozen=True)
class BestPrices:
    """The best prices found.

    Attributes:
        prices: float64[num_gpu_types], the price of a GPU, in the unit of costs.
        bound: upper bound on the saving of any choice.
        loss: float64[num_options], saving net of price of the job's best option minus that of this option; at least 0.
        best: float64[num_jobs], saving net of price of the best option of a job; at least 0.
    """

    prices: FloatArray
    bound: float
    loss: FloatArray
    best: FloatArray


@dataclass(frozen=True)
class ReducedProgram:
    """A reduced program.

    Attributes:
        chosen: int64[num_jobs], a good choice; -1 for none.
        missing: upper bound on how much more another choice saves.
        settled: int64[num_jobs], the option that a job has in every better choice; -1 if it is still open.
        open: int64[n], the remaining options of the jobs that are not settled.
    """

    chosen: IntArray
    missing: float
    settled: IntArray
    open: IntArray


def reduce_program(options: Options, capacity: IntArray) -> ReducedProgram:
    """Leave out options that cannot be part of a better choice than the one found by prices.

    A choice with an option saves at most the bound minus the option's loss. If that is below the saving of a known
    choice, the option is in no better choice (reduced-cost fixing).
    """
    kept = useful_options(options, capacity)
    some = options.only(kept)
    priced = best_prices(some, capacity)
    chosen = round_choice(some, capacity, priced)
    missing = max(priced.bound - some.saved(chosen), 0.0)
    limit = missing + _SAME * abs(priced.bound)
    near = priced.loss <= limit
    alone = (np.bincount(some.job[near], minlength=len(some.idle)) == 1) & (priced.best > limit)
    settled = np.full(len(some.idle), -1)
    final = np.flatnonzero(near & alone[some.job])
    settled[some.job[final]] = kept[final]
    chosen[chosen >= 0] = kept[chosen[chosen >= 0]]
    return ReducedProgram(chosen, missing, settled, kept[near & ~alone[some.job]])


def useful_options(options: Options, capacity: IntArray) -> IntArray:
    """int64[n]: indices of options that save something and fit alone."""
    return np.flatnonzero((options.saving > 0) & (options.num_gpus <= capacity[options.gpu_type]))


def best_prices(options: Options, capacity: IntArray) -> BestPrices:
    """Find the prices of the least bound by cutting planes (Kelley 1960).

    Args:
        options: options that each save something and fit alone.
        capacity: int64[num_gpu_types].
    """
    saving, room = options.saving, capacity.astype(np.float64)
    most = np.zeros(len(capacity))
    np.maximum.at(most, options.gpu_type, saving / options.num_gpus)
    slopes: list[FloatArray] = []
    heights: list[float] = []
    prices, best_at, bound = np.zeros(len(capacity)), np.zeros(len(capacity)), np.inf
    for _ in range(MOST_CUTS):
        height, taken = bound_at(options.job, options.gpu_type, options.num_gpus, saving, prices, len(options.idle))
        height += float(prices @ room)
        if height < bound:
            bound, best_at = height, prices
        slopes.append(room - taken)
        heights.append(height - float((room - taken) @ prices))
        prices, lower = _lowest(np.array(slopes), np.array(heights), most)
        if bound - lower <= _CLOSE * abs(bound):
            break
    net = saving - best_at[options.gpu_type] * options.num_gpus
    best = np.zeros(len(options.idle))
    np.maximum.at(best, options.job, net)
    return BestPrices(best_at, bound, best[options.job] - net, best)


def _lowest(slopes: FloatArray, heights: FloatArray, most: FloatArray) -> tuple[FloatArray, float]:
    """Minimise the maximum of heights + slopes @ prices over prices up to `most`; return prices and minimum."""
    scale = max(float(np.abs(heights).max()), 1e-12)
    rows = np.column_stack([slopes * (most / scale), -np.ones(len(heights))])
    found = milp(
        np.append(np.zeros(len(most)), 1.0),
        bounds=Bounds(np.append(np.zeros(len(most)), -np.inf), np.append(np.ones(len(most)), np.inf)),
        constraints=LinearConstraint(rows, -np.inf, -heights / scale),
    )
    if found.x is None:  # never observed; the bounds found so far stay valid
        return np.zeros(len(most)), np.inf
    return found.x[:-1] * most, float(found.x[-1]) * scale


@jit
def bound_at(
    job: IntArray, gpu_type: IntArray, num_gpus: IntArray, saving: FloatArray, prices: FloatArray, num_jobs: int
) -> tuple[float, FloatArray]:
    """Return the savings net of prices of all jobs' best options, and float64[num_gpu_types], the GPUs of these."""
    best, pick = np.zeros(num_jobs), np.full(num_jobs, -1)
    for option in range(len(job)):
        net = saving[option] - prices[gpu_type[option]] * num_gpus[option]
        if net > best[job[option]]:
            best[job[option]] = net
            pick[job[option]] = option
    total, taken = 0.0, np.zeros(len(prices))
    for one in range(num_jobs):
        if pick[one] >= 0:
            total += best[one]
            taken[gpu_type[pick[one]]] += num_gpus[pick[one]]
    return total, taken


def round_choice(options: Options, capacity: IntArray, priced: BestPrices) -> IntArray:
    """int64[num_jobs]: a choice that fits and is close to the best options at these prices.

    Each job begins with its best option. Where several options are equally good, a linear program selects among them
    so that all but a few jobs fit. While a type has too few GPUs, jobs change to other options, or to none, in order of
    loss. Then, in the same order, jobs change to options that save more and fit, in several passes.
    """
    scale = _SAME * max(float(options.saving.max(initial=0.0)), 1e-300)
    jobs = np.arange(len(options.idle))
    none = np.zeros(len(jobs), np.int64)
    every = Options(  # no GPUs is an option too
        np.concatenate([options.job, jobs]),
        np.concatenate([options.gpu_type, none]),
        np.concatenate([options.num_gpus, none]),
        np.concatenate([options.cost, options.idle]),
        options.idle,
    )
    saving, loss = every.saving, np.rint(np.concatenate([priced.loss, priced.best]) / scale)
    small = np.lexsort((every.job, every.num_gpus, loss))
    large = np.lexsort((every.job, -saving, loss))
    chosen = _shared_out(every, capacity, np.concatenate([priced.loss, priced.best]))
    left = capacity - every.taken(chosen, len(capacity))
    remove_overcommitment(small, every.job, every.gpu_type, every.num_gpus, left, chosen)
    for _ in range(PASSES):
        improve_choice(large, every.job, every.gpu_type, every.num_gpus, saving, left, chosen)
    return np.where(chosen < len(options.job), chosen, -1)


def _shared_out(options: Options, capacity: IntArray, loss: FloatArray) -> IntArray:
    """int64[num_jobs]: the option of least loss of each job; of equal ones that with the largest part in the program.

    Args:
        options: options that include no GPUs for each job.
        capacity: int64[num_gpu_types].
        loss: float64[num_options].
    """
    first = np.lexsort((options.num_gpus, loss, options.job))
    chosen = first[np.searchsorted(options.job[first], np.arange(len(options.idle)))]
    near = np.flatnonzero(loss <= LIKE * float(options.saving.max(initial=0.0)))
    several = np.bincount(options.job[near], minlength=len(options.idle)) > 1
    near = near[several[options.job[near]]]
    if not near.size:
        return chosen
    some = options.only(near)
    room = capacity - options.taken(chosen[~several], len(capacity))
    part = solve_linear(-some.saving / options.saving.max(), *some.limits(np.maximum(room, 0)))
    if part is not None:
        by_part = near[np.argsort(part, kind="stable")]
        chosen[options.job[by_part]] = by_part  # the largest part is written last
    return chosen


@jit
def remove_overcommitment(
    order: IntArray, job: IntArray, gpu_type: IntArray, num_gpus: IntArray, left: IntArray, chosen: IntArray
) -> None:
    """Change options, in an order, until no type is over-committed; changes `left` and `chosen`.

    Args:
        order: int64[n], options, which include the smallest of each job.
        job: int64[num_options], job of each option.
        gpu_type: int64[num_options].
        num_gpus: int64[num_options].
        left: int64[num_gpu_types], GPUs left; negative for over-committed types at first.
        chosen: int64[num_jobs], option of each job.
    """
    for option in order:
        has, new_type = chosen[job[option]], gpu_type[option]
        if left[gpu_type[has]] >= 0 or num_gpus[has] == 0:
            continue
        if num_gpus[option] < num_gpus[has] if new_type == gpu_type[has] else num_gpus[option] <= left[new_type]:
            left[gpu_type[has]] += num_gpus[has]
            left[new_type] -= num_gpus[option]
            chosen[job[option]] = option


@jit
def improve_choice(
    order: IntArray,
    job: IntArray,
    gpu_type: IntArray,
    num_gpus: IntArray,
    saving: FloatArray,
    left: IntArray,
    chosen: IntArray,
) -> None:
    """Give jobs, in an order, options that fit and save more than their present one; changes `left` and `chosen`.

    Args:
        order: int64[n], options.
        job: int64[num_options], job of each option.
        gpu_type: int64[num_options].
        num_gpus: int64[num_options].
        saving: float64[num_options].
        left: int64[num_gpu_types], GPUs left.
        chosen: int64[num_jobs], option of each job.
    """
    for option in order:
        new_type, has = gpu_type[option], chosen[job[option]]
        room = left[new_type] + (num_gpus[has] if gpu_type[has] == new_type else 0)
        if saving[option] > saving[has] and num_gpus[option] <= room:
            left[gpu_type[has]] += num_gpus[has]
            left[new_type] -= num_gpus[option]
            chosen[job[option]] = option
