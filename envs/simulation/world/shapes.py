"""The division of jobs among nodes that constraints demand, for compiled code.

`envs.types.limits.find_shaped` is the readable form; a test checks that both agree.
"""

from functools import lru_cache

import numpy as np

from envs.simulation.compiled.jit import leaf, part
from envs.types import IntArray, constraints_of, seal

# Columns of a shape. Without constraints all are 0.
NUM_NODES, PER_NODE, MOST_NODES, ALONE = 0, 1, 2, 3


@lru_cache(maxsize=64)
def shapes_of(models: tuple[str, ...]) -> IntArray:
    """int64[num_models, 4]: nodes, GPUs on each, most nodes, and whether there may be no other job; read only.

    Args:
        models: names of the models, with the constraints of their jobs.
    """
    asked = [constraints_of(model) for model in models]
    rows = [(each.num_nodes, each.gpus_per_node, each.max_nodes, each.exclusive) for each in asked]
    return seal(np.array(rows, np.int64).reshape(-1, 4))


@leaf
def is_divided(shape: IntArray) -> bool:
    """Whether a number of nodes, or of GPUs on each, is demanded."""
    return bool(shape[NUM_NODES] > 0 or shape[PER_NODE] > 0)


@leaf
def is_shaped(shape: IntArray) -> bool:
    """Whether more is demanded than a limit on the number of nodes."""
    return bool(is_divided(shape) or shape[ALONE] > 0)


@leaf
def too_many_nodes(shape: IntArray, count: int) -> bool:
    """Whether a job may not be on so many nodes."""
    return bool(0 < shape[MOST_NODES] < count)


@leaf
def is_usable(free: IntArray, total: IntArray, node: int, shape: IntArray) -> bool:
    """Whether a job may take free GPUs of a node, other jobs considered."""
    return bool(free[node] > 0 and (shape[ALONE] == 0 or free[node] == total[node]))


@leaf
def divide_evenly(
    free: IntArray, total: IntArray, types: IntArray, gpu_type: int, want: int, shape: IntArray, count: int,
    nodes: IntArray, gpus: IntArray,
) -> bool:  # fmt: skip
    """Divide GPUs evenly among the nodes with fewest free ones; return whether there is room. See `divide_gang`."""
    low, larger, taken = want // count, want % count, 0
    most = 0
    for node in range(len(free)):
        most = max(most, free[node])
    for room in range(low, most + 1):
        for node in range(len(free)):
            if free[node] != room or types[node] != gpu_type or not is_usable(free, total, node, shape):
                continue
            more = taken >= count - larger
            if taken < count and (room > low or not more):
                nodes[taken], gpus[taken] = node, low + more
                taken += 1
    return taken == count


@leaf
def divide_unevenly(
    free: IntArray, total: IntArray, types: IntArray, gpu_type: int, want: int, shape: IntArray, count: int,
    nodes: IntArray, gpus: IntArray,
) -> bool:  # fmt: skip
    """Take most GPUs from the nodes with most free ones; return whether there is room. See `divide_gang`."""
    left = want
    for taken in range(count):
        best = -1
        for node in range(len(free)):
            if types[node] != gpu_type or not is_usable(free, total, node, shape):
                continue
            used = False
            for before in range(taken):
                used = used or nodes[before] == node
            if not used and (best < 0 or free[node] > free[best]):
                best = node
        if best < 0:
            return False
        nodes[taken], gpus[taken] = best, min(free[best], left - (count - taken - 1))
        left -= gpus[taken]
    return left == 0


@part
def divide_gang(
    free: IntArray, total: IntArray, types: IntArray, gpu_type: int, want: int, shape: IntArray,
    nodes: IntArray, gpus: IntArray,
) -> int:  # fmt: skip
    """Divide GPUs among as many nodes of a type as a shape demands; return how many, 0 if there is no room.

    Args:
        free: int64[num_nodes], GPUs that no job keeps from others.
        total: int64[num_nodes], GPUs of each node.
        types: int64[num_nodes], GPU type of each.
        gpu_type: the type.
        want: GPUs to give.
        shape: see `shapes_of`; `is_divided`.
        nodes: int64[num_nodes], receives the nodes.
        gpus: int64[num_nodes], receives the GPUs on each of them.
    """
    each, count = int(shape[PER_NODE]), int(shape[NUM_NODES])
    if count == 0:
        count = (want + each - 1) // each
    if count > want or count > len(free) or (each > 0 and each * count != want) or too_many_nodes(shape, count):
        return 0
    if divide_evenly(free, total, types, gpu_type, want, shape, count, nodes, gpus):
        return count
    if each == 0 and divide_unevenly(free, total, types, gpu_type, want, shape, count, nodes, gpus):
        return count
    return 0
