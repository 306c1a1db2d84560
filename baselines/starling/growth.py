"""Kernels that give out the GPUs that a plan leaves over. Arguments are those of `baselines.starling.two_plans`."""

import numpy as np

from baselines.starling.occupants import Occupants, effect_of, harm_of, own_fraction, seat, settle_occupants
from baselines.starling.room import (
    copy_row,
    count_gpus,
    gpu_type_of,
    has_room,
    liking_of,
    most_liking,
    nodes_needed,
    shape_of,
    take_room,
)
from baselines.starling.round import Jobs, Nodes, StarlingRules
from baselines.starling.scratch import PlacingScratch
from baselines.starling.worth import MARGIN, NEGLIGIBLE_GAIN, after_delay, throughput_under
from envs.simulation.jit import inlined, leaf
from envs.types import FloatArray, IntArray


@inlined
def value_after_growth(
    job: int,
    throughput: float,
    trial: IntArray,
    first: int,
    end: int,
    grid: IntArray,
    occupants: Occupants,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
) -> tuple[float, float]:
    """Return what more GPUs are worth to a job, as a mean throughput, and what the other jobs lose.

    Args:
        throughput: of the job on these GPUs, without other jobs.
        trial: int16[num_nodes], the GPUs.
        first: as in `effect_of`.
        end: likewise.
    """
    lost = 0.0
    if nodes.shared.counted:
        effect = effect_of(job, trial, first, end, grid, occupants, jobs, nodes)
        throughput *= own_fraction(effect.fed, effect.calm, jobs.core_weight[job], rules)
        lost = harm_of(effect, jobs.weight[job], rules)
    value = after_delay(throughput, jobs.work[job], jobs.delay[job], rules.horizon)
    return float(value * liking_of(trial, jobs.affinity[job])), float(lost)


@inlined
def best_growth(
    job: int,
    free: IntArray,
    grid: IntArray,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    scratch: PlacingScratch,
) -> tuple[float, int, int]:
    """Find a job's best growth: gain in value per GPU, additional GPUs, and the node; -1 for further nodes.

    A job grows on a node of which it holds a part. If it holds all its nodes wholly, it grows on the fewest further
    nodes. `scratch.occupants` are read only where jobs share more than GPUs.
    """
    row, group, liked = grid[job], jobs.group[job], jobs.affinity[job]
    occupants, trial, last = scratch.occupants, scratch.trial, len(row)
    first, end = 0, last
    if nodes.shared.counted:
        first, end = occupants.first[job], occupants.end[job]
    gpu_type, size, held, owns_nodes = -1, 0, 0, True
    for node in range(first, end):
        if row[node] > 0:
            gpu_type, size, held = nodes.types[node], size + row[node], held + 1
            owns_nodes = owns_nodes and row[node] == nodes.capacity[node]
    throughputs, most_nodes = jobs.throughputs[group, gpu_type], jobs.most_nodes[group, gpu_type]
    now = throughput_under(job, jobs, row, nodes.types, rules.horizon) * liking_of(row, liked)
    if nodes.shared.counted:
        now *= own_fraction(occupants.fed[job], occupants.calm[job], jobs.core_weight[job], rules)
    gain, more, where, limit = NEGLIGIBLE_GAIN * throughputs[size], 0, -1, len(throughputs) - 1 - size
    largest, whole, rest = shape_of(free, nodes, gpu_type, row) if owns_nodes else (0, 0, 0)
    ceiling = most_liking(liked) * (1.0 + MARGIN) if len(liked) > 0 else 1.0  # on the factor by affinity
    weighed = nodes.shared.counted or len(liked) > 0  # whether it matters which GPUs these are
    for node in range(first, end + 1 if owns_nodes else end):
        beyond = node == end
        if not beyond and (row[node] == 0 or free[node] == 0):
            continue
        for extra in range(1, min(whole * largest + rest if beyond else free[node], limit) + 1):
            throughput = throughputs[size + extra]
            on = held + nodes_needed(extra, largest) if beyond else held
            if throughput <= 0 or on > most_nodes[size + extra]:
                continue
            value, lost = after_delay(throughput, jobs.work[job], jobs.delay[job], rules.horizon), 0.0
            if (value * ceiling - now) / extra <= gain:
                continue  # even with nothing lost
            if beyond and not has_room(extra, largest, whole, rest):
                continue
            if weighed:
                copy_row(row, trial)
                if beyond:
                    copy_row(free, scratch.spare)
                    take_room(scratch.spare, nodes, gpu_type, extra, trial, liked)
                else:
                    trial[node] += extra
                low, high = (0, last) if beyond else (first, end)
                value, lost = value_after_growth(job, throughput, trial, low, high, grid, occupants, jobs, nodes, rules)
            per_gpu = (value - now - lost) / extra
            if per_gpu > gain:
                gain, more, where = per_gpu, extra, -1 if beyond else node
    return gain if more > 0 else 0.0, more, where


@leaf
def largest_of(gains: FloatArray) -> int:
    """Return the first index of the largest number."""
    best = 0
    for job in range(1, len(gains)):
        if gains[job] > gains[best]:
            best = job
    return best


@inlined
def grow_plan(
    jobs: Jobs, free: IntArray, nodes: Nodes, rules: StarlingRules, grid: IntArray, scratch: PlacingScratch
) -> None:
    """Give GPUs left over, a step at a time, to the job with the largest gain, the lowest of equals; changes `grid`.

    The number of free GPUs only falls, and gains with it. So an earlier gain is an upper bound, recomputed on its turn.
    Where jobs share more than GPUs, a gain may rise when another job grows. The order of growth then follows the
    earlier, smaller gain.
    """
    left, gains, counted = count_gpus(free), scratch.gains, nodes.shared.counted
    if left == 0:
        return
    if counted:
        settle_occupants(grid, scratch.occupants, jobs, nodes)
    for job in range(len(gains)):
        runs = scratch.occupants.end[job] > 0 if counted else gpu_type_of(grid[job], nodes.types) >= 0
        gains[job] = np.inf if runs else 0.0
    while len(gains) > 0 and left > 0:
        job = largest_of(gains)
        if gains[job] <= 0:
            return
        gain, more, where = best_growth(job, free, grid, jobs, nodes, rules, scratch)
        bound = gains[job]
        gains[job] = gain * (jobs.weight[job] * jobs.appetite[job])
        if gains[job] < bound or more == 0:
            continue
        if where >= 0:
            grid[job, where] += more
            free[where] -= more
        else:
            take_room(free, nodes, gpu_type_of(grid[job], nodes.types), more, grid[job], jobs.affinity[job])
        left -= more
        if counted:
            seat(job, grid, scratch.occupants, jobs, nodes)
        gains[job] = np.inf  # its next step is another one
