"""Kernels that share a cluster out by node in two ways, and choose the better one, part by part of the cluster.

Arguments recur:
    order: int64[num_jobs], the jobs by falling priority.
    free: int64[num_nodes], GPUs that nobody has yet.
    row: int64[num_nodes], GPUs of one job by node under the plan so far.
    grid: int64[num_jobs, num_nodes], the plan: GPUs by node.
"""

import numpy as np

from baselines.starling.room import has_room, largest_room, shape_of, take
from baselines.starling.round import Found, Jobs, Nodes, Rules
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray, Seconds

NEGLIGIBLE = 1e-12  # smaller gains, relative to a job's present speed, are rounding
LEAST_SHARE = 0.02  # of its speed, that a change is taken to leave a job however short it is


@jit
def equal(one: IntArray, other: IntArray) -> bool:
    """Whether two rows hold the same GPUs."""
    node = 0
    while node < len(one) and one[node] == other[node]:
        node += 1
    return node == len(one)


@jit
def kind_of(row: IntArray, types: IntArray) -> int:
    """GPU type of a job's first node; -1 if it holds nothing."""
    for node in range(len(row)):
        if row[node] > 0:
            return int(types[node])
    return -1


@jit
def after_delay(speed: float, work: float, delay: Seconds, horizon: Seconds) -> float:
    """Mean speed over the horizon, or until the job ends if that is earlier, with a standstill of `delay` first."""
    if speed <= 0 or delay <= 0:
        return speed
    return speed * max(LEAST_SHARE, 1.0 - delay / min(horizon, work / speed + delay))


@jit
def fill(keep: bool, order: IntArray, jobs: Jobs, free: IntArray, nodes: Nodes, rules: Rules, grid: IntArray) -> None:
    """Jobs in order get what they want where they are fastest, or the most there is room for; fills `grid`.

    Args:
        keep: whether running jobs first get what they hold.
        free: all GPUs at first; those left in the end.
        rules: `stickiness` and `tolerance` count.
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
        if kind_of(grid[job], nodes.types) >= 0:
            continue
        found = fastest_room(jobs.speeds[job], jobs.wanted[job], free, nodes, grid[job])
        if still_good(jobs.speeds[job], jobs.wanted[job], jobs.present[job], free, nodes, found, rules):
            for node in range(len(free)):
                grid[job, node] = jobs.present[job, node]
                free[node] -= jobs.present[job, node]
        elif found.kind >= 0:
            own = own_node(jobs.present[job], free, nodes, found)
            if own >= 0:
                grid[job, own] = found.size
                free[own] -= found.size
            else:
                take(free, nodes, found.kind, found.size, grid[job])
        left -= grid[job].sum()


@jit
def fastest_room(speeds: FloatArray, wanted: IntArray, free: IntArray, nodes: Nodes, row: IntArray) -> Found:
    """The place where one job is fastest, no larger than wanted there."""
    best, best_kind, best_size = 0.0, -1, 0
    for kind in range(len(wanted)):
        if wanted[kind] > 0:
            largest, whole, rest = shape_of(free, nodes, kind, row)
            size = largest_room(wanted[kind], largest, whole, rest)
            while size > 0 and (speeds[kind, size] <= 0 or not has_room(size, largest, whole, rest)):
                size -= 1
            if speeds[kind, size] > best:
                best, best_kind, best_size = speeds[kind, size], kind, size
    return Found(best, best_kind, best_size)


@jit
def still_good(
    speeds: FloatArray, wanted: IntArray, present: IntArray, free: IntArray, nodes: Nodes, found: Found, rules: Rules
) -> bool:
    """Whether a job's present place is still free, hardly worse than the one found, and no larger than wanted."""
    now, held = kind_of(present, nodes.types), present.sum()
    if now < 0 or held > wanted[now]:
        return False
    for node in range(len(free)):
        if present[node] > free[node]:
            return False
    near = now == found.kind and abs(found.size - held) <= rules.tolerance * found.size
    return speeds[now, held] * (1.0 + rules.stickiness) >= found.speed or near


@jit
def own_node(present: IntArray, free: IntArray, nodes: Nodes, found: Found) -> int:
    """The one node on which a job stands, if so many GPUs of the type are free there; else -1.

    Shrunk there, it may grow back to what it has, and nothing has happened.
    """
    here = -1
    for node in range(len(present)):
        if present[node] > 0:
            if here >= 0:
                return -1
            here = node
    return here if here >= 0 and nodes.types[here] == found.kind and free[here] >= found.size else -1


@jit
def best_growth(
    job: int, jobs: Jobs, row: IntArray, free: IntArray, nodes: Nodes, horizon: Seconds
) -> tuple[float, int, int]:
    """Gain in speed per GPU of a job's best enlargement, GPUs of it, and the node; node -1: on further nodes.

    A job grows on a node that it has a part of or, where all its nodes are wholly its own, on the fewest further ones.
    """
    speeds, work, delay = jobs.speeds[job], jobs.work[job], jobs.delay[job]
    kind, size = kind_of(row, nodes.types), row.sum()
    now = speed_under(job, jobs, row, nodes.types, horizon)
    gain, more, where = NEGLIGIBLE * speeds[kind, size], 0, -1
    limit = speeds.shape[1] - 1 - size
    owns_nodes = True
    for node in range(len(row)):
        if row[node] > 0:
            owns_nodes = owns_nodes and row[node] == nodes.capacity[node]
            for extra in range(1, min(free[node], limit) + 1):
                per_gpu = (after_delay(speeds[kind, size + extra], work, delay, horizon) - now) / extra
                if per_gpu > gain:
                    gain, more, where = per_gpu, extra, node
    if owns_nodes:
        largest, whole, rest = shape_of(free, nodes, kind, row)
        for extra in range(1, min(whole * largest + rest, limit) + 1):
            per_gpu = (after_delay(speeds[kind, size + extra], work, delay, horizon) - now) / extra
            if per_gpu > gain and has_room(extra, largest, whole, rest):
                gain, more, where = per_gpu, extra, -1
    return gain if more > 0 else 0.0, more, where


@jit
def grow(jobs: Jobs, free: IntArray, nodes: Nodes, horizon: Seconds, grid: IntArray) -> None:
    """GPUs left over, a step at a time, to whom a GPU is worth most; the lowest job among equals; changes `grid`.

    What is free only becomes less, and offers with it: an offer made earlier is a bound, looked at again on its turn.
    """
    num_jobs = len(jobs.work)
    gains = np.zeros(num_jobs)
    for job in range(num_jobs):
        if kind_of(grid[job], nodes.types) >= 0:
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
            take(free, nodes, kind_of(grid[job], nodes.types), more, grid[job])
        gains[job] = np.inf  # its next step is another one


@jit
def root(parent: IntArray, node: int) -> int:
    """The node that stands for a node's part of the cluster."""
    while parent[node] != node:
        node = parent[node]
    return node


@jit
def speed_under(job: int, jobs: Jobs, row: IntArray, types: IntArray, horizon: Seconds) -> float:
    """A job's mean speed under a plan, restart included; 0 if it gets nothing."""
    kind = kind_of(row, types)
    if kind < 0:
        return 0.0
    speed = jobs.speeds[job, kind, row.sum()]
    return speed if equal(row, jobs.present[job]) else after_delay(speed, jobs.work[job], jobs.delay[job], horizon)


@jit
def choose(jobs: Jobs, nodes: Nodes, rules: Rules, kept: IntArray, grid: IntArray) -> None:
    """Put the better of two plans into `grid`, for each part of the cluster by itself.

    Nodes belong to one part if a job stands on both of them under either plan, or moves from one to the other. The plan
    that keeps (`kept`) wins unless the other's worth is larger by the share `hysteresis`.
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
    for job in range(num_jobs):
        if first[job] >= 0:
            new = speed_under(job, jobs, grid[job], nodes.types, rules.horizon)
            old = speed_under(job, jobs, kept[job], nodes.types, rules.horizon)
            gain[root(parent, first[job])] += jobs.weight[job] * (new - (1.0 + rules.hysteresis) * old)
    for job in range(num_jobs):
        if first[job] >= 0 and gain[root(parent, first[job])] <= 0:
            grid[job] = kept[job]


@jit
def plan(keep: bool, order: IntArray, jobs: Jobs, nodes: Nodes, rules: Rules) -> IntArray:
    """Keep what runs and fill up, or plan anew; then leftovers.

    Returns:
        int64[num_jobs, num_nodes]: GPUs of each job by node; nothing for jobs not in `order`.
    """
    grid, free = np.zeros_like(jobs.present), nodes.capacity.copy()
    fill(keep, order, jobs, free, nodes, rules, grid)
    grow(jobs, free, nodes, rules.horizon, grid)
    return grid


@jit
def plan_twice(order: IntArray, jobs: Jobs, nodes: Nodes, rules: Rules) -> IntArray:
    """Both plans, and the better one for each part of the cluster; arguments are those of `plan`."""
    kept = plan(True, order, jobs, nodes, rules)
    grid = plan(False, order, jobs, nodes, rules)
    choose(jobs, nodes, rules, kept, grid)
    return grid
