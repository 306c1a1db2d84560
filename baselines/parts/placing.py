"""Find nodes for gangs: the placement rules that all baselines share."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from baselines.parts.arrays import apply_outcome, arrays_of, gang_sizes, shapes_at, sizes_of, types_to_span, wanted_of
from baselines.parts.placing_kernels import start_by_rank
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, ClusterSpec, Constraints, IntArray, JobId, NodeId, constraints_of
from envs.types.allocation import consolidated
from envs.types.limits import FindOnType, find_shaped

Gpus: TypeAlias = dict[NodeId, int]  # GPUs by node; empty if there is no room
Find: TypeAlias = Callable[[ClusterView, IntArray, JobId, int, Sequence[int]], Gpus]  # `best_fit` or `first_fit`


def types_by_throughput(view: ClusterView, job: JobId, size: int) -> Sequence[int]:
    """Indices of the GPU types on which a job runs with so many GPUs, fastest first; ties in the cluster's order."""
    return _fastest_first(tuple(view.throughputs(job)[:, size].tolist()))


@lru_cache(maxsize=4096)
def _fastest_first(throughputs: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(
        sorted(
            (gpu_type for gpu_type, throughput in enumerate(throughputs) if throughput > 0),
            key=lambda gpu_type: -throughputs[gpu_type],
        )
    )


def could_fit(cluster: ClusterSpec, free: IntArray, sizes: IntArray, shapes: IntArray) -> BoolArray:
    """bool[len(sizes)]: whether so many GPUs might be found among the free ones; False is final, True is not.

    This is a quick check for whole queues at once. A gang that one node of a type could hold needs so many free GPUs on
    one node; a larger gang, and one that constraints divide, needs them in total. Throughputs are not considered.

    Args:
        cluster: the nodes.
        free: int64[num_nodes], free GPUs.
        sizes: int64[num_jobs], GPUs that jobs request.
        shapes: int64[num_jobs, 4], see `baselines.parts.arrays.shapes_at`.
    """
    able = np.zeros(len(sizes), dtype=np.bool_)
    in_all = int(free.sum())
    if in_all == 0:
        return able
    smallest = cluster.num_gpus  # GPUs of the smallest type; a larger job might take nodes of several types
    for gpu_type in range(len(cluster.gpu_types)):
        of_type = cluster.node_types == gpu_type
        total, here = cluster.node_gpus[of_type], free[of_type]
        able |= np.where(sizes <= total.max(), sizes <= here.max(), sizes <= here.sum())
        smallest = min(smallest, int(total.sum()))
    if len(cluster.gpu_types) > 1:
        able |= (sizes > smallest) & (sizes <= in_all)
    able |= shapes[:, :2].any(axis=1) & (sizes <= in_all)
    return able


def start_waiting(
    view: ClusterView,
    allocation: Allocation,
    waiting: Sequence[JobId],
    find: Find,
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
) -> None:
    """Start those of `waiting` that fit, in this order; jobs that do not fit are skipped.

    Free GPUs only become fewer meanwhile, so if one job found no room, no other job of its size and types does.

    Args:
        view: the round.
        allocation: the allocation under construction; changed in place.
        waiting: jobs that the allocation does not place yet.
        find: finds nodes for a job.
        sizes: GPUs for each job; as requested if None.
        gpu_types: GPU types for each job in order of preference; the job's own order if None.
    """
    jobs = np.array(waiting, dtype=np.int64)
    wanted = sizes_of(view, jobs, sizes)
    if find not in (best_fit, first_fit):
        raise ValueError(f"start_waiting: find is {find}; it must be best_fit or first_fit")
    shapes, count = shapes_at(view, jobs), 256
    while jobs.size:
        able = could_fit(view.cluster, allocation.free_gpus, wanted, shapes)
        jobs, wanted, shapes = jobs[able], wanted[able], shapes[able]
        chosen = wanted_of(view, jobs[:count], wanted[:count], gpu_types)
        floor, outcome, scratch = arrays_of(allocation, chosen.shapes)
        start_by_rank(floor, chosen, outcome, scratch, find is first_fit)
        apply_outcome(allocation, jobs[:count], outcome)
        jobs, wanted, shapes = jobs[count:], wanted[count:], shapes[count:]
        count *= 4


def pack(
    view: ClusterView,
    allocation: Allocation,
    job: JobId,
    size: int | None = None,
    gpu_types: Sequence[int] | None = None,
) -> bool:
    """Place a job without GPUs by `best_fit`; return whether there was room.

    Args:
        view: the round.
        allocation: the allocation under construction; changed in place if there is room.
        job: the job.
        size: GPUs to give; as requested if None.
        gpu_types: the types to try, in this order, instead of the job's own order.
    """
    size = int(gang_sizes(view, np.array([job]))[0]) if size is None else size
    types = types_by_throughput(view, job, size) if gpu_types is None else gpu_types
    found = best_fit(view, allocation.free_gpus, job, size, types)
    if found:
        allocation.place(job, found)
    return bool(found)


def best_fit(view: ClusterView, free: IntArray, job: JobId, size: int, gpu_types: Sequence[int]) -> Gpus:
    """Find GPUs by node for a job: the fewest nodes of one GPU type, best fit; empty if there is no room.

    Constraints of the job may demand other numbers of nodes, and whole nodes.

    The types are tried in order, fastest first: a job takes a slower type now rather than wait for a faster one. A gang
    too large for any one type takes nodes of several types.

    Args:
        view: the round.
        free: int64[num_nodes], free GPUs.
        job: the job.
        size: GPUs to give.
        gpu_types: the types to try, in this order; empty for a job that runs consolidated on no type.
    """
    if gpu_types:
        return _first_type(view, free, job, size, gpu_types, consolidated)
    able = types_to_span(view, job, size)
    if not able:
        return {}
    nodes = np.concatenate([np.flatnonzero(view.cluster.node_types == gpu_type) for gpu_type in able])

    def fill(free: IntArray, cluster: ClusterSpec, size: int, gpu_type: int) -> Gpus:
        return _fill_nodes(nodes, free, cluster.node_gpus, size)

    return find_shaped(constraints_at(view, job), free, view.cluster, size, -1, fill)


def constraints_at(view: ClusterView, job: JobId) -> Constraints:
    """Return the constraints of a job."""
    return constraints_of(view.models[view.model[job]])


def _first_type(
    view: ClusterView, free: IntArray, job: JobId, size: int, gpu_types: Sequence[int], find: FindOnType
) -> Gpus:
    """Return GPUs of the first type with room."""
    asked, cluster = constraints_at(view, job), view.cluster
    return next(filter(None, (find_shaped(asked, free, cluster, size, each, find) for each in gpu_types)), {})


def first_fit(view: ClusterView, free: IntArray, job: JobId, size: int, gpu_types: Sequence[int]) -> Gpus:
    """Find GPUs as `best_fit` does, but on the first nodes with room instead of those that fit best."""
    if not gpu_types:
        return best_fit(view, free, job, size, gpu_types)
    return _first_type(view, free, job, size, gpu_types, first_nodes)


def first_nodes(free: IntArray, cluster: ClusterSpec, size: int, gpu_type: int) -> Gpus:
    """Find `size` GPUs of one type by node, lowest nodes first; empty if there is no room.

    A job larger than every node of the type takes wholly free nodes and, for the remainder, the first other node with
    room.
    """
    nodes = np.flatnonzero(cluster.node_types == gpu_type)
    if size > cluster.node_gpus[nodes].max():
        return _fill_nodes(nodes, free, cluster.node_gpus, size)
    rooms = nodes[free[nodes] >= size]
    return {int(rooms[0]): size} if rooms.size else {}


def fewest(most: int, enough: Callable[[int], bool]) -> int | None:
    """Return the smallest count of 1 to `most` that is enough; None if `most` is not.

    If a count is enough, every larger count must be enough too.
    """
    if most == 0:
        return None
    too_few, count = 0, 1
    while not enough(count):
        if count == most:
            return None
        too_few, count = count, min(2 * count, most)
    while count - too_few > 1:
        middle = (too_few + count) // 2
        too_few, count = (too_few, middle) if enough(middle) else (middle, count)
    return count


def _fill_nodes(nodes: IntArray, free: IntArray, total: IntArray, size: int) -> Gpus:
    """Take wholly free ones of `nodes` that are not too large, in order; then the first with room for the rest."""
    placed: dict[NodeId, int] = {}
    left = size
    for node in nodes[free[nodes] == total[nodes]].tolist():
        if total[node] <= left:
            placed[node] = int(total[node])
            left -= int(total[node])
    if left == 0:
        return placed
    rest = [node for node in nodes[free[nodes] >= left].tolist() if node not in placed]
    return {**placed, rest[0]: left} if rest else {}
