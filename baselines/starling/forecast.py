"""Kernels that look ahead: what becomes of the jobs present under a plan, if nobody else comes.

Arguments are those of `baselines.starling.two_plans`.
"""

import numpy as np

from baselines.starling.round import Jobs, Nodes, Outlook, Rules, Ways
from baselines.starling.two_plans import equal, fill, kind_of, plan, plan_twice
from envs.simulation.jit import jit
from envs.types import BoolArray, FloatArray, IntArray, Seconds

DONE = 1e-9  # share of its work up to which a job is done: rounding


@jit
def weights(work: FloatArray, knee_speed: FloatArray, rules: Rules) -> FloatArray:
    """float64[num_jobs]: what a sample/s of a job is worth: the inverse of its remaining time, to a power."""
    weight: FloatArray = (work / knee_speed + rules.floor) ** -rules.urgency / knee_speed
    return weight


@jit
def next_end(grid: IntArray, jobs: Jobs, stalled: FloatArray, types: IntArray) -> Seconds:
    """Seconds to the next completion; infinite if nothing runs."""
    soonest = np.inf
    for job in range(len(jobs.work)):
        kind = kind_of(grid[job], types)
        if kind >= 0:
            soonest = min(soonest, stalled[job] + jobs.work[job] / jobs.speeds[job, kind, grid[job].sum()])
    return soonest


@jit
def advance(seconds: Seconds, grid: IntArray, jobs: Jobs, stalled: FloatArray, types: IntArray) -> int:
    """Let time pass: changes `jobs.work` and `stalled`; those at their end leave `grid`. Returns how many did."""
    ended = 0
    for job in range(len(jobs.work)):
        kind = kind_of(grid[job], types)
        if kind < 0:
            continue
        done = max(seconds - stalled[job], 0.0) * jobs.speeds[job, kind, grid[job].sum()]
        stalled[job] = max(stalled[job] - seconds, 0.0)
        if done >= jobs.work[job] * (1.0 - DONE):
            jobs.work[job] = 0.0
            grid[job] = 0
            ended += 1
        else:
            jobs.work[job] -= done
    return ended


@jit
def backlog(order: IntArray, work: FloatArray, outlook: Outlook, num_gpus: int) -> tuple[Seconds, int]:
    """Sum of the times in which jobs would end one after the other, each on its share of a cluster without nodes.

    Returns:
        Seconds, summed over the jobs that have work left; and how many these are.
    """
    queued, total, count = 0.0, 0.0, 0
    for job in order:
        if work[job] > 0:
            alone = work[job] / outlook.knee_speed[job]
            queued += alone * outlook.knee_gpus[job] / num_gpus
            total += max(queued, alone)
            count += 1
    return total, count


@jit
def forecast(
    grid: IntArray,
    order: IntArray,
    jobs: Jobs,
    outlook: Outlook,
    first_stall: FloatArray,
    nodes: Nodes,
    rules: Rules,
    depth: int,
) -> Seconds:
    """Sum of the times from now in which all jobs end if a plan is followed, by `plan_twice` at every completion.

    After `depth` completions what is left is estimated by `backlog`.

    Args:
        grid: the plan; is changed.
        first_stall: float64[num_jobs], seconds until each job of the plan begins to work.
        depth: completions to look ahead.
    """
    work, begun, stalled = jobs.work.copy(), outlook.begun.copy(), first_stall.copy()
    later = Jobs(jobs.speeds, work, jobs.delay, jobs.weight, jobs.wanted, grid)
    now, total, left = 0.0, 0.0, len(order)
    for _ in range(depth):
        seconds = next_end(grid, later, stalled, nodes.types)
        if seconds == np.inf:
            break
        for job in order:
            begun[job] = begun[job] or kind_of(grid[job], nodes.types) >= 0
        ended = advance(seconds, grid, later, stalled, nodes.types)
        now += seconds
        total += ended * now
        left -= ended
        if left == 0:
            return total
        alive = order[work[order] > 0]
        delay = np.where(begun, outlook.restart, 0.0)
        later = Jobs(jobs.speeds, work, delay, weights(work, outlook.knee_speed, rules), jobs.wanted, grid)
        after = plan_twice(alive, later, nodes, rules)
        for job in alive:
            if not equal(after[job], grid[job]):
                stalled[job] = delay[job]
        grid = after
    rest, count = backlog(order, work, outlook, max(1, nodes.capacity.sum()))
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
def in_way(jobs: Jobs, ways: Ways, way: int) -> Jobs:
    """The jobs, wanting what they want in one of the ways."""
    return Jobs(jobs.speeds, jobs.work, jobs.delay, jobs.weight, ways.wanted[way], jobs.present)


@jit
def candidates(ways: Ways, jobs: Jobs, nodes: Nodes, rules: Rules) -> IntArray:
    """The plans that are compared: int64[num_ways + 3, num_jobs, num_nodes].

    First both plans merged (`plan_twice`) for every way; then, the first way: keeping with growth, planning anew, and
    keeping without growth.
    """
    count, order, first = len(ways.orders), ways.orders[0], in_way(jobs, ways, 0)
    plans = np.zeros((count + 3, *jobs.present.shape), np.int64)
    for way in range(count):
        plans[way] = plan_twice(ways.orders[way], in_way(jobs, ways, way), nodes, rules)
    for number, keep in enumerate((True, False)):
        plans[count + number] = plan(keep, order, first, nodes, rules)
    fill(True, order, first, nodes.capacity.copy(), nodes, rules, plans[count + 2])
    return plans


@jit
def plan_ahead(ways: Ways, jobs: Jobs, outlook: Outlook, nodes: Nodes, rules: Rules, depth: int) -> IntArray:
    """Of all `candidates` the one after which the jobs present end soonest in sum; the first among equals.

    Every candidate is followed in the way that it was made in.

    Args:
        ways: the ways to plan.
        jobs: what they want counts not: the ways say that.
        outlook: what is known for later.
        nodes: the nodes.
        rules: numbers.
        depth: completions to look ahead; 0 takes the first way's merged plan at once.
    """
    if depth == 0:
        return plan_twice(ways.orders[0], in_way(jobs, ways, 0), nodes, rules)
    plans, best, soonest = candidates(ways, jobs, nodes, rules), 0, np.inf
    different = first_of_its_kind(plans)
    for option in range(len(plans)):
        if different[option] and different.sum() > 1:
            way, stall = option if option < len(ways.orders) else 0, np.zeros(len(jobs.work))
            for job in ways.orders[way]:
                if not equal(plans[option, job], jobs.present[job]):
                    stall[job] = jobs.delay[job]
            its = in_way(jobs, ways, way)
            ends = forecast(plans[option].copy(), ways.orders[way], its, outlook, stall, nodes, rules, depth)
            if ends < soonest:
                best, soonest = option, ends
    chosen: IntArray = plans[best]
    return chosen
