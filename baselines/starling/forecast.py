"""Kernels that look ahead: what becomes of the jobs present under a plan, if nobody else comes.

Arguments are those of `baselines.starling.two_plans`, and:
    knee_speed: float64[num_jobs], samples/s of a job at its knee.
    knee_gpus: int64[num_jobs], GPUs there.
    restart: float64[num_jobs], seconds that a change costs a job that has begun.
    begun: bool[num_jobs], whether it has.
    horizon, stickiness, ... in `rules`: as in `two_plans.plan`.
    worth: float64[2], floor and exponent of the remaining time in a job's weight.
"""

import numpy as np

from baselines.starling.two_plans import equal, fill, kind_of, plan, plan_twice
from envs.simulation.jit import jit
from envs.types import BoolArray, FloatArray, IntArray, Seconds

DONE = 1e-9  # share of its work up to which a job is done: rounding


@jit
def weights(work: FloatArray, knee_speed: FloatArray, worth: FloatArray) -> FloatArray:
    """float64[num_jobs]: what a sample/s of a job is worth: the inverse of its remaining time, to a power."""
    weight: FloatArray = (work / knee_speed + worth[0]) ** -worth[1] / knee_speed
    return weight


@jit
def next_end(grid: IntArray, speeds: FloatArray, work: FloatArray, stalled: FloatArray, types: IntArray) -> Seconds:
    """Seconds to the next completion; infinite if nothing runs."""
    soonest = np.inf
    for job in range(len(work)):
        kind = kind_of(grid[job], types)
        if kind >= 0:
            soonest = min(soonest, stalled[job] + work[job] / speeds[job, kind, grid[job].sum()])
    return soonest


@jit
def advance(
    seconds: Seconds, grid: IntArray, speeds: FloatArray, work: FloatArray, stalled: FloatArray, types: IntArray
) -> int:
    """Let time pass: changes `work` and `stalled`; those at their end leave `grid`. Returns how many did."""
    ended = 0
    for job in range(len(work)):
        kind = kind_of(grid[job], types)
        if kind < 0:
            continue
        done = max(seconds - stalled[job], 0.0) * speeds[job, kind, grid[job].sum()]
        stalled[job] = max(stalled[job] - seconds, 0.0)
        if done >= work[job] * (1.0 - DONE):
            work[job] = 0.0
            grid[job] = 0
            ended += 1
        else:
            work[job] -= done
    return ended


@jit
def backlog(
    order: IntArray, work: FloatArray, knee_speed: FloatArray, knee_gpus: IntArray, num_gpus: int
) -> tuple[Seconds, int]:
    """Sum of the times in which jobs would end one after the other, each on its share of a cluster without nodes.

    Returns:
        Seconds, summed over the jobs that have work left; and how many these are.
    """
    queued, total, count = 0.0, 0.0, 0
    for job in order:
        if work[job] > 0:
            alone = work[job] / knee_speed[job]
            queued += alone * knee_gpus[job] / num_gpus
            total += max(queued, alone)
            count += 1
    return total, count


@jit
def forecast(
    grid: IntArray,
    order: IntArray,
    speeds: FloatArray,
    work: FloatArray,
    restart: FloatArray,
    begun: BoolArray,
    first_stall: FloatArray,
    knee_speed: FloatArray,
    knee_gpus: IntArray,
    wanted: IntArray,
    capacity: IntArray,
    types: IntArray,
    rules: FloatArray,
    worth: FloatArray,
    depth: int,
) -> Seconds:
    """Sum of the times from now in which all jobs end if a plan is followed, by `plan_twice` at every completion.

    After `depth` completions what is left is estimated by `backlog`.

    Args:
        grid: the plan; is changed.
        first_stall: float64[num_jobs], seconds until each job of the plan begins to work.
        depth: completions to look ahead.
    """
    work, begun, stalled = work.copy(), begun.copy(), first_stall.copy()
    now, total, left = 0.0, 0.0, len(order)
    for _ in range(depth):
        seconds = next_end(grid, speeds, work, stalled, types)
        if seconds == np.inf:
            break
        for job in order:
            begun[job] = begun[job] or kind_of(grid[job], types) >= 0
        ended = advance(seconds, grid, speeds, work, stalled, types)
        now += seconds
        total += ended * now
        left -= ended
        if left == 0:
            return total
        alive = order[work[order] > 0]
        delay = np.where(begun, restart, 0.0)
        weight = weights(work, knee_speed, worth)
        after = plan_twice(alive, speeds, work, delay, weight, wanted, grid, capacity, types, rules)
        for job in alive:
            if not equal(after[job], grid[job]):
                stalled[job] = delay[job]
        grid = after
    rest, count = backlog(order, work, knee_speed, knee_gpus, max(1, capacity.sum()))
    return total + count * now + rest


@jit
def first_of_its_kind(plans: IntArray) -> BoolArray:
    """bool[num_plans]: whether a plan, of int64[num_plans, num_jobs, num_nodes], differs from all before it."""
    new = np.ones(len(plans), np.bool_)
    for one in range(1, len(plans)):
        for other in range(one):
            if (plans[one] == plans[other]).all():
                new[one] = False
    return new


@jit
def candidates(
    orders: IntArray,
    speeds: FloatArray,
    work: FloatArray,
    delay: FloatArray,
    weight: FloatArray,
    wanted: IntArray,
    present: IntArray,
    capacity: IntArray,
    types: IntArray,
    rules: FloatArray,
) -> IntArray:
    """The plans that are compared: int64[num_ways + 3, num_jobs, num_nodes].

    First both plans merged (`plan_twice`) for every way; then, the first way: keeping with growth, planning anew, and
    keeping without growth.
    """
    ways = len(orders)
    plans = np.zeros((ways + 3, *present.shape), np.int64)
    for way in range(ways):
        plans[way] = plan_twice(
            orders[way], speeds, work, delay, weight, wanted[way], present, capacity, types, rules
        )  # fmt: skip
    for number, keep in enumerate((True, False)):
        plans[ways + number] = plan(
            keep, orders[0], speeds, work, delay, weight, wanted[0], present, capacity, types, rules
        )
    free = capacity.copy()
    fill(True, orders[0], speeds, wanted[0], present, free, capacity, types, rules[1], rules[2], plans[ways + 2])
    return plans


@jit
def plan_ahead(
    orders: IntArray,
    speeds: FloatArray,
    work: FloatArray,
    delay: FloatArray,
    restart: FloatArray,
    begun: BoolArray,
    knee_speed: FloatArray,
    knee_gpus: IntArray,
    wanted: IntArray,
    present: IntArray,
    capacity: IntArray,
    types: IntArray,
    rules: FloatArray,
    worth: FloatArray,
    depth: int,
) -> IntArray:
    """Of all `candidates` the one after which the jobs present end soonest in sum; the first among equals.

    Every candidate is followed in the way that it was made in.

    Args:
        orders: int64[num_ways, num_jobs], jobs by falling priority.
        wanted: int64[num_ways, num_jobs, num_gpu_types].
        depth: completions to look ahead; 0 takes the first way's merged plan at once.
    """
    weight, ways = weights(work, knee_speed, worth), len(orders)
    if depth == 0:
        return plan_twice(orders[0], speeds, work, delay, weight, wanted[0], present, capacity, types, rules)
    plans, best, soonest = (
        candidates(orders, speeds, work, delay, weight, wanted, present, capacity, types, rules), 0, np.inf,
    )  # fmt: skip
    different = first_of_its_kind(plans)
    for option in range(len(plans)):
        if different[option] and different.sum() > 1:
            way, stall = option if option < ways else 0, np.zeros(len(work))
            for job in orders[way]:
                if not equal(plans[option, job], present[job]):
                    stall[job] = delay[job]
            ends = forecast(
                plans[option].copy(), orders[way], speeds, work, restart, begun, stall, knee_speed, knee_gpus,
                wanted[way], capacity, types, rules, worth, depth,
            )  # fmt: skip
            if ends < soonest:
                best, soonest = option, ends
    chosen: IntArray = plans[best]
    return chosen
