"""Where a gang goes: the placements that all baselines share."""

from collections.abc import Sequence

import numpy as np

from envs.scheduling import ClusterView
from envs.types import Allocation, IntArray, JobId, NodeId


def types_by_speed(view: ClusterView, job: JobId, size: int) -> Sequence[int]:
    """Indices of the GPU types on which a job runs with so many GPUs, fastest first; ties in the cluster's order."""
    speed = view.speed(job)[:, size]
    return [int(kind) for kind in np.argsort(-speed, kind="stable") if speed[kind] > 0]


def pack(
    view: ClusterView, wish: Allocation, job: JobId, size: int | None = None, gpu_types: Sequence[int] | None = None
) -> bool:
    """Place a job on the fewest nodes of one GPU type, best fit; say whether there was room.

    The types on which it runs with so many GPUs are tried from the fastest on: a job takes a slower type now rather
    than wait for a faster one. A gang too large for any one type takes nodes of several.

    Args:
        view: the round.
        wish: the answer under construction; changed in place if there is room.
        job: the job.
        size: GPUs to give; as requested if None.
        gpu_types: the types to try, in this order, instead.
    """
    size = int(view.num_gpus[job]) if size is None else size
    types = types_by_speed(view, job, size) if gpu_types is None else gpu_types
    if types:
        return wish.pack(job, size, gpu_types=types)
    peak = view.speed(job).max(axis=1)
    able = [int(kind) for kind in np.argsort(-peak, kind="stable") if peak[kind] > 0]
    holds = wish.cluster.node_gpus[np.isin(wish.cluster.node_types, able)].sum()
    if holds < size or any(_type_total(wish, kind) >= size for kind in able):
        return False  # it runs on no type although one is large enough: more GPUs of other types do not help
    nodes = np.concatenate([np.flatnonzero(wish.cluster.node_types == kind) for kind in able])
    found = _fill_nodes(nodes, wish.free_gpus, wish.cluster.node_gpus, size)
    if found:
        wish.place(job, found)
    return bool(found)


def pack_first(view: ClusterView, wish: Allocation, job: JobId) -> bool:
    """As `pack` on the requested GPUs, but on the first nodes with room instead of those that fit best."""
    size = int(view.num_gpus[job])
    types = types_by_speed(view, job, size)
    found = next(filter(None, (first_fit(wish, size, kind) for kind in types)), None)
    if found:
        wish.place(job, found)
        return True
    return not types and pack(view, wish, job)


def first_fit(wish: Allocation, size: int, gpu_type: int) -> dict[NodeId, int]:
    """GPUs by node for `size` GPUs of one type, lowest nodes first; empty if there is no room.

    A job larger than every node of the type takes wholly free nodes and, for what is left, the first other node
    with room.
    """
    nodes = np.flatnonzero(wish.cluster.node_types == gpu_type)
    if size > wish.cluster.node_gpus[nodes].max():
        return _fill_nodes(nodes, wish.free_gpus, wish.cluster.node_gpus, size)
    rooms = nodes[wish.free_gpus[nodes] >= size]
    return {int(rooms[0]): size} if rooms.size else {}


def _fill_nodes(nodes: IntArray, free: IntArray, total: IntArray, size: int) -> dict[NodeId, int]:
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


def _type_total(wish: Allocation, gpu_type: int) -> int:
    return int(wish.cluster.node_gpus[wish.cluster.node_types == gpu_type].sum())
