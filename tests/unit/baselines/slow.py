"""Reference implementations of what the baselines do with early exits."""

from collections.abc import Mapping, Sequence

import numpy as np

from baselines.parts.estimates import remaining_time_on
from baselines.parts.placing import Find, Gpus, best_fit, types_by_throughput
from baselines.parts.priority import SecondsLeft
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId, NodeId, Placement, Seconds


def start_slowly(
    view: ClusterView,
    allocation: Allocation,
    waiting: Sequence[JobId],
    find: Find,
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
) -> None:
    """Place each job in turn where `find` says."""
    for job in waiting:
        size = int(view.num_gpus[job]) if sizes is None else sizes[job]
        types = types_by_throughput(view, job, size) if gpu_types is None else gpu_types[job]
        found = find(view, allocation.free_gpus, job, size, types)
        if found:
            allocation.place(job, found)


def place_in_order_slowly(
    view: ClusterView,
    allocation: Allocation,
    order: Sequence[JobId],
    left: SecondsLeft | None = None,
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
) -> None:
    """For each job in turn: move it to a faster type, start it, or stop later jobs one by one until it fits."""
    runs = {job for job in order if allocation.placement(job)}
    for rank, job in enumerate(order):
        if job in runs:
            if left is not None:
                _move_up_slowly(view, allocation, job, left)
            continue
        start_slowly(view, allocation, [job], best_fit, sizes, gpu_types)
        behind = [other for other in order[rank + 1 :] if other in runs]
        if allocation.placement(job) or not behind:
            continue
        places = {other: allocation.placement(other) for other in behind}
        for other in reversed(behind):
            allocation.stop(other)
            start_slowly(view, allocation, [job], best_fit, sizes, gpu_types)
            if allocation.placement(job):
                break
        for other, place in places.items():
            if place and not allocation.placement(other):
                if allocation.has_room(other, place.gpus):
                    allocation.place(other, place)
                else:
                    runs.remove(other)


def pass_the_head_slowly(view: ClusterView, allocation: Allocation, waiting: Sequence[JobId], find: Find) -> None:
    """EASY backfilling: start jobs in order until one does not fit; then all jobs that do not delay this head."""
    queue = list(waiting)
    while queue:
        start_slowly(view, allocation, queue[:1], find)
        if not allocation.placement(queue[0]):
            break
        queue.pop(0)
    if not queue:
        return
    then, start = allocation.free_gpus.copy(), -np.inf
    placed = [(job, place) for job in allocation.jobs() if (place := allocation.placement(job))]
    for end, _job, gpus in sorted(
        (_end(view, job, place), job, dict(allocation.held(job, place.gpus))) for job, place in placed
    ):
        for node, count in gpus.items():
            then[node] += count
        if found := _find(view, then, queue[0], find):
            start = end
            _take(then, allocation.held(queue[0], found))
            break
    for job in queue[1:]:
        found = _find(view, allocation.free_gpus, job, find)
        if found and (start == -np.inf or _end(view, job, Placement(found)) <= start):
            allocation.place(job, found)
        elif found := _find(view, np.minimum(allocation.free_gpus, then), job, find):
            allocation.place(job, found)
            _take(then, allocation.held(job, found))


def _find(view: ClusterView, free: IntArray, job: JobId, find: Find) -> Gpus:
    size = int(view.num_gpus[job])
    return find(view, free, job, size, types_by_throughput(view, job, size))


def _end(view: ClusterView, job: JobId, place: Placement | None) -> Seconds:
    assert place is not None
    return view.time + float(remaining_time_on(view, np.array([job]), [place], "X")[0])


def _take(free: IntArray, gpus: Mapping[NodeId, int]) -> None:
    for node, count in gpus.items():
        free[node] -= count


def _move_up_slowly(view: ClusterView, allocation: Allocation, job: JobId, seconds_left: SecondsLeft) -> None:
    place = view.placement(job)
    throughput = view.throughputs(job)[:, place.num_gpus]
    now = min(throughput[view.cluster.node_types[node]] for node in place.gpus)
    if now > 0:
        cost, left = view.restart_delay[job], seconds_left(np.array([job]), np.array([now]))[0]
        worth = [gpu_type for gpu_type, new in enumerate(throughput) if new > now and left - left * now / new > cost]
        if worth:
            allocation.pack(job, place.num_gpus, gpu_types=sorted(worth, key=lambda gpu_type: -throughput[gpu_type]))


def admissible_slowly(need: IntArray, room: int) -> list[bool]:
    """Admit each job in turn while there is room."""
    admitted = []
    for size in need.tolist():
        admitted.append(0 < size <= room)
        room -= size if admitted[-1] else 0
    return admitted


def padded(cost: FloatArray, most: int) -> FloatArray:
    """Pad a cost table with infinities up to `most` GPUs."""
    return np.pad(cost, ((0, 0), (0, most + 1 - cost.shape[1])), constant_values=np.inf)
