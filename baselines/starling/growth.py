"""Kernels that give out GPUs left over by a candidate. Arguments are those of `baselines.starling.two_candidates`."""

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
from envs.simulation.compiled.jit import inlined, leaf
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


@leaf
def holding_of(row: IntArray, first: int, end: int, nodes: Nodes) -> tuple[int, int, int, bool]:
    """Return a job's GPU type (-1 for none), GPUs and number of nodes, and whether it holds all GPUs of these nodes."""
    gpu_type, size, held, owns_nodes = -1, 0, 0, True
    for node in range(first, end):
        if row[node] > 0:
            gpu_type, size, held = nodes.types[node], size + row[node], held + 1
            owns_nodes = owns_nodes and row[node] == nodes.capacity[node]
    return gpu_type, size, held, owns_nodes


@inlined
def try_growth(
    job: int,
    extra: int,
    node: int,
    throughput: float,
    gpu_type: int,
    first: int,
    end: int,
    free: IntArray,
    grid: IntArray,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    scratch: PlacingScratch,
) -> tuple[float, float]:
    """Return what `value_after_growth` does for `extra` more GPUs, on a node of the job or, if it is `end`, on others.

    Args:
        throughput: of the job on all these GPUs, without other jobs.
        gpu_type: their type.
        first: the first node of the job.
        end: the node after its last one.
    """
    trial, low, high = scratch.trial, first, end
    copy_row(grid[job], trial)
    if node == end:
        # Further nodes may lie anywhere, so the whole row is read.
        low, high = 0, len(trial)
        copy_row(free, scratch.spare)
        take_room(scratch.spare, nodes, gpu_type, extra, trial, jobs.affinity[job])
    else:
        trial[node] += extra
    return value_after_growth(job, throughput, trial, low, high, grid, scratch.occupants, jobs, nodes, rules)


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
    occupants, first, end = scratch.occupants, 0, len(row)
    if nodes.shared.counted:
        first, end = occupants.first[job], occupants.end[job]
    gpu_type, size, held, owns_nodes = holding_of(row, first, end, nodes)
    throughputs, most_nodes = jobs.throughputs[group, gpu_type], jobs.most_nodes[group, gpu_type]
    # The gain counts from what the job keeps now beside the others, in the same units as the value after growth.
    now = throughput_under(job, jobs, row, nodes.types, rules.horizon) * liking_of(row, liked)
    if nodes.shared.counted:
        now *= own_fraction(occupants.fed[job], occupants.calm[job], jobs.core_weight[job], rules)
    gain, more, where, limit = NEGLIGIBLE_GAIN * throughputs[size], 0, -1, len(throughputs) - 1 - size
    # Only a job that fills its nodes may take further ones, so that jobs stay on few nodes.
    largest, whole, rest = shape_of(free, nodes, gpu_type, row) if owns_nodes else (0, 0, 0)
    # An upper bound on the factor by affinity, so that sizes which cannot win are skipped.
    ceiling = most_liking(liked) * (1.0 + MARGIN) if len(liked) > 0 else 1.0
    weighed = nodes.shared.counted or len(liked) > 0  # whether it matters which GPUs these are
    for node in range(first, end + 1 if owns_nodes else end):
        beyond = node == end
        if not beyond and (row[node] == 0 or free[node] == 0):
            continue
        # A single GPU may bring nothing where the next few do, so all sizes are compared, by gain per GPU.
        for extra in range(1, min(whole * largest + rest if beyond else free[node], limit) + 1):
            throughput = throughputs[size + extra]
            on = held + nodes_needed(extra, largest) if beyond else held
            if throughput <= 0 or on > most_nodes[size + extra]:
                continue
            value, lost = after_delay(throughput, jobs.work[job], jobs.delay[job], rules.horizon), 0.0
            # Not even with nothing lost would this size win, so the costly evaluation below is skipped.
            if (value * ceiling - now) / extra <= gain:
                continue
            if beyond and not has_room(extra, largest, whole, rest):
                continue
            if weighed:
                value, lost = try_growth(
                    job, extra, node, throughput, gpu_type, first, end, free, grid, jobs, nodes, rules, scratch
                )
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
def grow_candidate(
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
    # Jobs that run count as most eager until their gain is computed. Waiting jobs found no GPUs, and get none here.
    for job in range(len(gains)):
        runs = scratch.occupants.end[job] > 0 if counted else gpu_type_of(grid[job], nodes.types) >= 0
        gains[job] = np.inf if runs else 0.0
    while len(gains) > 0 and left > 0:
        job = largest_of(gains)
        if gains[job] <= 0:
            return
        gain, more, where = best_growth(job, free, grid, jobs, nodes, rules, scratch)
        # The gain may have fallen since it was computed. If so, another job may now have the largest one.
        bound = gains[job]
        gains[job] = gain * (jobs.weight[job] * jobs.appetite[job])
        if gains[job] < bound or more == 0:
            continue
        if where >= 0:
            grid[job, where] += more
            free[where] -= more
        else:
            take_room(free, nodes, gpu_type_of(grid[job], nodes.types), more, grid[job], jobs.affinity[job])
        # The next gains depend on what this job now takes from those beside it.
        left -= more
        if counted:
            seat(job, grid, scratch.occupants, jobs, nodes)
        # The job's next step is another one, whose gain is not known yet.
        gains[job] = np.inf
