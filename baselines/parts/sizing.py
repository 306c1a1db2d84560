"""What schedulers that size jobs by their speeds share: who takes part, and what a change of size is worth."""

from collections.abc import Callable, Sequence

import numpy as np

from baselines.parts.choosing import Options, Solver
from baselines.parts.grants import capacity_by_type, runs_on_one_type
from baselines.parts.marginal_gain import Grant
from baselines.parts.placing import best_fit, start_waiting
from baselines.parts.priority import jobs_present
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId, Seconds


class History:
    """How often jobs have been changed, and the most GPUs they have had; belongs to one episode."""

    def __init__(self) -> None:
        self._changes: dict[JobId, int] = {}
        self._most: dict[JobId, int] = {}

    def remember(self, view: ClusterView, wish: Allocation) -> None:
        """Note what a wish changes; the first start of a job is no change."""
        runs = set(view.running.tolist())
        for job, place in wish.changes.items():
            if place is None or (job in runs and view.placement(job).gpus == place.gpus):
                continue
            self._changes[job] = self._changes.get(job, -1) + 1
            self._most[job] = max(self._most.get(job, 0), place.num_gpus)

    def changes(self, job: JobId) -> int:
        """Starts but the first, resizes and moves so far."""
        return max(self._changes.get(job, 0), 0)

    def most_gpus(self, job: JobId) -> int:
        """The most GPUs that a job has had; 0 if it never ran."""
        return self._most.get(job, 0)


def restart_factor(age: Seconds, changes: int, restart: Seconds) -> float:
    """What part of its time a job would have spent working, were it changed once more: (age - changes x S) / (age + S).

    Sia (SOSP'23, section 3.3) and the Pollux of its artifact scale the worth of every change by it. 1 for a job younger
    than S and where restarts are free; never below 0.
    """
    if restart <= 0 or age < restart:
        return 1.0
    return max(age - changes * restart, 0.0) / (age + restart)


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


def programmed(
    view: ClusterView, solver: Solver, options_of: Callable[[ClusterView, IntArray], Options]
) -> tuple[dict[JobId, Grant], list[JobId]]:
    """The grants of one round by an integer program over the options of the jobs that take part.

    Args:
        view: the round.
        solver: of the program.
        options_of: what the given jobs may have, at what cost.

    Returns:
        The grants, and the jobs that run on no one type, for which the program leaves what they hold.
    """
    present = jobs_present(view)
    typed = runs_on_one_type(view, present)
    jobs, spanning = participants(view, present[typed]), present[~typed]
    options = options_of(view, jobs)
    chosen = solver.choose(options, room_for(view, spanning)).chosen
    grants = {
        job: Grant(int(options.gpu_type[picked]), int(options.num_gpus[picked]))
        for job, picked in zip(jobs.tolist(), chosen.tolist(), strict=True)
        if picked >= 0
    }
    return grants, spanning.tolist()


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
