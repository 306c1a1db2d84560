"""Kernels that look ahead: forecast the jobs present under a plan, assuming that no further job arrives.

Arguments are those of `baselines.starling.two_plans`.
"""

import numpy as np

from baselines.starling.occupants import kept_fractions
from baselines.starling.room import equal, gpu_type_of
from baselines.starling.round import JobForecast, Jobs, Nodes, StarlingRules, Variants
from baselines.starling.two_plans import fill_plan, plan, plan_twice
from envs.simulation.jit import inlined, jit
from envs.types import BoolArray, FloatArray, IntArray, Seconds

_DONE = 1e-9  # a job with at most this share of its work left is done: rounding


@jit
def weights(work: FloatArray, knee_throughput: FloatArray, rules: StarlingRules) -> FloatArray:
    """float64[num_jobs]: the worth of one sample/s of a job: the inverse of its remaining time, to a power."""
    weight: FloatArray = (work / knee_throughput + rules.floor) ** -rules.urgency / knee_throughput
    return weight


@jit
def next_end(grid: IntArray, jobs: Jobs, stalled: FloatArray, types: IntArray, fractions: FloatArray) -> Seconds:
    """Return the seconds to the next completion; infinite if no job runs.

    Args:
        fractions: float64[num_jobs], what each job keeps of its throughput beside the others.
    """
    soonest = np.inf
    for job in range(len(jobs.work)):
        gpu_type = gpu_type_of(grid[job], types)
        if gpu_type >= 0:
            throughput = jobs.throughputs[jobs.group[job], gpu_type, grid[job].sum()] * fractions[job]
            soonest = min(soonest, stalled[job] + jobs.work[job] / throughput)
    return soonest


@jit
def advance_jobs(
    seconds: Seconds, grid: IntArray, jobs: Jobs, stalled: FloatArray, types: IntArray, fractions: FloatArray
) -> int:
    """Advance time: change `jobs.work` and `stalled`, remove finished jobs from `grid`, return how many."""
    ended = 0
    for job in range(len(jobs.work)):
        gpu_type = gpu_type_of(grid[job], types)
        if gpu_type < 0:
            continue
        throughput = jobs.throughputs[jobs.group[job], gpu_type, grid[job].sum()] * fractions[job]
        done = max(seconds - stalled[job], 0.0) * throughput
        stalled[job] = max(stalled[job] - seconds, 0.0)
        if done >= jobs.work[job] * (1.0 - _DONE):
            jobs.work[job] = 0.0
            grid[job] = 0
            ended += 1
        else:
            jobs.work[job] -= done
    return ended


@jit
def backlog(order: IntArray, work: FloatArray, outlook: JobForecast, num_gpus: int) -> tuple[Seconds, int]:
    """Estimate the sum of completion times if jobs run one after the other, ignoring nodes.

    Each job takes its knee's share of the cluster, and at least its time alone.

    Returns:
        Seconds, summed over the jobs with work left, and the number of these jobs.
    """
    queued, total, count = 0.0, 0.0, 0
    for job in order:
        if work[job] > 0:
            alone = work[job] / outlook.knee_throughput[job]
            queued += alone * outlook.knee_gpus[job] / num_gpus
            total += max(queued, alone)
            count += 1
    return total, count


@inlined
def with_progress(jobs: Jobs, work: FloatArray, delay: FloatArray, weight: FloatArray, present: IntArray) -> Jobs:
    """Return the jobs at a later instant."""
    return Jobs(
        jobs.throughputs,
        jobs.most_nodes,
        jobs.group,
        jobs.model,
        work,
        delay,
        weight,
        jobs.wanted,
        present,
        jobs.appetite,
        jobs.core_weight,
        jobs.affinity,
    )


@inlined
def forecast(
    grid: IntArray,
    order: IntArray,
    jobs: Jobs,
    outlook: JobForecast,
    first_stall: FloatArray,
    nodes: Nodes,
    rules: StarlingRules,
    depth: int,
) -> Seconds:
    """Return the sum of the times from now to each job's end if a plan is followed, by `plan_twice` at each completion.

    The work left after `depth` completions is estimated by `backlog`.

    Args:
        grid: the plan; changed.
        first_stall: float64[num_jobs], seconds until each job of the plan begins to work.
        depth: completions to look ahead.
    """
    work, begun, stalled = jobs.work.copy(), outlook.begun.copy(), first_stall.copy()
    later = with_progress(jobs, work, jobs.delay, jobs.weight, grid)
    now, total, left = 0.0, 0.0, len(order)
    for _ in range(depth):
        fractions = kept_fractions(grid, later, nodes)
        seconds = next_end(grid, later, stalled, nodes.types, fractions)
        if seconds == np.inf:
            break
        for job in order:
            begun[job] = begun[job] or gpu_type_of(grid[job], nodes.types) >= 0
        ended = advance_jobs(seconds, grid, later, stalled, nodes.types, fractions)
        now += seconds
        total += ended * now
        left -= ended
        if left == 0:
            return total
        alive = order[work[order] > 0]
        delay = np.where(begun, outlook.restart, 0.0)
        later = with_progress(jobs, work, delay, weights(work, outlook.knee_throughput, rules), grid)
        after = plan_twice(alive, later, nodes, rules)
        for job in alive:
            if not equal(after[job], grid[job]):
                stalled[job] = delay[job]
        grid = after
    rest, count = backlog(order, work, outlook, max(1, nodes.capacity.sum()))
    return total + count * now + rest


@inlined
def find_distinct_plans(plans: IntArray) -> BoolArray:
    """bool[num_plans]: whether a plan of int64[num_plans, num_jobs, num_nodes] differs from all plans before it."""
    new = np.ones(len(plans), np.bool_)
    for one in range(1, len(plans)):
        for other in range(one):
            if (plans[one] == plans[other]).all():
                new[one] = False
    return new


@inlined
def with_variant(jobs: Jobs, variants: Variants, variant: int) -> Jobs:
    """Return the jobs with the requested sizes of one of the variants."""
    return Jobs(
        jobs.throughputs,
        jobs.most_nodes,
        jobs.group,
        jobs.model,
        jobs.work,
        jobs.delay,
        jobs.weight,
        variants.wanted[variant],
        jobs.present,
        jobs.appetite,
        jobs.core_weight,
        jobs.affinity,
    )


@inlined
def candidates(variants: Variants, jobs: Jobs, nodes: Nodes, rules: StarlingRules) -> IntArray:
    """Build the plans to compare: int64[num_variants + 3, num_jobs, num_nodes].

    The first `num_variants` are both plans merged (`plan_twice`) for each variant. The last three use the first
    variant: keep running jobs with growth, plan anew, and keep running jobs without growth.
    """
    count, order, first = len(variants.orders), variants.orders[0], with_variant(jobs, variants, 0)
    plans = np.zeros((count + 3, *jobs.present.shape), np.int64)
    for variant in range(count):
        plans[variant] = plan_twice(variants.orders[variant], with_variant(jobs, variants, variant), nodes, rules)
    for number, keep in enumerate((True, False)):
        plans[count + number] = plan(keep, order, first, nodes, rules)
    fill_plan(True, order, first, nodes.capacity.copy(), nodes, rules, plans[count + 2])
    return plans


@inlined
def plan_ahead(
    variants: Variants, jobs: Jobs, outlook: JobForecast, nodes: Nodes, rules: StarlingRules, depth: int
) -> IntArray:
    """Choose the plan of `candidates` with the least sum of completion times of the jobs present; the first of equals.

    The forecast of each candidate uses the variant that built it.

    Args:
        variants: the variants to plan.
        jobs: the jobs; `wanted` is ignored, since each variant supplies its own.
        outlook: what is known about the jobs for later.
        nodes: the nodes.
        rules: the parameters.
        depth: completions to look ahead; 0 takes the first variant's merged plan at once.
    """
    if depth == 0:
        return plan_twice(variants.orders[0], with_variant(jobs, variants, 0), nodes, rules)
    plans, best, soonest = candidates(variants, jobs, nodes, rules), 0, np.inf
    different = find_distinct_plans(plans)
    for option in range(len(plans)):
        if different[option] and different.sum() > 1:
            variant, stall = option if option < len(variants.orders) else 0, np.zeros(len(jobs.work))
            for job in variants.orders[variant]:
                if not equal(plans[option, job], jobs.present[job]):
                    stall[job] = jobs.delay[job]
            its = with_variant(jobs, variants, variant)
            ends = forecast(plans[option].copy(), variants.orders[variant], its, outlook, stall, nodes, rules, depth)
            if ends < soonest:
                best, soonest = option, ends
    chosen: IntArray = plans[best]
    return chosen
