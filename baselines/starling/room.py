"""Kernels that find GPUs on nodes: one node if one can hold a job, else whole nodes and one remainder.

Arguments recur: `free` int64[num_nodes], GPUs not given to a job yet; `row` int64[num_nodes], GPUs of one job by node.
"""

from baselines.starling.round import Nodes
from envs.simulation.jit import jit
from envs.types import IntArray


@jit
def equal(one: IntArray, other: IntArray) -> bool:
    """Whether two rows hold the same GPUs."""
    node = 0
    while node < len(one) and one[node] == other[node]:
        node += 1
    return node == len(one)


@jit
def gpu_type_of(row: IntArray, types: IntArray) -> int:
    """Return the GPU type of a job's first node; -1 if it holds nothing."""
    for node in range(len(row)):
        if row[node] > 0:
            return int(types[node])
    return -1


@jit
def shape_of(free: IntArray, nodes: Nodes, gpu_type: int, row: IntArray) -> tuple[int, int, int]:
    """Summarise the free GPUs of a type on nodes where the job holds nothing.

    Returns:
        GPUs of the type's largest node, how many such nodes are wholly free, and the most free GPUs of another node.
    """
    largest, whole, rest = 0, 0, 0
    for node in range(len(free)):
        if nodes.types[node] == gpu_type and nodes.capacity[node] > largest:
            largest = nodes.capacity[node]
    for node in range(len(free)):
        if nodes.types[node] == gpu_type and row[node] == 0 and free[node] > 0:
            if free[node] == largest:
                whole += 1
            elif free[node] > rest:
                rest = free[node]
    return largest, whole, rest


@jit
def has_room(size: int, largest: int, whole: int, rest: int) -> bool:
    """Whether so many GPUs are available on the fewest nodes, given the result of `shape_of`."""
    if largest == 0:
        return False
    nodes = size // largest
    if size == nodes * largest:
        return nodes <= whole
    return nodes < whole or (nodes == whole and size - nodes * largest <= rest)


@jit
def largest_room(want: int, largest: int, whole: int, rest: int) -> int:
    """Return the most GPUs, up to `want`, for which there is room."""
    while want > 0 and not has_room(want, largest, whole, rest):
        want -= 1
    return want


@jit
def take_room(free: IntArray, nodes: Nodes, gpu_type: int, size: int, row: IntArray) -> None:
    """Give a job `size` more GPUs on nodes where it holds nothing; there must be room.

    Whole largest nodes first, lowest index first; then the node that fits the remainder best.
    """
    largest = 0
    for node in range(len(free)):
        if nodes.types[node] == gpu_type and nodes.capacity[node] > largest:
            largest = nodes.capacity[node]
    while size > 0:
        need = min(size, largest)
        best = -1
        for node in range(len(free)):
            fits = nodes.types[node] == gpu_type and row[node] == 0 and free[node] >= need
            if fits and (best < 0 or free[node] < free[best]):
                best = node
        row[best] = need
        free[best] -= need
        size -= need
