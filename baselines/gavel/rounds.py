"""Gavel's rounds: choose jobs so that in the long run each job receives its share of every GPU type."""

from collections.abc import Sequence

import numpy as np

from baselines.parts.grants import Grant, free_by_type, held_grants
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, FloatArray, GpuSeconds, IntArray, JobId, Seconds

NEVER_RAN = 1e9  # priority per unit of share of a job that has received no time


class TimeReceived:
    """Shares, and the time that each job has received on each GPU type since they were computed (OSDI'20, section 5).

    Args:
        head_start: seconds credited to every job at the start, so that one round does not outweigh everything else.
    """

    def __init__(self, head_start: Seconds) -> None:
        self.head_start = head_start
        self._shares: dict[JobId, FloatArray] = {}
        self._time: dict[JobId, FloatArray] = {}  # seconds by type
        self._owed: dict[JobId, FloatArray] = {}  # seconds by type, owed from earlier shares
        self._all: FloatArray = np.zeros(0)  # seconds by type, of all jobs, including finished ones
        self._since: Seconds = 0.0
        self._running: dict[JobId, tuple[int, GpuSeconds, int]] = {}  # type, service at the last round, GPUs

    def advance(self, view: ClusterView) -> None:
        """Add the time that jobs have received since the last round."""
        num_types = len(view.cluster.gpu_types)
        if not self._all.size:
            self._all = np.zeros(num_types)
        jobs = np.array(list(self._running), dtype=np.int64)
        for job, service in zip(jobs.tolist(), view.attained_service(jobs).tolist(), strict=True):
            gpu_type, before, gpus = self._running[job]
            seconds = (service - before) / gpus
            self._all[gpu_type] += seconds
            self._time.setdefault(job, np.full(num_types, self.head_start))[gpu_type] += seconds

    def begin(self, view: ClusterView, allocation: Allocation) -> None:
        """Record where each job runs from this round on."""
        self._running = {}
        jobs = np.array(sorted(allocation.jobs()), dtype=np.int64)
        for job, service in zip(jobs.tolist(), view.attained_service(jobs).tolist(), strict=True):
            place = allocation.placement(job)
            if place:
                self._running[job] = int(view.cluster.node_types[min(place.gpus)]), service, place.num_gpus

    def renew(self, time: Seconds, jobs: IntArray, shares: FloatArray) -> None:
        """Replace the shares; time not received under the old shares is owed."""
        owed: dict[JobId, FloatArray] = {}
        for job in jobs.tolist():
            had = self._time.get(job, np.full(shares.shape[1], self.head_start)) - self.head_start
            due = self._shares.get(job, np.zeros(shares.shape[1])) * (time - self._since)
            owed[job] = self._owed.get(job, np.zeros(shares.shape[1])) + due - had
        self._owed = owed
        self._shares = dict(zip(jobs.tolist(), shares, strict=True))
        self._time = {job: np.full(shares.shape[1], self.head_start) for job in jobs.tolist()}
        self._all = np.full(shares.shape[1], self.head_start * len(jobs))
        self._since = time

    def ranks(self, jobs: IntArray, num_types: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sort keys, largest first: priority, seconds owed and share, each float64[len(jobs), num_types]."""
        nothing = np.zeros(num_types)
        share = np.array([self._shares.get(job, nothing) for job in jobs.tolist()]).reshape(-1, num_types)
        time = np.array([self._time.get(job, nothing) for job in jobs.tolist()]).reshape(-1, num_types)
        owed = np.array([self._owed.get(job, nothing) for job in jobs.tolist()]).reshape(-1, num_types)
        fraction = np.divide(time, self._all, out=np.zeros_like(time), where=self._all > 0)
        priority = np.divide(share, fraction, out=share * NEVER_RAN, where=fraction > 0)
        return priority, owed, share


def choose_grants(
    view: ClusterView,
    allocation: Allocation,
    jobs: IntArray,
    sizes: IntArray,
    runs: BoolArray,
    gpu_types: Sequence[int],
    received: TimeReceived,
    *,
    keep: bool,
) -> dict[JobId, Grant]:
    """Choose GPUs for each job of the next round; a job without an entry waits.

    Types are filled one after the other, jobs by priority; a gang that does not fit is skipped.

    Args:
        view: the round.
        allocation: starts with the running jobs; not changed.
        jobs: int64[num_jobs]; each runs on at least one type.
        sizes: int64[num_jobs], GPUs of each job.
        runs: bool[num_jobs, num_gpu_types], whether a job runs on its number of GPUs of a type.
        gpu_types: types in the order in which they are filled.
        received: shares and the time received.
        keep: whether running jobs continue whatever their priority, so that only idle GPUs are assigned.
    """
    present = set(jobs.tolist())
    held = {job: grant for job, grant in held_grants(view).items() if job in present}
    left = free_by_type(allocation)
    chosen = dict(held) if keep else {}
    if not keep:
        for grant in held.values():
            left[grant.gpu_type] += grant.num_gpus
    priority, owed, share = received.ranks(jobs, runs.shape[1])
    for gpu_type in gpu_types:
        order = np.lexsort((jobs, -share[:, gpu_type], -owed[:, gpu_type], -priority[:, gpu_type]))
        for place in order[runs[order, gpu_type]].tolist():
            if left[gpu_type] == 0:
                break
            if sizes[place] <= left[gpu_type] and (job := int(jobs[place])) not in chosen:
                chosen[job] = Grant(gpu_type, int(sizes[place]))
                left[gpu_type] -= sizes[place]
    return chosen


def order_types_by_throughput(throughput: FloatArray) -> list[int]:
    """Order GPU types by mean throughput, each job's relative to its best type; ties in the cluster's order.

    Args:
        throughput: float64[num_jobs, num_gpu_types], samples/s; no row is all zeros.
    """
    if not len(throughput):
        return []
    relative = (throughput / throughput.max(axis=1, keepdims=True)).mean(axis=0)
    order: list[int] = np.argsort(-relative, kind="stable").tolist()
    return order
