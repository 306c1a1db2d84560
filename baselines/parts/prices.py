"""Prices for GPUs, by which large programs of `choosing` become small ones.

At a price for the GPUs of each type, every job by itself takes the option that saves it most beyond its price; the sum
of that and of the price of all GPUs is at least what any choice saves (Lagrange). At the best prices it exceeds the
optimum by about as much as one job per type makes (Fisher, "The Lagrangian relaxation method", Management Science
1981), so that of thousands of jobs nearly all are settled, and the program is over the few that are not.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from baselines.parts.options import Options
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray

MOST_CUTS = 200  # evaluations of the bound, which takes about ten for each type
CLOSE = 1e-7  # relative distance from the least bound at which the search for prices ends
SAME = 1e-11  # relative difference of savings that counts as none
LIKE = 1e-6  # difference of losses, relative to the largest saving, that counts as none where parts are looked for
LONGEST = 5.0  # wall-clock seconds for a linear program
PASSES = 3  # over the options, each of which makes a choice better


@dataclass(frozen=True)
class Market:
    """The best prices found.

    Attributes:
        prices: float64[num_gpu_types], of a GPU, in the unit of costs.
        bound: no choice saves more.
        loss: float64[num_options], by how much less than its job's best one an option saves, prices paid; 0 or more.
        best: float64[num_jobs], what the best option of a job saves, prices paid; 0 if that is nothing.
    """

    prices: FloatArray
    bound: float
    loss: FloatArray
    best: FloatArray


@dataclass(frozen=True)
class Reduced:
    """A program made small.

    Attributes:
        chosen: int64[num_jobs], a good choice; -1 for none.
        missing: how much more another choice can save at most.
        settled: int64[num_jobs], the option of a job in every choice that is better; -1 if that is open.
        open: int64[n], options among which the other jobs choose; those of settled jobs are not among them.
    """

    chosen: IntArray
    missing: float
    settled: IntArray
    open: IntArray


def reduced(options: Options, capacity: IntArray) -> Reduced:
    """Leave out what is in no better choice than one that is found by prices.

    A choice with an option saves at most the bound less the option's loss. So where that is below what a known choice
    saves, the option is in no better one (reduced-cost fixing).
    """
    kept = useful(options, capacity)
    some = options.only(kept)
    market = best_prices(some, capacity)
    chosen = rounded(some, capacity, market)
    missing = max(market.bound - some.saved(chosen), 0.0)
    limit = missing + SAME * abs(market.bound)
    near = market.loss <= limit
    alone = (np.bincount(some.job[near], minlength=len(some.idle)) == 1) & (market.best > limit)
    settled = np.full(len(some.idle), -1)
    final = np.flatnonzero(near & alone[some.job])
    settled[some.job[final]] = kept[final]
    chosen[chosen >= 0] = kept[chosen[chosen >= 0]]
    return Reduced(chosen, missing, settled, kept[near & ~alone[some.job]])


def useful(options: Options, capacity: IntArray) -> IntArray:
    """int64[n]: options that save something and fit by themselves."""
    return np.flatnonzero((options.saving > 0) & (options.num_gpus <= capacity[options.gpu_type]))


def best_prices(options: Options, capacity: IntArray) -> Market:
    """Prices of the least bound, by cutting planes (Kelley 1960).

    Args:
        options: each of which saves something and fits.
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
        prices, floor = _lowest(np.array(slopes), np.array(heights), most)
        if bound - floor <= CLOSE * abs(bound):
            break
    net = saving - best_at[options.gpu_type] * options.num_gpus
    best = np.zeros(len(options.idle))
    np.maximum.at(best, options.job, net)
    return Market(best_at, bound, best[options.job] - net, best)


def _lowest(slopes: FloatArray, heights: FloatArray, most: FloatArray) -> tuple[FloatArray, float]:
    """Where the largest of the planes heights + slopes @ prices is lowest for prices up to `most`, and how high."""
    scale = max(float(np.abs(heights).max()), 1e-12)
    rows = np.column_stack([slopes * (most / scale), -np.ones(len(heights))])
    found = milp(
        np.append(np.zeros(len(most)), 1.0),
        bounds=Bounds(np.append(np.zeros(len(most)), -np.inf), np.append(np.ones(len(most)), np.inf)),
        constraints=LinearConstraint(rows, -np.inf, -heights / scale),
    )
    if found.x is None:  # not seen; the bounds found so far stand
        return np.zeros(len(most)), np.inf
    return found.x[:-1] * most, float(found.x[-1]) * scale


@jit
def bound_at(
    job: IntArray, gpu_type: IntArray, num_gpus: IntArray, saving: FloatArray, prices: FloatArray, num_jobs: int
) -> tuple[float, FloatArray]:
    """What all jobs save with their best options, prices paid; and float64[num_gpu_types], the GPUs that these take."""
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


def rounded(options: Options, capacity: IntArray, market: Market) -> IntArray:
    """int64[num_jobs]: a choice near the prices.

    Everybody begins with its best option; where several are as good, a linear program says which, with which all but a
    few jobs fit. Where that is too much for a type, jobs change to other options, or to nothing, by what is lost with
    them; then, in the same order, to such as save more and fit, as long as there are any.
    """
    scale = SAME * max(float(options.saving.max(initial=0.0)), 1e-300)
    jobs = np.arange(len(options.idle))
    none = np.zeros(len(jobs), np.int64)
    every = Options(  # nothing is an option too
        np.concatenate([options.job, jobs]),
        np.concatenate([options.gpu_type, none]),
        np.concatenate([options.num_gpus, none]),
        np.concatenate([options.cost, options.idle]),
        options.idle,
    )
    saving, loss = every.saving, np.rint(np.concatenate([market.loss, market.best]) / scale)
    small = np.lexsort((every.job, every.num_gpus, loss))
    large = np.lexsort((every.job, -saving, loss))
    chosen = _shared_out(every, capacity, np.concatenate([market.loss, market.best]))
    left = capacity - every.taken(chosen, len(capacity))
    relieve(small, every.job, every.gpu_type, every.num_gpus, left, chosen)
    for _ in range(PASSES):
        take(large, every.job, every.gpu_type, every.num_gpus, saving, left, chosen)
    return np.where(chosen < len(options.job), chosen, -1)


def _shared_out(options: Options, capacity: IntArray, loss: FloatArray) -> IntArray:
    """int64[num_jobs]: for each job the option of least loss, or that of those like it which it has most of.

    Args:
        options: among them nothing, for every job.
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
    found = milp(
        -some.saving / options.saving.max(),
        bounds=Bounds(0.0, np.inf),
        constraints=some.constraints(np.maximum(room, 0)),
        options={"time_limit": LONGEST},
    )
    if found.x is not None:
        by_part = near[np.argsort(found.x, kind="stable")]
        chosen[options.job[by_part]] = by_part  # the largest part is written last
    return chosen


@jit
def relieve(
    order: IntArray, job: IntArray, gpu_type: IntArray, num_gpus: IntArray, left: IntArray, chosen: IntArray
) -> None:
    """Change options, in an order, where they take more of a type than there is; changes the last two.

    Args:
        order: int64[n], options, each job's smallest among them.
        job: int64[num_options]; so are the next two.
        gpu_type: of the options.
        num_gpus: of the options.
        left: int64[num_gpu_types], GPUs to be had; negative where too many are taken, which ends here.
        chosen: int64[num_jobs], option of each job.
    """
    for option in order:
        has, kind = chosen[job[option]], gpu_type[option]
        if left[gpu_type[has]] >= 0 or num_gpus[has] == 0:
            continue
        if num_gpus[option] < num_gpus[has] if kind == gpu_type[has] else num_gpus[option] <= left[kind]:
            left[gpu_type[has]] += num_gpus[has]
            left[kind] -= num_gpus[option]
            chosen[job[option]] = option


@jit
def take(
    order: IntArray,
    job: IntArray,
    gpu_type: IntArray,
    num_gpus: IntArray,
    saving: FloatArray,
    left: IntArray,
    chosen: IntArray,
) -> None:
    """Let jobs have options in an order where they fit and save more than what the job has; changes the last two.

    Args:
        order: int64[n], options.
        job: int64[num_options]; so are the next two, and `saving` float64.
        gpu_type: of the options.
        num_gpus: of the options.
        saving: of the options.
        left: int64[num_gpu_types], GPUs to be had.
        chosen: int64[num_jobs], option of each job.
    """
    for option in order:
        kind, has = gpu_type[option], chosen[job[option]]
        room = left[kind] + (num_gpus[has] if gpu_type[has] == kind else 0)
        if saving[option] > saving[has] and num_gpus[option] <= room:
            left[gpu_type[has]] += num_gpus[has]
            left[kind] -= num_gpus[option]
            chosen[job[option]] = option
