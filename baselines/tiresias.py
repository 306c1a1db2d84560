"""Tiresias: least attained service in a few queues instead of a continuous order."""

import math
from collections.abc import Sequence

import numpy as np

from baselines.parts.estimates import as_long_again
from baselines.parts.priority import jobs_present, keep_and_displace
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, GpuSeconds, IntArray, JobId, MurmurationError, Seconds

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

    Args:
        limits: GPU-seconds at which a job falls to the next queue, ascending; there is one queue more than limits. The
            default is that of the authors' simulator.
        promote_knob: waiting over executed time at which a job is promoted; infinite, the authors' default: never.
    """

    information = "none"
    preemptive = True
    elastic = False

    def __init__(
        self, limits: Sequence[GpuSeconds] = (3250.0, 7200.0, 18000.0), promote_knob: float = math.inf
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
        self.promote_knob = promote_knob
        self._forget()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._forget()

    def schedule(self, view: ClusterView) -> Allocation:
        """Run as many jobs as fit: earlier queues first, and within a queue the job that started first."""
        jobs = jobs_present(view)
        self._promote(view, jobs)
        starts = np.array([self._started.get(job, math.inf) for job in jobs.tolist()])
        order = jobs[np.lexsort((jobs, starts, self.queues(view, jobs)))]
        allocation = keep_and_displace(view, order.tolist(), lambda running, _throughputs: as_long_again(view, running))
        self._remember(view, allocation)
        return allocation

    def queues(self, view: ClusterView, jobs: IntArray) -> IntArray:
        """int64[len(jobs)]: the queue of each job; 0 is the first."""
        service = self._service(view, jobs)
        return np.searchsorted(self.limits, service * (1 + _ROUNDING), side="right").astype(np.int64)

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
