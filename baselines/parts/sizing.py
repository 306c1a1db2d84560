"""Parts of schedulers that size jobs by throughput: participants, configurations, and the worth of a change."""

from collections.abc import Sequence

import numpy as np

from baselines.parts.grants import Grant, capacity_by_type
from baselines.parts.placing import best_fit, start_waiting
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId


class History:
    """The number of changes of each job, and the most GPUs that it has had; belongs to one episode."""

    def __init__(self) -> None:
        self._starts: IntArray = np.zeros(0, np.int64)  # starts and changes, by job
        self._most: IntArray = np.zeros(0, np.int64)

    def remember(self, view: ClusterView, allocation: Allocation) -> None:
        """Record what an allocation changes; the first start of a job is not a change."""
        self._grow(len(view.num_gpus))
        runs = set(view.running.tolist())
        for job, place in allocation.changes.items():
            if place is None or (job in runs and view.placement(job).gpus == place.gpus):
                continue
            self._starts[job] += 1
            self._most[job] = max(self._most[job], place.num_gpus)

    def changes(self, jobs: IntArray) -> IntArray:
        """int64[len(jobs)]: starts except the first, resizes and moves so far."""
        self._grow(int(jobs.max(initial=-1)) + 1)
        changes: IntArray = np.maximum(self._starts[jobs] - 1, 0)
        return changes

    def most_gpus(self, jobs: IntArray) -> IntArray:
        """int64[len(jobs)]: the most GPUs that each job has had; 0 if it never ran."""
        self._grow(int(jobs.max(initial=-1)) + 1)
        return self._most[jobs]

    def _grow(self, num_jobs: int) -> None:
        more = num_jobs - len(self._most)
        if more > 0:
            self._starts = np.append(self._starts, np.zeros(more, np.int64))
            self._most = np.append(self._most, np.zeros(more, np.int64))


def restart_factor(age: FloatArray, changes: IntArray, restart: FloatArray) -> FloatArray:
    """float64[num_jobs]: the part of its time that a job would have worked if it were changed once more.

    This is (age - changes x S) / (age + S), by which Sia (SOSP'23, section 3.3) and the Pollux of its artifact scale
    the worth of every change. It is 1 for a job younger than S and where restarts are free, and at least 0.

    Args:
        age: float64[num_jobs], seconds since submission.
        changes: int64[num_jobs], changes so far.
        restart: float64[num_jobs], S, the seconds that a change costs.
    """
    young = (restart <= 0) | (age < restart)
    whole = np.where(young, 1.0, age + restart)
    factor: FloatArray = np.where(young, 1.0, np.maximum(age - changes * restart, 0.0) / whole)
    return factor


def participants(view: ClusterView, typed: IntArray) -> IntArray:
    """int64[n]: the jobs among which GPUs are shared out: running jobs, and as many waiting jobs as there are GPUs.

    More jobs could not start, and leaving them out limits the size of the program. Waiting jobs are taken in order of
    attained service, then of submission, as in the Pollux of Sia's artifact.

    Args:
        view: the round.
        typed: int64[num_jobs], jobs that run on at least one single type, ascending.
    """
    runs = np.isin(typed, view.running)
    waiting = typed[~runs]
    first = waiting[np.lexsort((waiting, view.attained_service(waiting)))][: int(view.capacity.sum())]
    return np.sort(np.concatenate([typed[runs], first]))


def room_for(view: ClusterView, spanning: IntArray) -> IntArray:
    """int64[num_gpu_types]: GPUs that are up, without those of running jobs over several types."""
    room = capacity_by_type(view)
    for job in spanning[np.isin(spanning, view.running)].tolist():
        for node, gpus in view.placement(job).gpus.items():
            room[view.cluster.node_types[node]] -= gpus
    return room


def throughputs(view: ClusterView, job: JobId) -> FloatArray:
    """float64[num_gpu_types, sizes]: samples/s on the fewest nodes; 0 for sizes outside the job's range."""
    table = view.throughputs(job).copy()
    table[:, : view.min_gpus[job]] = 0.0
    table[:, view.max_gpus[job] + 1 :] = 0.0
    return table


def not_slower(table: FloatArray) -> FloatArray:
    """float64[num_gpu_types, sizes]: throughputs, but 0 for sizes that are slower than a smaller one of their type."""
    kept: FloatArray = np.where(table >= np.maximum.accumulate(table, axis=1), table, 0.0)
    return kept


def largest_fastest(curve: FloatArray) -> int:
    """Return the size with the largest throughput of float64[sizes]; of equals the largest."""
    return len(curve) - 1 - int(curve[::-1].argmax())


def configurations(view: ClusterView, job: JobId) -> list[Grant]:
    """List the configurations of a job: powers of two within a node, whole nodes, and its requested size.

    Only sizes of `not_slower` within its range count. If there are none, its least size on each type is used. The list
    is never empty for a job that runs on one type. These are the configurations of Sia (SOSP'23, section 3.2), in
    general form.
    """
    throughput = not_slower(throughputs(view, job))
    found: list[Grant] = []
    for gpu_type in range(len(view.cluster.gpu_types)):
        nodes = view.cluster.node_gpus[view.cluster.node_types == gpu_type]
        largest = int(nodes.max())
        sizes = {2**exponent for exponent in range(largest.bit_length())}
        sizes |= set(range(largest, int(nodes.sum()) + 1, largest))
        sizes.add(int(view.num_gpus[job]))
        found += [
            Grant(gpu_type, size)
            for size in sorted(sizes)
            if size < throughput.shape[1] and throughput[gpu_type, size] > 0
        ]
    if found:
        return found
    return [Grant(gpu_type, int((row > 0).argmax())) for gpu_type, row in enumerate(throughput) if row.any()]


def start_queued(view: ClusterView, allocation: Allocation) -> None:
    """Start waiting jobs on GPUs that the allocation leaves idle, in order of submission; see `start_in_order`."""
    start_in_order(view, allocation, view.queued.tolist())


def start_in_order(view: ClusterView, allocation: Allocation, order: Sequence[JobId]) -> None:
    """Start jobs of `order` without GPUs: first as requested, or at a faster size with fewer GPUs, then at least sizes.

    Args:
        view: the round.
        allocation: under construction; changed in place.
        order: the jobs, by falling priority.
    """
    for size_of in (requested_size, _least):
        waiting = [job for job in order if allocation.placement(job) is None]
        if waiting and allocation.free_gpus.any():
            start_waiting(view, allocation, waiting, best_fit, {job: size_of(view, job) for job in waiting})


def requested_size(view: ClusterView, job: JobId) -> int:
    """Return the fastest size up to the requested one, within a job's range and its table; the largest of equals."""
    size = min(int(view.num_gpus[job]), int(view.throughputs(job).shape[1]) - 1)
    curve = throughputs(view, job)[:, : size + 1].max(axis=0)
    return largest_fastest(curve) if curve.any() else size


def _least(view: ClusterView, job: JobId) -> int:
    """Return the fewest GPUs of one type on which a job runs; the least of its range if it runs on no one type."""
    runs = np.flatnonzero(throughputs(view, job).max(axis=0) > 0)
    return int(runs[0]) if runs.size else int(view.min_gpus[job])
