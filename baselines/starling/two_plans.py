"""Kernels that share a cluster out by node in two ways, and choose the better one, part by part of the cluster.

Arguments recur, over the jobs considered and the cluster's nodes, types and sizes:
    order: int64[num_jobs], the jobs by falling priority.
    speeds: float64[num_jobs, num_gpu_types, sizes], samples/s on the fewest nodes; 0 where a job does not run.
    work: float64[num_jobs], samples left.
    delay: float64[num_jobs], seconds without progress that a change costs a job.
    weight: float64[num_jobs], what a sample/s of a job is worth.
    wanted: int64[num_jobs, num_gpu_types], GPUs to give; 0 where a job does not run.
    present: int64[num_jobs, num_nodes], GPUs that a job holds now by node.
    capacity, types: as in `baselines.starling.room`.
    grid: int64[num_jobs, num_nodes], the plan: GPUs by node.
"""

import numpy as np

from baselines.starling.room import has_room, largest_room, shape_of, take
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
def fill(
    keep: bool,
    order: IntArray,
    speeds: FloatArray,
    wanted: IntArray,
    present: IntArray,
    free: IntArray,
    capacity: IntArray,
    types: IntArray,
    stickiness: float,
    tolerance: float,
    grid: IntArray,
) -> None:
    """Jobs in order get what they want where they are fastest, or the most there is room for; fills `grid`.

    Args:
        keep: whether running jobs first get what they hold.
        stickiness: share by which another place must be faster than a job's present one.
        tolerance: share of its new size by which a job's present size may differ without a change.
        free: all GPUs at first; those left in the end.
    """
    left = free.sum()
    if keep:
        for job in order:
            for node in range(len(free)):
                grid[job, node] = present[job, node]
                free[node] -= present[job, node]
                left -= present[job, node]
    for job in order:
        if left == 0:
            return
        if kind_of(grid[job], types) >= 0:
            continue
        speed, kind, size = fastest_room(speeds[job], wanted[job], free, capacity, types, grid[job])
        if still_good(speeds[job], wanted[job], present[job], types, free, speed, kind, size, stickiness, tolerance):
            for node in range(len(free)):
                grid[job, node] = present[job, node]
                free[node] -= present[job, node]
        elif kind >= 0:
            own = own_node(present[job], types, free, kind, size)
            if own >= 0:
                grid[job, own] = size
                free[own] -= size
            else:
                take(free, capacity, types, kind, size, grid[job])
        left -= grid[job].sum()


@jit
def fastest_room(
    speeds: FloatArray, wanted: IntArray, free: IntArray, capacity: IntArray, types: IntArray, row: IntArray
) -> tuple[float, int, int]:
    """Speed, GPU type and size of one job where it is fastest, no larger than wanted there; type -1 for no room."""
    best, best_kind, best_size = 0.0, -1, 0
    for kind in range(len(wanted)):
        if wanted[kind] > 0:
            largest, whole, rest = shape_of(free, capacity, types, kind, row)
            size = largest_room(wanted[kind], largest, whole, rest)
            while size > 0 and (speeds[kind, size] <= 0 or not has_room(size, largest, whole, rest)):
                size -= 1
            if speeds[kind, size] > best:
                best, best_kind, best_size = speeds[kind, size], kind, size
    return best, best_kind, best_size


@jit
def still_good(
    speeds: FloatArray,
    wanted: IntArray,
    present: IntArray,
    types: IntArray,
    free: IntArray,
    speed: float,
    kind: int,
    size: int,
    stickiness: float,
    tolerance: float,
) -> bool:
    """Whether a job's present place is still free, hardly worse than the one found, and no larger than wanted."""
    now, held = kind_of(present, types), present.sum()
    if now < 0 or held > wanted[now]:
        return False
    for node in range(len(free)):
        if present[node] > free[node]:
            return False
    return speeds[now, held] * (1.0 + stickiness) >= speed or (now == kind and abs(size - held) <= tolerance * size)


@jit
def own_node(present: IntArray, types: IntArray, free: IntArray, kind: int, size: int) -> int:
    """The one node on which a job stands, if so many GPUs of the type are free there; else -1.

    Shrunk there, it may grow back to what it has, and nothing has happened.
    """
    here = -1
    for node in range(len(present)):
        if present[node] > 0:
            if here >= 0:
                return -1
            here = node
    return here if here >= 0 and types[here] == kind and free[here] >= size else -1


@jit
def best_growth(
    speeds: FloatArray,
    work: float,
    delay: Seconds,
    present: IntArray,
    row: IntArray,
    free: IntArray,
    capacity: IntArray,
    types: IntArray,
    horizon: Seconds,
) -> tuple[float, int, int]:
    """Gain in speed per GPU of a job's best enlargement, GPUs of it, and the node; node -1: on further nodes.

    A job grows on a node that it has a part of or, where all its nodes are wholly its own, on the fewest further ones.
    """
    kind, size = kind_of(row, types), row.sum()
    now = speeds[kind, size] if equal(row, present) else after_delay(speeds[kind, size], work, delay, horizon)
    gain, more, where = NEGLIGIBLE * speeds[kind, size], 0, -1
    limit = speeds.shape[1] - 1 - size
    owns_nodes = True
    for node in range(len(row)):
        if row[node] > 0:
            owns_nodes = owns_nodes and row[node] == capacity[node]
            for extra in range(1, min(free[node], limit) + 1):
                per_gpu = (after_delay(speeds[kind, size + extra], work, delay, horizon) - now) / extra
                if per_gpu > gain:
                    gain, more, where = per_gpu, extra, node
    if owns_nodes:
        largest, whole, rest = shape_of(free, capacity, types, kind, row)
        for extra in range(1, min(whole * largest + rest, limit) + 1):
            per_gpu = (after_delay(speeds[kind, size + extra], work, delay, horizon) - now) / extra
            if per_gpu > gain and has_room(extra, largest, whole, rest):
                gain, more, where = per_gpu, extra, -1
    return gain if more > 0 else 0.0, more, where


@jit
def grow(
    speeds: FloatArray,
    work: FloatArray,
    delay: FloatArray,
    weight: FloatArray,
    present: IntArray,
    free: IntArray,
    capacity: IntArray,
    types: IntArray,
    horizon: Seconds,
    grid: IntArray,
) -> None:
    """GPUs left over, a step at a time, to whom a GPU is worth most; the lowest job among equals; changes `grid`.

    What is free only becomes less, and offers with it: an offer made earlier is a bound, looked at again on its turn.
    """
    num_jobs = len(work)
    gains = np.zeros(num_jobs)
    for job in range(num_jobs):
        if kind_of(grid[job], types) >= 0:
            gains[job] = np.inf
    while num_jobs > 0 and free.sum() > 0:
        job = int(np.argmax(gains))
        if gains[job] <= 0:
            return
        gain, more, where = best_growth(
            speeds[job], work[job], delay[job], present[job], grid[job], free, capacity, types, horizon
        )
        bound = gains[job]
        gains[job] = gain * weight[job]
        if gains[job] < bound or more == 0:
            continue
        if where >= 0:
            grid[job, where] += more
            free[where] -= more
        else:
            take(free, capacity, types, kind_of(grid[job], types), more, grid[job])
        gains[job] = np.inf  # its next step is another one


@jit
def root(parent: IntArray, node: int) -> int:
    """The node that stands for a node's part of the cluster."""
    while parent[node] != node:
        node = parent[node]
    return node


@jit
def worth(
    speeds: FloatArray,
    work: float,
    delay: Seconds,
    present: IntArray,
    row: IntArray,
    types: IntArray,
    horizon: Seconds,
) -> float:
    """A job's mean speed under a plan, restart included; 0 if it gets nothing."""
    kind = kind_of(row, types)
    if kind < 0:
        return 0.0
    speed = speeds[kind, row.sum()]
    return speed if equal(row, present) else after_delay(speed, work, delay, horizon)


@jit
def choose(
    speeds: FloatArray,
    work: FloatArray,
    delay: FloatArray,
    weight: FloatArray,
    present: IntArray,
    types: IntArray,
    horizon: Seconds,
    hysteresis: float,
    kept: IntArray,
    grid: IntArray,
) -> None:
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
            new = worth(speeds[job], work[job], delay[job], present[job], grid[job], types, horizon)
            old = worth(speeds[job], work[job], delay[job], present[job], kept[job], types, horizon)
            gain[root(parent, first[job])] += weight[job] * (new - (1.0 + hysteresis) * old)
    for job in range(num_jobs):
        if first[job] >= 0 and gain[root(parent, first[job])] <= 0:
            grid[job] = kept[job]


@jit
def plan(
    keep: bool,
    order: IntArray,
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
    """Keep what runs and fill up, or plan anew; then leftovers.

    Args:
        rules: float64[4]: horizon, stickiness, tolerance, hysteresis.

    Returns:
        int64[num_jobs, num_nodes]: GPUs of each job by node; nothing for jobs not in `order`.
    """
    grid, free = np.zeros_like(present), capacity.copy()
    fill(keep, order, speeds, wanted, present, free, capacity, types, rules[1], rules[2], grid)
    grow(speeds, work, delay, weight, present, free, capacity, types, rules[0], grid)
    return grid


@jit
def plan_twice(
    order: IntArray,
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
    """Both plans, and the better one for each part of the cluster; arguments are those of `plan`."""
    kept = plan(True, order, speeds, work, delay, weight, wanted, present, capacity, types, rules)
    grid = plan(False, order, speeds, work, delay, weight, wanted, present, capacity, types, rules)
    choose(speeds, work, delay, weight, present, types, rules[0], rules[3], kept, grid)
    return grid
