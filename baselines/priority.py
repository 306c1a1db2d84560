"""From an order of jobs to GPUs: what every preemptive priority scheduler shares."""

from collections.abc import Mapping, Sequence

import numpy as np

from baselines.estimates import restart_delay
from baselines.placing import pack, pack_first, types_by_speed
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId, Placement, Seconds


def jobs_present(view: ClusterView) -> IntArray:
    """int64[num_present]: jobs that wait or run, in order of submission."""
    return np.sort(np.concatenate([view.queued, view.running]))


def ranked(jobs: IntArray, key: FloatArray) -> Sequence[JobId]:
    """Jobs by ascending key; equal keys in order of submission."""
    return [int(job) for job in jobs[np.lexsort((jobs, key))]]


def keep_and_displace(view: ClusterView, order: Sequence[JobId], seconds_left: Mapping[JobId, Seconds]) -> Allocation:
    """The highest ranked jobs that fit, each on its requested GPUs; running jobs stay where they are if they can.

    See `place_in_order`. On its turn a running job moves to free GPUs of a faster type if that pays for the restart.

    Args:
        view: the round.
        order: jobs by falling priority.
        seconds_left: for each running job, what it is taken to need yet where it is.
    """
    wish = view.allocation(keep_running=True)
    place_in_order(view, wish, order, seconds_left=seconds_left)
    return wish


def place_in_order(
    view: ClusterView,
    wish: Allocation,
    order: Sequence[JobId],
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
    seconds_left: Mapping[JobId, Seconds] | None = None,
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
        seconds_left: for running jobs that may move to a faster type, what they need yet where they are.
    """
    held = [rank for rank, job in enumerate(order) if wish.placement(job)]
    for rank, job in enumerate(order):
        if held and held[0] == rank:
            held.pop(0)
            if seconds_left is not None:
                _move_up(view, wish, job, seconds_left[job])
            continue
        size = int(view.num_gpus[job]) if sizes is None else sizes[job]
        types = None if gpu_types is None else gpu_types[job]
        if pack(view, wish, job, size, types) or not held:
            continue
        behind = {order[other]: place for other in held if (place := wish.placement(order[other]))}
        if size <= wish.free_gpus.sum() + sum(place.num_gpus for place in behind.values()):
            stay = _displace(view, wish, job, size, types, behind)
            held = [other for other in held if order[other] in stay]


def _move_up(view: ClusterView, wish: Allocation, job: JobId, seconds_left: Seconds) -> None:
    """Move a running job to free GPUs of a faster type if that ends it earlier, restart included."""
    place = view.placement(job)
    speed = view.speed(job)[:, place.num_gpus]
    now = speed[view.cluster.node_types[list(place.gpus)]].min()
    if now <= 0 or speed.max() <= now:
        return
    restart = restart_delay(view)
    faster = [
        kind for kind in types_by_speed(view, job, place.num_gpus) if seconds_left * (1 - now / speed[kind]) > restart
    ]
    if faster:
        wish.pack(job, place.num_gpus, gpu_types=faster)


def _displace(
    view: ClusterView,
    wish: Allocation,
    job: JobId,
    size: int,
    types: Sequence[int] | None,
    behind: dict[JobId, Placement],
) -> set[JobId]:
    """Take jobs off, last ones first, until a better one fits; bring back those not in its way and return who stays."""
    for other in reversed(behind):
        wish.stop(other)
        if wish.free_gpus.sum() >= size and pack(view, wish, job, size, types):
            break
    stay: set[JobId] = set()
    for other, place in behind.items():
        if not wish.placement(other):
            if any(wish.free_gpus[node] < gpus for node, gpus in place.gpus.items()):
                continue
            wish.place(other, place)
        stay.add(other)
    return stay


def plan_anew(view: ClusterView, order: Sequence[JobId]) -> Allocation:
    """The highest ranked jobs that fit, each on its requested GPUs, placed as if the cluster were empty.

    A job of at most a node's GPUs takes the first node with room, a larger one the first wholly free nodes; a job
    that does not fit is skipped. These are the rules of Muri's
    simulator (SIGCOMM'22 artifact); they move jobs at will, which is free of charge only where restarts are.
    """
    wish = view.allocation()
    for job in order:
        pack_first(view, wish, job)
    return wish
