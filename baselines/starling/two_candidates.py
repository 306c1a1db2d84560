"""Kernels that build two candidates of a cluster, node by node, and choose the better one for each part of the cluster.

Arguments recur:
    order: int64[num_jobs], the jobs by falling priority.
    free: int64[num_nodes], GPUs not given to a job yet.
    row: int16[num_nodes], GPUs of one job by node under the candidate so far.
    grid: int16[num_jobs, num_nodes], the candidate: GPUs by node.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from baselines.starling.growth import grow_candidate
from baselines.starling.occupants import find_fractions
from baselines.starling.room import (
    clear_row,
    copy_row,
    count_gpus,
    gpu_type_of,
    largest_room,
    liking_of,
    runnable_room,
    shape_of,
    take_room,
)
from baselines.starling.round import Found, Jobs, Nodes, StarlingRules
from baselines.starling.scratch import NO_SCRATCH, PlacingScratch
from baselines.starling.shared_candidates import fill_shared
from baselines.starling.worth import after_delay, throughput_under
from envs.simulation.compiled.jit import as_argument, inlined, part, shared_kernel
from envs.types import FloatArray, IntArray

WriteCandidate: TypeAlias = Callable[[bool, bool, IntArray, Jobs, Nodes, StarlingRules, PlacingScratch, IntArray], None]

_NO_ORDER = np.zeros(0, np.int64)


@inlined
def fill_candidate(
    keep: bool,
    order: IntArray,
    jobs: Jobs,
    free: IntArray,
    nodes: Nodes,
    rules: StarlingRules,
    grid: IntArray,
    scratch: PlacingScratch,
) -> None:
    """Give jobs in order their size where it is worth most, or the most for which there is room; fills `grid`.

    Args:
        keep: whether running jobs first get the GPUs that they hold.
        free: all GPUs at first, those left at the end.
    """
    if nodes.shared.counted:
        fill_shared(keep, order, jobs, free, nodes, rules, grid, scratch)
    else:
        fill_alone(keep, order, jobs, free, nodes, rules, grid, scratch)


@inlined
def fill_alone(
    keep: bool,
    order: IntArray,
    jobs: Jobs,
    free: IntArray,
    nodes: Nodes,
    rules: StarlingRules,
    grid: IntArray,
    scratch: PlacingScratch,
) -> None:
    """Give jobs in order their size where they are fastest, or the most for which there is room; fills `grid`.

    For jobs that share nothing but GPUs; arguments are those of `fill_candidate`.
    """
    # Running jobs that are kept have their GPUs before others choose, so that none of them moves.
    for job in order:
        for node in range(len(free) if keep else 0):
            grid[job, node] = jobs.present[job, node]
            free[node] -= jobs.present[job, node]
    left = count_gpus(free)
    for job in order:
        if left == 0:
            return
        if gpu_type_of(grid[job], nodes.types) >= 0:
            continue
        # Jobs of higher priority choose first. What they would lose by a restart is part of the comparison.
        found = fastest_room(job, jobs, free, nodes, grid[job], scratch)
        reached = after_delay(found.value, jobs.work[job], jobs.delay[job], rules.horizon)
        moved = Found(reached, found.gpu_type, found.size, found.node, found.liking)
        # A small advantage does not justify a move, so a job stays where it is nearly as fast.
        if stays_competitive(job, jobs, free, nodes, moved, rules):
            for node in range(len(free)):
                grid[job, node] = jobs.present[job, node]
                free[node] -= jobs.present[job, node]
        elif found.gpu_type >= 0:
            # On its own node a job can grow back later, up to its present size, without a change.
            node = own_node(job, jobs, free, nodes, found, rules)
            if node < 0:
                node = found.node
            if node >= 0:
                grid[job, node] = found.size
                free[node] -= found.size
            else:
                take_room(free, nodes, found.gpu_type, found.size, grid[job], jobs.affinity[job])
        left -= count_gpus(grid[job])


@inlined
def fastest_room(job: int, jobs: Jobs, free: IntArray, nodes: Nodes, row: IntArray, scratch: PlacingScratch) -> Found:
    """Find the GPUs on which one job is fastest, at most its `wanted` size of each type; with affinity, of most value.

    Args:
        row: zeros.
    """
    throughputs, most_nodes = jobs.throughputs[jobs.group[job]], jobs.most_nodes[jobs.group[job]]
    wanted, liked = jobs.wanted[job], jobs.affinity[job]
    best = Found(0.0, -1, 0, -1, 1.0)
    for gpu_type in range(len(wanted)):
        if wanted[gpu_type] > 0:
            # A job that does not fit at its size runs on fewer GPUs rather than wait.
            largest, whole, rest = shape_of(free, nodes, gpu_type, row)
            size = largest_room(wanted[gpu_type], largest, whole, rest)
            size = runnable_room(size, 0, throughputs[gpu_type], most_nodes[gpu_type], largest, whole, rest)
            found = Found(throughputs[gpu_type, size], gpu_type, size, -1, 1.0)
            # Affinity makes nodes differ, so the value is only known once the nodes are chosen.
            if len(liked) > 0 and size > largest:
                copy_row(row, scratch.trial)
                copy_row(free, scratch.spare)
                take_room(scratch.spare, nodes, gpu_type, size, scratch.trial, liked)
                liking = liking_of(scratch.trial, liked)
                found = Found(throughputs[gpu_type, size] * liking, gpu_type, size, -1, liking)
            elif len(liked) > 0:
                found = favourite_node(throughputs[gpu_type], wanted[gpu_type], gpu_type, free, nodes, liked)
            if found.value > best.value:
                best = found
    return best


@part
def favourite_node(
    throughputs: FloatArray, wanted: int, gpu_type: int, free: IntArray, nodes: Nodes, liked: FloatArray
) -> Found:
    """Find the node of a type on which a job's GPUs are worth most, at most `wanted` of them.

    A node's value is the most throughput that so many GPUs can bring, times its factor by affinity. Of equals it takes
    the node with the largest size, then the one that fits best, then the lowest. So without preference this is the node
    that `largest_room` and `take_room` find.
    """
    best, best_size, best_node = 0.0, 0, -1
    for node in range(len(free)):
        if nodes.types[node] == gpu_type and free[node] > 0:
            # More GPUs can be slower, so the value of a node is that of its best size.
            size, most = min(wanted, free[node]), 0.0
            while size > 0 and throughputs[size] <= 0:
                size -= 1
            for smaller in range(1, size + 1):
                most = max(most, throughputs[smaller])
            value = most * np.exp(liked[node])
            tighter = best_node >= 0 and size == best_size and free[node] < free[best_node]
            if value > best or (value == best and size > 0 and (size > best_size or tighter)):
                best, best_size, best_node = value, size, node
    if best_node < 0:
        return Found(0.0, -1, 0, -1, 1.0)
    liking = float(np.exp(liked[best_node]))
    return Found(throughputs[best_size] * liking, gpu_type, best_size, best_node, liking)


@inlined
def stays_competitive(
    job: int,
    jobs: Jobs,
    free: IntArray,
    nodes: Nodes,
    found: Found,
    rules: StarlingRules,
) -> bool:
    """Whether a job's present GPUs are still free, hardly worse than those found, and at most its `wanted` size.

    Args:
        found: other GPUs, with the value that they would have for the job, restart included.
    """
    present, wanted = jobs.present[job], jobs.wanted[job]
    # A job never keeps more than its size, since the rest is given out by gain afterwards.
    now, held = gpu_type_of(present, nodes.types), count_gpus(present)
    if now < 0 or held > wanted[now]:
        return False
    for node in range(len(free)):
        if present[node] > free[node]:
            return False
    # Nearly the same size on the same type is as good, too, unless another node is liked clearly more.
    liking = liking_of(present, jobs.affinity[job])
    near = now == found.gpu_type and abs(found.size - held) <= rules.tolerance * found.size
    value = jobs.throughputs[jobs.group[job], now, held] * liking
    return value * (1.0 + rules.stickiness) >= found.value or (
        near and liking * (1.0 + rules.stickiness) >= found.liking
    )


@inlined
def own_node(job: int, jobs: Jobs, free: IntArray, nodes: Nodes, found: Found, rules: StarlingRules) -> int:
    """Return the only node on which a job runs, if it has enough free GPUs of the type found; else -1.

    A job that shrinks on its own node may grow back to its present size, which is then no change. The node must be
    hardly less liked than the GPUs found.
    """
    present, liked = jobs.present[job], jobs.affinity[job]
    here = -1
    for node in range(len(present)):
        if present[node] > 0:
            if here >= 0:
                return -1
            here = node
    if here < 0 or nodes.types[here] != found.gpu_type or free[here] < found.size:
        return -1
    liking = np.exp(liked[here]) if len(liked) > 0 else 1.0
    return here if liking * (1.0 + rules.stickiness) >= found.liking else -1


@part
def root(parent: IntArray, node: int) -> int:
    """Return the node that represents a node's part of the cluster."""
    while parent[node] != node:
        node = parent[node]
    return node


@part
def choose_by_part(
    jobs: Jobs, nodes: Nodes, rules: StarlingRules, kept: IntArray, grid: IntArray, scratch: PlacingScratch
) -> None:
    """Write the better of two candidates into `grid`, separately for each part of the cluster.

    Two nodes belong to one part if a job runs on both under either candidate, or moves from one to the other. The
    candidate that keeps running jobs (`kept`) wins unless the other is worth more by the share `hysteresis`.
    """
    # A change of one job is possible only together with those of all jobs whose nodes it touches: these are one part.
    num_jobs, num_nodes = grid.shape
    parent, first, gain = scratch.part, scratch.anchor, scratch.node_gains
    for node in range(num_nodes):
        parent[node], gain[node] = node, 0.0
    for job in range(num_jobs):
        first[job] = -1
        for node in range(num_nodes):
            if kept[job, node] > 0 or grid[job, node] > 0:
                if first[job] < 0:
                    first[job] = node
                parent[root(parent, node)] = root(parent, first[job])
    # Jobs lose different amounts to co-located jobs in the two, so both are evaluated as a whole.
    find_fractions(kept, scratch.occupants, jobs, nodes, scratch.kept_fractions)
    find_fractions(grid, scratch.occupants, jobs, nodes, scratch.fractions)
    # Restarts are included in the throughputs, so that a part changes only if its gain pays for them.
    for job in range(num_jobs):
        if first[job] >= 0:
            new = throughput_under(job, jobs, grid[job], nodes.types, rules.horizon) * scratch.fractions[job]
            old = throughput_under(job, jobs, kept[job], nodes.types, rules.horizon) * scratch.kept_fractions[job]
            new *= liking_of(grid[job], jobs.affinity[job])
            old *= liking_of(kept[job], jobs.affinity[job])
            gain[root(parent, first[job])] += jobs.weight[job] * (new - (1.0 + rules.hysteresis) * old)
    # Parts are independent: where anew is not better, running jobs are kept.
    for job in range(num_jobs):
        if first[job] >= 0 and gain[root(parent, first[job])] <= 0:
            copy_row(kept[job], grid[job])
            scratch.fractions[job] = scratch.kept_fractions[job]


@shared_kernel
def write_candidate(
    keep: bool,
    grow: bool,
    order: IntArray,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    scratch: PlacingScratch,
    grid: IntArray,
) -> None:
    """Keep running jobs and add others, or plan anew; then perhaps give out GPUs left over. Overwrites `grid`."""
    for job in range(len(grid)):
        clear_row(grid[job])
    copy_row(nodes.capacity, scratch.free)
    fill_candidate(keep, order, jobs, scratch.free, nodes, rules, grid, scratch)
    if grow:
        grow_candidate(jobs, scratch.free, nodes, rules, grid, scratch)


def writing(jobs: Jobs, nodes: Nodes, rules: StarlingRules) -> WriteCandidate:
    """Return `write_candidate` as an argument of the other kernels, whose arguments have the same types."""
    return as_argument(write_candidate, True, True, _NO_ORDER, jobs, nodes, rules, NO_SCRATCH, jobs.present)


@inlined
def write_merged_candidate(
    write: WriteCandidate,
    order: IntArray,
    jobs: Jobs,
    nodes: Nodes,
    rules: StarlingRules,
    scratch: PlacingScratch,
    kept: IntArray,
    grid: IntArray,
) -> None:
    """Build both candidates; write the better one for each part of the cluster into `grid`, fractions into `scratch`.

    Args:
        write: see `writing`.
        kept: overwritten by the candidate that keeps running jobs.
    """
    write(True, True, order, jobs, nodes, rules, scratch, kept)
    write(False, True, order, jobs, nodes, rules, scratch, grid)
    choose_by_part(jobs, nodes, rules, kept, grid, scratch)
