"""Kernels that build two plans of a cluster, node by node, and choose the better one for each part of the cluster.

Arguments recur:
    order: int64[num_jobs], the jobs by falling priority.
    free: int64[num_nodes], GPUs not given to a job yet.
    row: int64[num_nodes], GPUs of one job by node under the plan so far.
    grid: int64[num_jobs, num_nodes], the plan: GPUs by node.
"""

import numpy as np

from baselines.starling.occupants import kept_fractions
from baselines.starling.room import gpu_type_of, has_room, largest_room, shape_of, take_room
from baselines.starling.round import Found, Jobs, Nodes, StarlingRules
from baselines.starling.shared_plans import fill_shared, grow_shared
from baselines.starling.worth import NEGLIGIBLE_GAIN, after_delay, throughput_under
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray, Seconds


@jit
def fill_plan(
    keep: bool, order: IntArray, jobs: Jobs, free: IntArray, nodes: Nodes, rules: StarlingRules, grid: IntArray
) -> None:
    """Give jobs in order their size where they are fastest, or the most for which there is room; fills `grid`.

    Args:
        keep: whether running jobs first get the GPUs that they hold.
        free: all GPUs at first, those left at the end.
        rules: only `stickiness` and `tolerance` are used.
    """
    left = free.sum()
    if keep:
        for job in order:
            for node in range(len(free)):
                grid[job, node] = jobs.present[job, node]
                free[node] -= jobs.present[job, node]
                left -= jobs.present[job, node]
    for job in order:
        if left == 0:
            return
        if gpu_type_of(grid[job], nodes.types) >= 0:
            continue
        found = fastest_room(jobs.throughputs[job], jobs.wanted[job], free, nodes, grid[job])
        if stays_competitive(jobs.throughputs[job], jobs.wanted[job], jobs.present[job], free, nodes, found, rules):
            for node in range(len(free)):
                grid[job, node] = jobs.present[job, node]
                free[node] -= jobs.present[job, node]
        elif found.gpu_type >= 0:
            own = own_node(jobs.present[job], free, nodes, found)
            if own >= 0:
                grid[job, own] = found.size
                free[own] -= found.size
            else:
                take_room(free, nodes, found.gpu_type, found.size, grid[job])
        left -= grid[job].sum()


@jit
def fastest_room(throughputs: FloatArray, wanted: IntArray, free: IntArray, nodes: Nodes, row: IntArray) -> Found:
    """Find the GPUs on which one job is fastest, at most its `wanted` size of each type."""
    best, best_type, best_size = 0.0, -1, 0
    for gpu_type in range(len(wanted)):
        if wanted[gpu_type] > 0:
            largest, whole, rest = shape_of(free, nodes, gpu_type, row)
            size = largest_room(wanted[gpu_type], largest, whole, rest)
            while size > 0 and (throughputs[gpu_type, size] <= 0 or not has_room(size, largest, whole, rest)):
                size -= 1
            if throughputs[gpu_type, size] > best:
                best, best_type, best_size = throughputs[gpu_type, size], gpu_type, size
    return Found(best, best_type, best_size)


@jit
def stays_competitive(
    throughputs: FloatArray,
    wanted: IntArray,
    present: IntArray,
    free: IntArray,
    nodes: Nodes,
    found: Found,
    rules: StarlingRules,
) -> bool:
    """Whether a job's present GPUs are still free, hardly worse than those found, and at most its `wanted` size."""
    now, held = gpu_type_of(present, nodes.types), present.sum()
    if now < 0 or held > wanted[now]:
        return False
    for node in range(len(free)):
        if present[node] > free[node]:
            return False
    near = now == found.gpu_type and abs(found.size - held) <= rules.tolerance * found.size
    return throughputs[now, held] * (1.0 + rules.stickiness) >= found.throughput or near


@jit
def own_node(present: IntArray, free: IntArray, nodes: Nodes, found: Found) -> int:
    """Return the only node on which a job runs, if it has enough free GPUs of the type found; else -1.

    A job that shrinks on its own node may grow back to its present size, which is then no change.
    """
    here = -1
    for node in range(len(present)):
        if present[node] > 0:
            if here >= 0:
                return -1
            here = node
    return here if here >= 0 and nodes.types[here] == found.gpu_type and free[here] >= found.size else -1


@jit
def best_growth(
    job: int, jobs: Jobs, row: IntArray, free: IntArray, nodes: Nodes, horizon: Seconds
) -> tuple[float, int, int]:
    """Find a job's best growth: gain in throughput per GPU, additional GPUs, and the node; -1 for further nodes.

    A job grows on a node of which it holds a part. If it holds all its nodes wholly, it grows on the fewest further
    nodes.
    """
    throughputs, work, delay = jobs.throughputs[job], jobs.work[job], jobs.delay[job]
    gpu_type, size = gpu_type_of(row, nodes.types), row.sum()
    now = throughput_under(job, jobs, row, nodes.types, horizon)
    gain, more, where = NEGLIGIBLE_GAIN * throughputs[gpu_type, size], 0, -1
    limit = throughputs.shape[1] - 1 - size
    owns_nodes = True
    for node in range(len(row)):
        if row[node] > 0:
            owns_nodes = owns_nodes and row[node] == nodes.capacity[node]
            for extra in range(1, min(free[node], limit) + 1):
                per_gpu = (after_delay(throughputs[gpu_type, size + extra], work, delay, horizon) - now) / extra
                if per_gpu > gain:
                    gain, more, where = per_gpu, extra, node
    if owns_nodes:
        largest, whole, rest = shape_of(free, nodes, gpu_type, row)
        for extra in range(1, min(whole * largest + rest, limit) + 1):
            per_gpu = (after_delay(throughputs[gpu_type, size + extra], work, delay, horizon) - now) / extra
            if per_gpu > gain and has_room(extra, largest, whole, rest):
                gain, more, where = per_gpu, extra, -1
    return gain if more > 0 else 0.0, more, where


@jit
def grow_plan(jobs: Jobs, free: IntArray, nodes: Nodes, horizon: Seconds, grid: IntArray) -> None:
    """Give GPUs left over, a step at a time, to the job with the largest gain, the lowest of equals; changes `grid`.

    The number of free GPUs only falls, and gains with it. So an earlier gain is an upper bound, recomputed on its turn.
    """
    num_jobs = len(jobs.work)
    gains = np.zeros(num_jobs)
    for job in range(num_jobs):
        if gpu_type_of(grid[job], nodes.types) >= 0:
            gains[job] = np.inf
    while num_jobs > 0 and free.sum() > 0:
        job = int(np.argmax(gains))
        if gains[job] <= 0:
            return
        gain, more, where = best_growth(job, jobs, grid[job], free, nodes, horizon)
        bound = gains[job]
        gains[job] = gain * jobs.weight[job]
        if gains[job] < bound or more == 0:
            continue
        if where >= 0:
            grid[job, where] += more
            free[where] -= more
        else:
            take_room(free, nodes, gpu_type_of(grid[job], nodes.types), more, grid[job])
        gains[job] = np.inf  # its next step is another one


@jit
def root(parent: IntArray, node: int) -> int:
    """Return the node that represents a node's part of the cluster."""
    while parent[node] != node:
        node = parent[node]
    return node


@jit
def choose_by_part(jobs: Jobs, nodes: Nodes, rules: StarlingRules, kept: IntArray, grid: IntArray) -> None:
    """Write the better of two plans into `grid`, separately for each part of the cluster.

    Two nodes belong to one part if a job runs on both under either plan, or moves from one to the other. The plan that
    keeps running jobs (`kept`) wins unless the other is worth more by the share `hysteresis`.
    """
    num_jobs, num_nodes = grid.shape
    parent, first = np.arange(num_nodes), np.full(num_jobs, -1, np.int64)
    for job in range(num_jobs):
        for node in range(num_nodes):
            if kept[job, node] > 0 or grid[job, node] > 0:
                if first[job] < 0:
                    first[job] = node
                parent[root(parent, node)] = root(parent, first[job])
    gain = np.zeros(num_nodes)
    kept_before, fractions = kept_fractions(kept, jobs, nodes), kept_fractions(grid, jobs, nodes)
    for job in range(num_jobs):
        if first[job] >= 0:
            new = throughput_under(job, jobs, grid[job], nodes.types, rules.horizon) * fractions[job]
            old = throughput_under(job, jobs, kept[job], nodes.types, rules.horizon) * kept_before[job]
            gain[root(parent, first[job])] += jobs.weight[job] * (new - (1.0 + rules.hysteresis) * old)
    for job in range(num_jobs):
        if first[job] >= 0 and gain[root(parent, first[job])] <= 0:
            grid[job] = kept[job]


@jit
def plan(keep: bool, order: IntArray, jobs: Jobs, nodes: Nodes, rules: StarlingRules) -> IntArray:
    """Keep running jobs and add others, or plan anew; then give out GPUs left over.

    Returns:
        int64[num_jobs, num_nodes]: GPUs of each job by node; none for jobs not in `order`.
    """
    grid, free = np.zeros_like(jobs.present), nodes.capacity.copy()
    if nodes.shared.counted:
        fill_shared(keep, order, jobs, free, nodes, rules, grid)
        grow_shared(jobs, free, nodes, rules, grid)
    else:
        fill_plan(keep, order, jobs, free, nodes, rules, grid)
        grow_plan(jobs, free, nodes, rules.horizon, grid)
    return grid


@jit
def plan_twice(order: IntArray, jobs: Jobs, nodes: Nodes, rules: StarlingRules) -> IntArray:
    """Build both plans and return the better one for each part of the cluster; arguments are those of `plan`."""
    kept = plan(True, order, jobs, nodes, rules)
    grid = plan(False, order, jobs, nodes, rules)
    choose_by_part(jobs, nodes, rules, kept, grid)
    return grid
