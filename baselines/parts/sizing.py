"""What schedulers that size jobs by their speeds share: who takes part, and what a change of size is worth."""

from collections.abc import Sequence

import numpy as np

from baselines.parts.grants import capacity_by_type
from baselines.parts.marginal_gain import Grant
from baselines.parts.placing import best_fit, start_waiting
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId


class History:
    """How often jobs have been changed, and the most GPUs they have had; belongs to one episode."""

    def __init__(self) -> None:
        self._starts: IntArray = np.zeros(0, np.int64)  # and changes, by job
        self._most: IntArray = np.zeros(0, np.int64)

    def remember(self, view: ClusterView, wish: Allocation) -> None:
        """Note what a wish changes; the first start of a job is no change."""
        self._grow(len(view.num_gpus))
        runs = set(view.running.tolist())
        for job, place in wish.changes.items():
            if place is None or (job in runs and view.placement(job).gpus == place.gpus):
                continue
            self._starts[job] += 1
            self._most[job] = max(self._most[job], place.num_gpus)

    def changes(self, jobs: IntArray) -> IntArray:
        """int64[len(jobs)]: starts but the first, resizes and moves so far."""
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
    """float64[num_jobs]: what part of its time a job would have spent working, were it changed once more.

    (age - changes x S) / (age + S), by which Sia (SOSP'23, section 3.3) and the Pollux of its artifact scale the worth
    of every change. 1 for a job younger than S and where restarts are free; never below 0.

    Args:
        age: float64[num_jobs], seconds since submission.
        changes: int64[num_jobs], so far.
        restart: float64[num_jobs], seconds that each costs: S.
    """
    young = (restart <= 0) | (age < restart)
    whole = np.where(young, 1.0, age + restart)
    factor: FloatArray = np.where(young, 1.0, np.maximum(age - changes * restart, 0.0) / whole)
    return factor


def participants(view: ClusterView, typed: IntArray) -> IntArray:
    """int64[n]: the jobs among which GPUs are shared out: those that run, and as many waiting ones as there are GPUs.

    More could not start; leaving them out bounds the program. The waiting ones are the first in order of the service
    that they have had, then of submission (as the Pollux of Sia's artifact orders them).

    Args:
        view: the round.
        typed: int64[num_jobs], jobs that run on some one type, ascending.
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


def speeds(view: ClusterView, job: JobId) -> FloatArray:
    """float64[num_gpu_types, sizes]: samples/s on the fewest nodes; 0 for sizes out of the job's range."""
    table = view.speed(job).copy()
    table[:, : view.min_gpus[job]] = 0.0
    table[:, view.max_gpus[job] + 1 :] = 0.0
    return table


def configurations(view: ClusterView, job: JobId) -> list[Grant]:
    """What a job may have: powers of two within a node, whole nodes, its requested size; within its range, and running.

    If that is nothing, its least size on each type. Never empty for a job that runs on one type. The configurations of
    Sia (SOSP'23, section 3.2), in general form.
    """
    speed = speeds(view, job)
    found: list[Grant] = []
    for kind in range(len(view.cluster.gpu_types)):
        nodes = view.cluster.node_gpus[view.cluster.node_types == kind]
        largest = int(nodes.max())
        sizes = {2**exponent for exponent in range(largest.bit_length())}
        sizes |= set(range(largest, int(nodes.sum()) + 1, largest))
        sizes.add(int(view.num_gpus[job]))
        found += [Grant(kind, size) for size in sorted(sizes) if size < speed.shape[1] and speed[kind, size] > 0]
    if found:
        return found
    return [Grant(kind, int((row > 0).argmax())) for kind, row in enumerate(speed) if row.any()]


def fill(view: ClusterView, wish: Allocation) -> None:
    """Let waiting jobs start on GPUs that the wish leaves idle, in order of submission; see `start_in_order`."""
    start_in_order(view, wish, view.queued.tolist())


def start_in_order(view: ClusterView, wish: Allocation, order: Sequence[JobId]) -> None:
    """Start those of `order` that have no GPUs in the wish: first who finds the GPUs asked for, then at least sizes."""
    for size_of in (_requested, _least):
        waiting = [job for job in order if wish.placement(job) is None]
        if waiting and wish.free_gpus.any():
            start_waiting(view, wish, waiting, best_fit, {job: size_of(view, job) for job in waiting})


def _requested(view: ClusterView, job: JobId) -> int:
    """The GPUs that a job asks for, or all of the cluster's if they are fewer."""
    return min(int(view.num_gpus[job]), int(view.speed(job).shape[1]) - 1)


def _least(view: ClusterView, job: JobId) -> int:
    """The fewest GPUs of one type on which a job runs; the least of its range if it runs on no one type."""
    runs = np.flatnonzero(speeds(view, job).max(axis=0) > 0)
    return int(runs[0]) if runs.size else int(view.min_gpus[job])
