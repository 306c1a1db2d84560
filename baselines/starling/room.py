"""Kernels that find GPUs on nodes: one node if one can hold a job, else whole nodes and one remainder.

Arguments recur: `free` int64[num_nodes], GPUs not given to a job yet; `row` int16[num_nodes], GPUs of one job by node;
`liked` float64[num_nodes], the job's affinity to each node, or empty.
"""

import numpy as np

from baselines.starling.round import Nodes
from envs.simulation.compiled.jit import leaf, part
from envs.types import FloatArray, IntArray


@leaf
def equal(one: IntArray, other: IntArray) -> bool:
    """Whether two rows hold the same GPUs."""
    node = 0
    while node < len(one) and one[node] == other[node]:
        node += 1
    return node == len(one)


@leaf
def copy_row(source: IntArray, target: IntArray) -> None:
    """Overwrite a row with another one. Kernels that allocate nothing cannot assign slices."""
    for node in range(len(target)):
        target[node] = source[node]


@leaf
def clear_row(row: IntArray) -> None:
    """Overwrite a row with zeros."""
    for node in range(len(row)):
        row[node] = 0


@leaf
def count_gpus(row: IntArray) -> int:
    """Return the sum of a row."""
    total = 0
    for node in range(len(row)):
        total += row[node]
    return total


@leaf
def copy_candidate(source: IntArray, target: IntArray) -> None:
    """Overwrite a candidate with another one."""
    for job in range(len(target)):
        copy_row(source[job], target[job])


@leaf
def gpu_type_of(row: IntArray, types: IntArray) -> int:
    """Return the GPU type of a job's first node; -1 if it holds nothing."""
    for node in range(len(row)):
        if row[node] > 0:
            return int(types[node])
    return -1


@leaf
def equal_candidates(one: IntArray, other: IntArray) -> bool:
    """Whether two candidates hold the same GPUs."""
    job = 0
    while job < len(one) and equal(one[job], other[job]):
        job += 1
    return job == len(one)


@leaf
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


@leaf
def has_room(size: int, largest: int, whole: int, rest: int) -> bool:
    """Whether so many GPUs are available on the fewest nodes, given the result of `shape_of`."""
    if largest == 0:
        return False
    nodes = size // largest
    if size == nodes * largest:
        return nodes <= whole
    return nodes < whole or (nodes == whole and size - nodes * largest <= rest)


@part
def largest_room(want: int, largest: int, whole: int, rest: int) -> int:
    """Return the most GPUs, up to `want`, for which there is room."""
    while want > 0 and not has_room(want, largest, whole, rest):
        want -= 1
    return want


@leaf
def runnable_room(
    size: int, least: int, throughputs: FloatArray, most_nodes: IntArray, largest: int, whole: int, rest: int
) -> int:
    """Return the most GPUs, from `size` down, that have room and on which a job runs; `least` if there are none above.

    A `size` of at most `least` is returned unchanged.

    Args:
        size: the most GPUs.
        least: the size at which the search ends; it is not checked itself.
        throughputs: float64[sizes], the job's throughput on the GPU type.
        most_nodes: int64[sizes], the most nodes on which it runs.
        largest: like `whole` and `rest`, the result of `shape_of`.
    """
    while size > least and (
        throughputs[size] <= 0
        or nodes_needed(size, largest) > most_nodes[size]
        or not has_room(size, largest, whole, rest)
    ):
        size -= 1
    return size


@leaf
def nodes_needed(size: int, largest: int) -> int:
    """Return on how many nodes `take_room` puts so many GPUs, given the GPUs of the largest node."""
    return (size + largest - 1) // largest


@part
def take_room(free: IntArray, nodes: Nodes, gpu_type: int, size: int, row: IntArray, liked: FloatArray) -> None:
    """Give a job `size` more GPUs on nodes where it holds nothing; there must be room.

    Whole largest nodes first, then one node for the remainder. Of the nodes with room, the one with the highest
    affinity is taken, of equals the one that fits best, of equals the lowest.
    """
    largest = 0
    for node in range(len(free)):
        if nodes.types[node] == gpu_type and nodes.capacity[node] > largest:
            largest = nodes.capacity[node]
    while size > 0:
        need = min(size, largest)
        best = -1
        for node in range(len(free)):
            if nodes.types[node] == gpu_type and row[node] == 0 and free[node] >= need:
                gain = liked[node] - liked[best] if best >= 0 and len(liked) > 0 else 0.0
                if best < 0 or gain > 0 or (gain == 0 and free[node] < free[best]):
                    best = node
        row[best] = need
        free[best] -= need
        size -= need


@leaf
def most_liking(liked: FloatArray) -> float:
    """Return the largest factor by affinity that any placement of a job can have; 1 without affinities."""
    if len(liked) == 0:
        return 1.0
    most = liked[0]
    for node in range(1, len(liked)):
        most = max(most, liked[node])
    return float(np.exp(most))


@leaf
def liking_of(row: IntArray, liked: FloatArray) -> float:
    """Return the factor by affinity on the value of a placement: exp of the mean affinity of its GPUs; 1 without."""
    if len(liked) == 0:
        return 1.0
    total, gpus = 0.0, 0
    for node in range(len(row)):
        if row[node] > 0:
            total += row[node] * liked[node]
            gpus += row[node]
    return float(np.exp(total / gpus)) if gpus > 0 else 1.0
