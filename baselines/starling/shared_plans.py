"""Kernels that build a plan where jobs share cores, memory and links: the counterparts of those in `two_plans`.

A job's value on given GPUs is the throughput that it will have there, less what the jobs beside it lose, in units of
its own throughput. Four parameters weigh its shortage of cores and memory, its slow-down by contention, and the losses
of others by either. Arguments are those of `baselines.starling.two_plans` and `baselines.starling.occupants`.
"""

import numpy as np

from baselines.starling.occupants import Occupants, effect_of, harm_of, nobody, own_fraction, seat, settle_occupants
from baselines.starling.room import gpu_type_of, has_room, largest_room, liking_of, nodes_needed, shape_of, take_room
from baselines.starling.round import Found, Jobs, Nodes, StarlingRules
from baselines.starling.worth import after_delay
from envs.simulation.jit import inlined, jit
from envs.types import IntArray


@jit
def value_of(
    job: int,
    row: IntArray,
    first: int,
    end: int,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
) -> float:
    """Return the value of GPUs for a job; `first` and `end` are those of `effect_of`."""
    gpus, gpu_type = 0, -1
    for node in range(first, end):
        if row[node] > 0:
            gpus, gpu_type = gpus + row[node], nodes.types[node]
    if gpu_type < 0:
        return 0.0
    effect = effect_of(job, row, first, end, grid, occupants, jobs, nodes)
    throughput = jobs.throughputs[jobs.group[job], gpu_type, gpus]
    throughput *= own_fraction(effect.fed, effect.calm, jobs.core_weight[job], rules)
    return float(throughput * liking_of(row, jobs.affinity[job]) - harm_of(effect, jobs.weight[job], rules))


@inlined
def best_on_node(
    job: int,
    size: int,
    bound: float,
    node: int,
    trial: IntArray,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
) -> tuple[float, int]:
    """Find the most valuable size on a node: value and size; size 0 if none is worth `bound`.

    Half of a size is tried only if the whole costs the job or others something.

    Args:
        size: at most so many GPUs.
        bound: a value that is found elsewhere.
        trial: int64[num_nodes], zeros; changed and restored.
    """
    throughputs = jobs.throughputs[jobs.group[job], nodes.types[node]]
    liked = jobs.affinity[job]
    liking = np.exp(liked[node]) if len(liked) > 0 else 1.0
    best, best_size = 0.0, 0
    while size > 0:
        while size > 0 and throughputs[size] <= 0:
            size -= 1
        most = throughputs[size] * liking
        if most > best and most >= bound:
            trial[node] = size
            value = value_of(job, trial, node, node + 1, grid, occupants, jobs, nodes, rules)
            trial[node] = 0
            if value > best:
                best, best_size = value, size
            if value >= most:
                break
        size //= 2
    return best, best_size


@inlined
def best_room(
    job: int,
    free: IntArray,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    chosen: IntArray,
) -> Found:
    """Find the most valuable GPUs for a job, at most its `wanted` size of each type; written to `chosen`.

    Of equally valuable nodes the one with fewest free GPUs is taken, the lowest of equals.
    """
    throughputs, wanted, liked = jobs.throughputs[jobs.group[job]], jobs.wanted[job], jobs.affinity[job]
    most_nodes = jobs.most_nodes[jobs.group[job]]
    best, best_type, best_size = 0.0, -1, 0
    trial, spare = np.zeros_like(free), np.zeros_like(free)
    chosen[:] = 0
    for gpu_type in range(len(wanted)):
        largest, whole, rest = shape_of(free, nodes, gpu_type, grid[job])
        if wanted[gpu_type] <= 0 or largest == 0:
            continue
        size = largest_room(wanted[gpu_type], largest, whole, rest)
        while size > largest and (
            throughputs[gpu_type, size] <= 0
            or nodes_needed(size, largest) > most_nodes[gpu_type, size]
            or not has_room(size, largest, whole, rest)
        ):
            size -= 1
        if size > largest:
            trial[:], spare[:] = 0, free
            take_room(spare, nodes, gpu_type, size, trial, liked)
            value = value_of(job, trial, 0, len(free), grid, occupants, jobs, nodes, rules)
            if value > best:
                best, best_type, best_size = value, gpu_type, size
                chosen[:] = trial
            trial[:] = 0
            continue
        spot, spot_value, spot_size = -1, 0.0, 0
        for node in range(len(free)):
            if nodes.types[node] == gpu_type and free[node] > 0:
                most = min(wanted[gpu_type], free[node])
                value, size = best_on_node(
                    job, most, max(best, spot_value), node, trial, grid, occupants, jobs, nodes, rules
                )
                if size > 0 and (value > spot_value or (value == spot_value and free[node] < free[spot])):
                    spot, spot_value, spot_size = node, value, size
        if spot_value > best:
            best, best_type, best_size = spot_value, gpu_type, spot_size
            chosen[:] = 0
            chosen[spot] = spot_size
    return Found(best, best_type, best_size, -1, 1.0)


@inlined
def can_stay(job: int, free: IntArray, jobs: Jobs, nodes: Nodes) -> bool:
    """Whether a job's present GPUs are still free and at most its `wanted` size."""
    now = gpu_type_of(jobs.present[job], nodes.types)
    if now < 0 or jobs.present[job].sum() > jobs.wanted[job, now]:
        return False
    return bool((jobs.present[job] <= free).all())


@inlined
def prefer_present(
    job: int,
    found: Found,
    free: IntArray,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    chosen: IntArray,
) -> None:
    """Write a job's present GPUs, or others on its only node, into `chosen` if they are hardly worse than those.

    The present GPUs need no restart, so the value of those found is reduced by one for that comparison.
    """
    present = jobs.present[job]
    now = gpu_type_of(present, nodes.types)
    if now < 0:
        return
    if can_stay(job, free, jobs, nodes):
        reached = after_delay(found.value, jobs.work[job], jobs.delay[job], rules.horizon)
        value = value_of(job, present, 0, len(free), grid, occupants, jobs, nodes, rules)
        if value * (1.0 + rules.stickiness) >= reached:
            chosen[:] = present
            return
    here, count = -1, 0
    for node in range(len(free)):
        if present[node] > 0:
            here, count = node, count + 1
    if count == 1 and found.gpu_type == now and free[here] >= found.size and chosen[here] == 0:
        trial = np.zeros_like(free)
        trial[here] = found.size
        value = value_of(job, trial, here, here + 1, grid, occupants, jobs, nodes, rules)
        if value * (1.0 + rules.stickiness) >= found.value:
            chosen[:] = trial


@jit
def fill_shared(
    keep: bool, order: IntArray, jobs: Jobs, free: IntArray, nodes: Nodes, rules: StarlingRules, grid: IntArray
) -> None:
    """Give jobs in order the GPUs that are most valuable to them; fills `grid`, as `two_plans.fill_plan` does.

    A job waits if all GPUs would cost others more than it gains.
    """
    occupants, chosen = nobody(jobs, nodes), np.zeros_like(free)
    if keep:
        for job in order:
            grid[job] = jobs.present[job]
            for node in range(len(free)):
                free[node] -= jobs.present[job, node]
        settle_occupants(grid, occupants, jobs, nodes)
    left = free.sum()
    for job in order:
        if left == 0:
            return
        if gpu_type_of(grid[job], nodes.types) >= 0:
            continue
        found = best_room(job, free, grid, occupants, jobs, nodes, rules, chosen)
        prefer_present(job, found, free, grid, occupants, jobs, nodes, rules, chosen)
        if gpu_type_of(chosen, nodes.types) >= 0:
            grid[job] = chosen
            for node in range(len(free)):
                free[node] -= chosen[node]
                left -= chosen[node]
            seat(job, grid, occupants, jobs, nodes)
