"""Where a gang goes: the placements that all baselines share."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, ClusterSpec, IntArray, JobId, NodeId
from envs.types.allocation import consolidated

Gpus: TypeAlias = dict[NodeId, int]  # GPUs by node; empty if there is no room
Find: TypeAlias = Callable[[ClusterView, IntArray, JobId], Gpus]  # where a job goes, given the free GPUs by node


def types_by_speed(view: ClusterView, job: JobId, size: int) -> Sequence[int]:
    """Indices of the GPU types on which a job runs with so many GPUs, fastest first; ties in the cluster's order."""
    return _fastest_first(tuple(view.speed(job)[:, size].tolist()))


@lru_cache(maxsize=4096)
def _fastest_first(speeds: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(sorted((kind for kind, speed in enumerate(speeds) if speed > 0), key=lambda kind: -speeds[kind]))


def could_fit(cluster: ClusterSpec, free: IntArray, sizes: IntArray) -> BoolArray:
    """bool[len(sizes)]: whether so many GPUs might be found among the free ones; a False is final, a True is not.

    A quick look for whole queues at once: a gang that one node of a type could hold needs as much on one node, a larger
    one as much in all. Speeds are not asked.

    Args:
        cluster: the nodes.
        free: int64[num_nodes], free GPUs.
        sizes: int64[num_jobs], GPUs that jobs want.
    """
    in_all = int(free.sum())
    if in_all == 0:
        return np.zeros(len(sizes), dtype=np.bool_)
    able = np.zeros(len(sizes), dtype=np.bool_)
    smallest = in_all  # GPUs of the smallest type; a larger job might take nodes of several types
    for kind in range(len(cluster.gpu_types)):
        of_kind = cluster.node_types == kind
        total, here = cluster.node_gpus[of_kind], free[of_kind]
        able |= np.where(sizes <= total.max(), sizes <= here.max(), sizes <= here.sum())
        smallest = min(smallest, int(total.sum()))
    if len(cluster.gpu_types) > 1:
        able |= (sizes > smallest) & (sizes <= in_all)
    return able


def start_waiting(view: ClusterView, wish: Allocation, waiting: Sequence[JobId] | IntArray, find: Find) -> None:
    """Start those of `waiting` that fit on their requested GPUs, in this order; who does not fit is passed.

    Free GPUs only become fewer meanwhile, so whoever cannot fit now is not looked at again.
    """
    jobs = np.asarray(waiting, dtype=np.int64)
    wanted = view.num_gpus
    hopeless: set[tuple[int, Sequence[int]]] = set()
    while (jobs := jobs[could_fit(view.cluster, wish.free_gpus, wanted[jobs])]).size:
        for place, job in enumerate(jobs.tolist()):
            size = int(wanted[job])
            types = types_by_speed(view, job, size)
            if (size, types) in hopeless:
                continue
            if found := find(view, wish.free_gpus, job):
                wish.place(job, found)
                jobs = jobs[place + 1 :]
                break
            if types:  # without types it is the model that decides, which the key does not hold
                hopeless.add((size, types))
        else:
            return


def pack(
    view: ClusterView, wish: Allocation, job: JobId, size: int | None = None, gpu_types: Sequence[int] | None = None
) -> bool:
    """Place a job that has no GPUs as `best_fit` finds; say whether there was room.

    Args:
        view: the round.
        wish: the answer under construction; changed in place if there is room.
        job: the job.
        size: GPUs to give; as requested if None.
        gpu_types: the types to try, in this order, instead of the job's own order.
    """
    found = best_fit(view, wish.free_gpus, job, size, gpu_types)
    if found:
        wish.place(job, found)
    return bool(found)


def best_fit(
    view: ClusterView, free: IntArray, job: JobId, size: int | None = None, gpu_types: Sequence[int] | None = None
) -> Gpus:
    """GPUs by node for a job: the fewest nodes of one GPU type, best fit; empty if there is no room.

    The types on which it runs with so many GPUs are tried from the fastest on: a job takes a slower type now rather
    than wait for a faster one. A gang too large for any one type takes nodes of several.

    Args:
        view: the round.
        free: int64[num_nodes], free GPUs.
        job: the job.
        size: GPUs to give; as requested if None.
        gpu_types: the types to try, in this order, instead.
    """
    cluster = view.cluster
    size = int(view.num_gpus[job]) if size is None else size
    types = types_by_speed(view, job, size) if gpu_types is None else gpu_types
    if types:
        return next(filter(None, (consolidated(free, cluster, size, kind) for kind in types)), {})
    peak = view.speed(job).max(axis=1)
    able = [int(kind) for kind in np.argsort(-peak, kind="stable") if peak[kind] > 0]
    holds = cluster.node_gpus[np.isin(cluster.node_types, able)].sum()
    if holds < size or any(cluster.node_gpus[cluster.node_types == kind].sum() >= size for kind in able):
        return {}  # it runs on no type although one is large enough: more GPUs of other types do not help
    nodes = np.concatenate([np.flatnonzero(cluster.node_types == kind) for kind in able])
    return _fill_nodes(nodes, free, cluster.node_gpus, size)


def first_fit(view: ClusterView, free: IntArray, job: JobId) -> Gpus:
    """As `best_fit` on the requested GPUs, but the first nodes with room instead of those that fit best."""
    size = int(view.num_gpus[job])
    types = types_by_speed(view, job, size)
    if not types:
        return best_fit(view, free, job)
    return next(filter(None, (first_nodes(view.cluster, free, size, kind) for kind in types)), {})


def first_nodes(cluster: ClusterSpec, free: IntArray, size: int, gpu_type: int) -> Gpus:
    """GPUs by node for `size` GPUs of one type, lowest nodes first; empty if there is no room.

    A job larger than every node of the type takes wholly free nodes and, for what is left, the first other node
    with room.
    """
    nodes = np.flatnonzero(cluster.node_types == gpu_type)
    if size > cluster.node_gpus[nodes].max():
        return _fill_nodes(nodes, free, cluster.node_gpus, size)
    rooms = nodes[free[nodes] >= size]
    return {int(rooms[0]): size} if rooms.size else {}


def _fill_nodes(nodes: IntArray, free: IntArray, total: IntArray, size: int) -> Gpus:
    """Wholly free ones of `nodes`, in this order, if not too large; then the first with room for the rest."""
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
