"""Tiresias: least attained service in a few queues instead of a continuous order."""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from baselines.parts.arrays import gang_sizes, rank_types, throughputs_at, types_to_span
from baselines.parts.estimates import as_long_again
from baselines.parts.placing import best_fit, constraints_at
from baselines.parts.priority import jobs_present, keep_and_displace
from envs.scheduling import ClusterView
from envs.types import (
    Allocation,
    ClusterSpec,
    FloatArray,
    GpuSeconds,
    IntArray,
    JobId,
    MurmurationError,
    NodeId,
    Seconds,
)
from envs.types.allocation import scattered
from envs.types.limits import find_shaped

_ROUNDING = 1e-9  # relative; a job within rounding of a limit has reached it


class Tiresias:
    """Discretised two-dimensional least attained service (Gu et al., NSDI'19, section 3.2), without knowledge of work.

    A job's service is its GPUs times its time on them. A job begins in the first queue and falls to the next queue
    when its service reaches a limit. Earlier queues go first. Within a queue jobs are served in order of their first
    start; jobs that never started follow, in order of submission. So jobs of one queue do not preempt each other.

    A job without GPUs for longer than `promote_knob` times its executed time is starving. It returns to the first
    queue, and both its service and its waiting count from zero again (the paper's PROMOTEKNOB).

    Queues are updated at rounds. If rounds fall at events alone, a limit takes effect at the next arrival or
    completion; `rounds.interval` adds rounds.

    `order="entry"`, `placement="spread"` and `limits=[57600]` are the Tiresias of Pollux's simulator (`tiresias.py` of
    the OSDI'21 artifact; `scheduler=tiresias_pollux`).

    Args:
        limits: GPU-seconds at which a job falls to the next queue, ascending; there is one queue more than limits. The
            default is that of the authors' simulator.
        promote_knob: waiting over executed time at which a job is promoted; infinite, the authors' default: never.
        order: of the jobs in a queue: by "first_start", or by "entry" into the queue through arrival or a fall. By
            entry, a job that waits for many GPUs stops jobs of its own queue that came after it.
        placement: "consolidated" gives a job the fewest nodes and skips it where they have no room. "spread" counts
            the GPUs of a type only, and takes free ones from the nodes that have most.
    """

    information = "none"
    preemptive = True
    elastic = False

    def __init__(
        self,
        limits: Sequence[GpuSeconds] = (3250.0, 7200.0, 18000.0),
        promote_knob: float = math.inf,
        order: Literal["first_start", "entry"] = "first_start",
        placement: Literal["consolidated", "spread"] = "consolidated",
    ) -> None:
        self.limits = np.array(limits, dtype=np.float64)
        if self.limits.size == 0 or not (np.diff(self.limits, prepend=0.0) > 0).all():
            raise MurmurationError(
                f"Tiresias: limits are {list(limits)} GPU-seconds; give at least one, positive and ascending"
            )
        if not promote_knob > 0:
            raise MurmurationError(
                f"Tiresias: promote_knob is {promote_knob}; it must be positive (.inf: no promotion)"
            )
        if order not in ("first_start", "entry"):
            raise MurmurationError(f"Tiresias: order is {order!r}; it must be first_start or entry")
        if placement not in ("consolidated", "spread"):
            raise MurmurationError(f"Tiresias: placement is {placement!r}; it must be consolidated or spread")
        self.promote_knob, self.order, self.placement = promote_knob, order, placement
        self._forget()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._forget()

    def schedule(self, view: ClusterView) -> Allocation:
        """Run as many jobs as fit: earlier queues first, and within a queue by `order`."""
        jobs = jobs_present(view)
        self._promote(view, jobs)
        queues = self.queues(view, jobs)
        order = jobs[np.lexsort((jobs, self._within_queues(jobs, queues), queues))]
        if self.placement == "spread":
            allocation = _spread(view, order)
        else:
            allocation = keep_and_displace(
                view, order.tolist(), lambda running, _throughputs: as_long_again(view, running)
            )
        self._remember(view, allocation)
        return allocation

    def queues(self, view: ClusterView, jobs: IntArray) -> IntArray:
        """int64[len(jobs)]: the queue of each job; 0 is the first."""
        service = self._service(view, jobs)
        return np.searchsorted(self.limits, service * (1 + _ROUNDING), side="right").astype(np.int64)

    def _within_queues(self, jobs: IntArray, queues: IntArray) -> FloatArray:
        """float64[len(jobs)]: less for jobs that go first within their queue."""
        if self.order == "first_start":
            return np.array([self._started.get(job, math.inf) for job in jobs.tolist()])
        for job, queue in zip(jobs.tolist(), queues.tolist(), strict=True):
            if self._entered.get(job, (-1, 0))[0] != queue:
                self._entered[job] = queue, next(self._entries)
        return np.array([self._entered[job][1] for job in jobs.tolist()], dtype=np.float64)

    def _service(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Return the GPU-seconds since the start or the last promotion."""
        written_off = [self._written_off.get(job, 0.0) for job in jobs.tolist()]
        return view.attained_service(jobs) - np.array(written_off, dtype=np.float64)

    def _promote(self, view: ClusterView, jobs: IntArray) -> None:
        if math.isinf(self.promote_knob):
            return
        executed = self._service(view, jobs) / view.num_gpus[jobs]
        since = np.array([self._stopped.get(job, math.nan) for job in jobs.tolist()])  # NaN: runs or never ran
        fallen = self.queues(view, jobs) > 0
        starving = fallen & (view.time - since >= self.promote_knob * executed * (1 - _ROUNDING))
        for job, attained in zip(jobs[starving].tolist(), view.attained_service(jobs[starving]), strict=True):
            self._written_off[job] = float(attained)
            self._stopped[job] = view.time

    def _remember(self, view: ClusterView, allocation: Allocation) -> None:
        ran = set(view.running.tolist())
        for job, placement in allocation.changes.items():
            if placement and job not in ran:
                self._started.setdefault(job, view.time)
                self._stopped.pop(job, None)
            elif not placement and job in ran:
                self._stopped[job] = view.time

    def _forget(self) -> None:
        self._started: dict[JobId, Seconds] = {}  # first start
        self._stopped: dict[JobId, Seconds] = {}  # when a waiting job that ran before was stopped
        self._written_off: dict[JobId, GpuSeconds] = {}  # service up to the last promotion
        self._entered: dict[JobId, tuple[int, int]] = {}  # queue, and its place among all entries into queues
        self._entries = itertools.count()


def _spread(view: ClusterView, jobs: IntArray) -> Allocation:
    """Run the first jobs that have room by number of GPUs; those that start take the nodes with most free GPUs."""
    allocation, cluster, starting = view.allocation(keep_running=True), view.cluster, list[tuple[JobId, IntArray]]()
    room = np.bincount(cluster.node_types, view.capacity, len(cluster.gpu_types)).astype(np.int64)
    sizes = gang_sizes(view, jobs)
    types = rank_types(throughputs_at(view, jobs, sizes))
    for job, size, ranked in zip(jobs.tolist(), sizes.tolist(), types, strict=True):
        placement = allocation.placement(job)
        if placement is not None:
            nodes, gpus = np.array(list(allocation.held(job, placement.gpus).items())).T
            held = np.bincount(cluster.node_types[nodes], gpus, len(room)).astype(np.int64)
            if (held <= room).all():
                room -= held
                continue
            allocation.stop(job)
        share = _share_of_types(room, size, ranked[ranked >= 0].tolist(), types_to_span(view, job, size))
        room -= share
        if share.any():
            starting.append((job, share))
    for job, share in starting:
        chosen: dict[NodeId, int] = {}
        free, asked = allocation.free_gpus, constraints_at(view, job)
        for gpu_type in np.flatnonzero(share).tolist():
            size = int(share[gpu_type])
            chosen |= find_shaped(asked, free, cluster, size, gpu_type, scattered) or best_fit(
                view, free, job, size, (gpu_type,)
            )
        few = not 0 < asked.max_nodes < len(chosen)  # over several types
        if few and sum(chosen.values()) == share.sum():  # else the nodes that its constraints allow are in use
            allocation.place(job, chosen)
    return allocation


def _share_of_types(room: IntArray, size: int, types: Sequence[int], spanned: Sequence[int]) -> IntArray:
    """int64[num_gpu_types]: GPUs of the first type with room, or of all `spanned` if there are no types; 0: no room."""
    share = np.zeros_like(room)
    for gpu_type in types:
        if size <= room[gpu_type]:
            share[gpu_type] = size
            return share
    if not types:
        for gpu_type in spanned:
            share[gpu_type] = min(int(room[gpu_type]), size - int(share.sum()))
    return share if share.sum() == size else np.zeros_like(room)
