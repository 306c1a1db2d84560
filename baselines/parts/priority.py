"""From an order of jobs to GPUs: what every preemptive priority scheduler shares."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from baselines.parts.placing import Gpus, best_fit, fewest, first_fit, pack, start_waiting, types_by_speed
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId, Placement, Seconds

SecondsLeft: TypeAlias = Callable[[JobId], Seconds]  # of a running job


def jobs_present(view: ClusterView) -> IntArray:
    """int64[num_present]: jobs that wait or run, in order of submission."""
    return np.sort(np.concatenate([view.queued, view.running]))


def ranked(jobs: IntArray, key: FloatArray) -> Sequence[JobId]:
    """Jobs by ascending key; equal keys in order of submission."""
    order: list[JobId] = jobs[np.lexsort((jobs, key))].tolist()
    return order


def keep_and_displace(view: ClusterView, order: Sequence[JobId], seconds_left: SecondsLeft) -> Allocation:
    """The highest ranked jobs that fit, each on its requested GPUs; running jobs stay where they are if they can.

    See `place_in_order`. On its turn a running job moves to free GPUs of a faster type if that pays for the restart.

    Args:
        view: the round.
        order: jobs by falling priority.
        seconds_left: what a running job is taken to need yet where it is.
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
    seconds_left: SecondsLeft | None = None,
) -> None:
    """Give GPUs to the jobs of `order` that the wish does not place yet, first come first.

    A job takes free GPUs if it can. Else it displaces jobs ranked behind it, and of those only the ones that are
    in its way; a displaced job looks for another place when its turn comes. A job that fits nowhere is skipped.
    So the order is strict, but no job moves without need.

    What is free or held by jobs not passed yet only becomes less on the way, also when a job moves up: it takes free
    GPUs for those that counted as its own. So where one job found no room, another of its size and types finds none;
    and behind the last job that holds GPUs only the free ones count.

    Args:
        view: the round.
        wish: the answer under construction; changed in place.
        order: jobs by falling priority.
        sizes: GPUs for each job; as requested if None.
        gpu_types: GPU types for each job in order of preference; the job's own order if None.
        seconds_left: for running jobs that may move to a faster type, what they need yet where they are.
    """
    wanted = view.num_gpus
    runs = wish.jobs()
    held = deque(rank for rank, job in enumerate(order) if job in runs)
    may_move = seconds_left if len(view.cluster.gpu_types) > 1 else None
    hopeless: set[tuple[int, Sequence[int]]] = set()
    rank = 0
    while held:
        job = order[rank]
        if held[0] == rank:
            held.popleft()
            if may_move is not None:
                _move_up(view, wish, job, may_move)
        else:
            size = int(wanted[job]) if sizes is None else sizes[job]
            types = types_by_speed(view, job, size) if gpu_types is None else tuple(gpu_types[job])
            if (size, types) not in hopeless and not pack(view, wish, job, size, types):
                behind = {order[other]: place for other in held if (place := wish.placement(order[other]))}
                if _displace(view, wish, job, size, types, behind):
                    held = deque(other for other in held if wish.placement(order[other]))
                elif types:  # a gang over several types takes those of its model, which the key does not hold
                    hopeless.add((size, types))
        rank += 1
    start_waiting(view, wish, order[rank:], best_fit, sizes, gpu_types)


def _move_up(view: ClusterView, wish: Allocation, job: JobId, seconds_left: SecondsLeft) -> None:
    """Move a running job to free GPUs of a faster type if that ends it earlier, restart included."""
    if not wish.free_gpus.any():
        return
    place = view.placement(job)
    speed = view.speed(job)[:, place.num_gpus]
    now = speed[view.cluster.node_types[list(place.gpus)]].min()
    if now <= 0 or speed.max() <= now:
        return
    restart, left = view.restart_delay[job], seconds_left(job)
    faster = [kind for kind in types_by_speed(view, job, place.num_gpus) if left * (1 - now / speed[kind]) > restart]
    if faster:
        wish.pack(job, place.num_gpus, gpu_types=faster)


def _displace(
    view: ClusterView,
    wish: Allocation,
    job: JobId,
    size: int,
    types: Sequence[int],
    behind: dict[JobId, Placement],
) -> bool:
    """Take jobs off, last ones first, until a better one fits; bring back those not in its way; say whether it fits."""
    others = list(behind.items())

    def found_without(count: int) -> Gpus:
        """Where the job fits without the last `count` of the others."""
        free = wish.free_gpus.copy()
        for _, place in others[len(others) - count :]:
            for node, gpus in place.gpus.items():
                free[node] += gpus
        return best_fit(view, free, job, size, types)

    count = fewest(len(others), lambda count: bool(found_without(count)))
    if count is None:
        return False
    found = found_without(count)
    for other, _ in others[len(others) - count :]:
        wish.stop(other)
    wish.place(job, found)
    for other, place in others[len(others) - count :]:
        if all(wish.free_gpus[node] >= gpus for node, gpus in place.gpus.items()):
            wish.place(other, place)
    return True


def plan_anew(view: ClusterView, order: Sequence[JobId]) -> Allocation:
    """The highest ranked jobs that fit, each on its requested GPUs, placed as if the cluster were empty.

    A job of at most a node's GPUs takes the first node with room, a larger one the first wholly free nodes; a job
    that does not fit is skipped. These are the rules of Muri's
    simulator (SIGCOMM'22 artifact); they move jobs at will, which is free of charge only where restarts are.
    """
    wish = view.allocation()
    start_waiting(view, wish, order, first_fit)
    return wish
