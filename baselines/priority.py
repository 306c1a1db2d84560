"""From an order of jobs to GPUs: what every preemptive priority scheduler shares."""

from collections.abc import Mapping, Sequence

import numpy as np

from baselines.estimates import types_by_speed
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId


def jobs_present(view: ClusterView) -> IntArray:
    """int64[num_present]: jobs that wait or run, in order of submission."""
    return np.sort(np.concatenate([view.queued, view.running]))


def ranked(jobs: IntArray, key: FloatArray) -> Sequence[JobId]:
    """Jobs by ascending key; equal keys in order of submission."""
    return [int(job) for job in jobs[np.lexsort((jobs, key))]]


def keep_and_displace(view: ClusterView, order: Sequence[JobId]) -> Allocation:
    """The highest ranked jobs that fit, each on its requested GPUs; running jobs stay where they are if they can.

    See `place_in_order`. What runs and is not in `order` goes on untouched.
    """
    wish = view.allocation(keep_running=True)
    place_in_order(view, wish, order)
    return wish


def place_in_order(
    view: ClusterView,
    wish: Allocation,
    order: Sequence[JobId],
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
) -> None:
    """Give GPUs to the jobs of `order` that the wish does not place yet, first come first.

    A job takes free GPUs if it can. Else it displaces jobs ranked behind it, and of those only the ones that are
    in its way; a displaced job looks for another place when its turn comes. A job that fits nowhere is skipped.
    So the order is strict, but no job moves without need.

    Args:
        view: the round.
        wish: the answer under construction; changed in place.
        order: jobs by falling priority.
        sizes: GPUs for each job; as requested if None.
        gpu_types: GPU types for each job in order of preference; the job's own order if None.
    """
    held = [rank for rank, job in enumerate(order) if wish.placement(job)]
    for rank, job in enumerate(order):
        if held and held[0] == rank:
            held.pop(0)
            continue
        size = int(view.num_gpus[job]) if sizes is None else sizes[job]
        types = None if gpu_types is None else gpu_types[job]
        if wish.pack(job, size, gpu_types=types) or not held:
            continue
        behind = [order[other] for other in held]
        if size <= wish.free_gpus.sum() + sum(view.placement(other).num_gpus for other in behind):
            stay = _displace(view, wish, job, size, types, behind)
            held = [other for other in held if order[other] in stay]


def _displace(
    view: ClusterView, wish: Allocation, job: JobId, size: int, types: Sequence[int] | None, behind: Sequence[JobId]
) -> set[JobId]:
    """Place a job as if all those behind it were gone, then bring back those that still fit; return these."""
    for other in behind:
        wish.stop(other)
    wish.pack(job, size, gpu_types=types)
    stay: set[JobId] = set()
    for other in behind:
        if all(wish.free_gpus[node] >= gpus for node, gpus in view.placement(other).gpus.items()):
            wish.keep(other)
            stay.add(other)
    return stay


def plan_anew(view: ClusterView, order: Sequence[JobId]) -> Allocation:
    """The highest ranked jobs that fit, each on its requested GPUs, on an empty cluster: nobody has a right to its place.

    A job of at most a node's GPUs takes the first node with room, a larger one the first wholly free nodes; a job
    that does not fit is skipped. These are the rules of Muri's simulator (SIGCOMM'22 artifact); they move
    jobs at will, which is free of charge only where restarts are.
    """
    wish = view.allocation()
    for job in order:
        size = int(view.num_gpus[job])
        for kind in types_by_speed(view, job, size):
            found = first_fit(wish, size, kind)
            if found:
                wish.place(job, found)
                break
    return wish


def first_fit(wish: Allocation, size: int, gpu_type: int) -> dict[int, int]:
    """GPUs by node for `size` GPUs of one type, lowest nodes first; empty if there is no room.

    A job larger than every node of the type takes wholly free nodes and, for what is left, the first other node with room.
    """
    nodes = np.flatnonzero(wish.cluster.node_types == gpu_type)
    free, total = wish.free_gpus[nodes], wish.cluster.node_gpus[nodes]
    placed: dict[int, int] = {}
    left = size
    if size > total.max():
        for node, gpus in zip(nodes[free == total], total[free == total], strict=True):
            if gpus <= left:
                placed[int(node)] = int(gpus)
                left -= int(gpus)
    if left == 0:
        return placed
    rest = [int(node) for node in nodes[free >= left] if int(node) not in placed]
    if not rest:
        return {}
    placed[rest[0]] = left
    return placed
