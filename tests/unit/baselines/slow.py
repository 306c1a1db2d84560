"""Slow, obvious twins of what the baselines do with early exits."""

from collections.abc import Mapping, Sequence

import numpy as np

from baselines.parts.estimates import remaining_time_on
from baselines.parts.placing import Find, Gpus, best_fit, types_by_speed
from baselines.parts.priority import SecondsLeft
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId, Placement, Seconds


def start_slowly(
    view: ClusterView,
    wish: Allocation,
    waiting: Sequence[JobId],
    find: Find,
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
) -> None:
    """Every job in turn, wherever `find` says."""
    for job in waiting:
        size = int(view.num_gpus[job]) if sizes is None else sizes[job]
        types = types_by_speed(view, job, size) if gpu_types is None else gpu_types[job]
        found = find(view, wish.free_gpus, job, size, types)
        if found:
            wish.place(job, found)


def place_in_order_slowly(
    view: ClusterView,
    wish: Allocation,
    order: Sequence[JobId],
    left: SecondsLeft | None = None,
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
) -> None:
    """Every job in turn: moves up, starts, or takes off those behind it one by one until it fits."""
    runs = {job for job in order if wish.placement(job)}
    for rank, job in enumerate(order):
        if job in runs:
            if left is not None:
                _move_up_slowly(view, wish, job, left)
            continue
        start_slowly(view, wish, [job], best_fit, sizes, gpu_types)
        behind = [other for other in order[rank + 1 :] if other in runs]
        if wish.placement(job) or not behind:
            continue
        places = {other: wish.placement(other) for other in behind}
        for other in reversed(behind):
            wish.stop(other)
            start_slowly(view, wish, [job], best_fit, sizes, gpu_types)
            if wish.placement(job):
                break
        for other, place in places.items():
            if place and not wish.placement(other):
                if all(wish.free_gpus[node] >= gpus for node, gpus in place.gpus.items()):
                    wish.place(other, place)
                else:
                    runs.remove(other)


def pass_the_head_slowly(view: ClusterView, wish: Allocation, waiting: Sequence[JobId], find: Find) -> None:
    """EASY backfilling: in order until one is stuck; then every other job in turn, if it does not delay that head."""
    queue = list(waiting)
    while queue:
        start_slowly(view, wish, queue[:1], find)
        if not wish.placement(queue[0]):
            break
        queue.pop(0)
    if not queue:
        return
    then, start = wish.free_gpus.copy(), -np.inf
    placed = [(job, place) for job in wish.jobs() if (place := wish.placement(job))]
    for end, _job, gpus in sorted((_end(view, job, place), job, dict(place.gpus)) for job, place in placed):
        for node, count in gpus.items():
            then[node] += count
        if found := _find(view, then, queue[0], find):
            start = end
            _take(then, found)
            break
    for job in queue[1:]:
        found = _find(view, wish.free_gpus, job, find)
        if found and (start == -np.inf or _end(view, job, Placement(found)) <= start):
            wish.place(job, found)
        elif found := _find(view, np.minimum(wish.free_gpus, then), job, find):
            wish.place(job, found)
            _take(then, found)


def _find(view: ClusterView, free: IntArray, job: JobId, find: Find) -> Gpus:
    size = int(view.num_gpus[job])
    return find(view, free, job, size, types_by_speed(view, job, size))


def _end(view: ClusterView, job: JobId, place: Placement | None) -> Seconds:
    assert place is not None
    return view.time + float(remaining_time_on(view, np.array([job]), [place], "X")[0])


def _take(free: IntArray, gpus: Gpus) -> None:
    for node, count in gpus.items():
        free[node] -= count


def _move_up_slowly(view: ClusterView, wish: Allocation, job: JobId, seconds_left: SecondsLeft) -> None:
    place = view.placement(job)
    speed = view.speed(job)[:, place.num_gpus]
    now = min(speed[view.cluster.node_types[node]] for node in place.gpus)
    if now > 0:
        cost, left = view.restart_delay[job], seconds_left(np.array([job]), np.array([now]))[0]
        worth = [kind for kind, new in enumerate(speed) if new > now and left - left * now / new > cost]
        if worth:
            wish.pack(job, place.num_gpus, gpu_types=sorted(worth, key=lambda kind: -speed[kind]))


def admissible_slowly(need: IntArray, room: int) -> list[bool]:
    """Every job in turn, while there is room."""
    admitted = []
    for size in need.tolist():
        admitted.append(0 < size <= room)
        room -= size if admitted[-1] else 0
    return admitted


def padded(cost: FloatArray, most: int) -> FloatArray:
    """A cost table with infinities up to `most` GPUs."""
    return np.pad(cost, ((0, 0), (0, most + 1 - cost.shape[1])), constant_values=np.inf)
