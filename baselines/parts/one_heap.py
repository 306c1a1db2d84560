"""For schedulers that know one kind of GPU: all types as one heap, and from sizes to places in the world as it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baselines.parts.estimates import remaining_work
from baselines.parts.placing import pack
from baselines.parts.priority import jobs_present, place_in_order
from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray


@dataclass(frozen=True)
class Heap:
    """Jobs that can run on one type of GPU, and how many GPUs there are for them.

    Attributes:
        work: float64[num_jobs], samples left.
        speeds: float64[num_jobs, sizes], samples/s on the fastest type; 0 where a job does not run.
        num_gpus: to share out: those that are up, without those of running gangs over several types.
    """

    work: FloatArray
    speeds: FloatArray
    num_gpus: int

    @cached_property
    def least(self) -> IntArray:
        """int64[num_jobs]: fewest GPUs on which each job runs."""
        least: IntArray = (self.speeds > 0).argmax(axis=1)
        return least

    def sorted(self, order: IntArray) -> "Heap":
        """The jobs in another order."""
        return Heap(self.work[order], self.speeds[order], self.num_gpus)


class OneHeap:
    """Rounds of a scheduler that shares GPUs out as if they were of one type: lengths, sizes in their order, places.

    Whoever has its size stays. A gang over several types runs on once it runs, and starts when there is room in the
    end. Restarts are not looked at: a job whose number of GPUs changes is resized.

    Args:
        scheduler: its name, for complaints.
    """

    def __init__(self, scheduler: str) -> None:
        self.scheduler = scheduler
        self.forget()

    def forget(self) -> None:
        """Begin an episode."""
        self._submitted = SubmittedJobs()

    def schedule(
        self,
        view: ClusterView,
        length_of: Callable[[Heap], FloatArray],
        sizes_of: Callable[[Heap], IntArray],
    ) -> Allocation:
        """Sizes, then places; on what is left jobs without GPUs start on their least sizes.

        Args:
            view: the round.
            length_of: float64[num_jobs], by which jobs are ordered, shortest first.
            sizes_of: int64[num_jobs], GPUs for each of the jobs, which are in this order; 0 for those that shall wait.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        wish = view.allocation(keep_running=True)
        jobs = jobs_present(view)
        if not jobs.size:
            return wish
        work = remaining_work(view, jobs, self.scheduler)
        self._submitted.look_up(view)
        speeds = curves(view, self._submitted, jobs)
        able = np.flatnonzero(speeds.max(axis=1) > 0)
        gangs = np.intersect1d(np.delete(jobs, able), view.running).tolist()
        room = int(view.capacity.sum()) - sum(view.placement(job).num_gpus for job in gangs)
        heap = Heap(work[able], speeds[able], room)
        order = np.lexsort((jobs[able], length_of(heap)))
        sizes, least = np.zeros(len(jobs), np.int64), np.zeros(len(jobs), np.int64)
        sizes[able[order]] = sizes_of(heap.sorted(order))
        least[able] = heap.least
        carry_out(view, wish, jobs, sizes, able[order].tolist())
        start_more(view, wish, jobs, least, able[order].tolist())
        return wish


def curves(view: ClusterView, submitted: SubmittedJobs, jobs: IntArray) -> FloatArray:
    """float64[len(jobs), sizes]: samples/s of each job within its range on its fastest type; 0 where it cannot run."""
    fastest: FloatArray = submitted.speed(view, jobs).max(axis=1)
    return fastest


def held(view: ClusterView, jobs: IntArray) -> IntArray:
    """int64[len(jobs)]: GPUs that each of `jobs`, in ascending order, holds now."""
    gpus = np.zeros(len(jobs), np.int64)
    if view.running.size:
        at = np.searchsorted(jobs, view.running)
        gpus[at] = [view.placement(job).num_gpus for job in view.running.tolist()]
    return gpus


def carry_out(view: ClusterView, wish: Allocation, jobs: IntArray, sizes: IntArray, order: Sequence[int]) -> None:
    """Places for sizes: whoever has its size stays; the others are placed in order, smaller where there is no room.

    A gang over several types runs on once it runs, and starts when there is room in the end.

    Args:
        view: the round.
        wish: the answer under construction, begun with what runs; changed in place.
        jobs: int64[num_jobs], all that are present, ascending.
        sizes: int64[num_jobs], GPUs for each of them; 0 for those that shall wait.
        order: places in `jobs` of those that can run on one type, by falling priority.
    """
    now = held(view, jobs)
    for at in order:
        if now[at] and now[at] != sizes[at]:
            wish.stop(int(jobs[at]))
    granted = [at for at in order if sizes[at]]
    place_in_order(view, wish, jobs[granted].tolist(), {int(jobs[at]): int(sizes[at]) for at in granted})
    for at in granted:
        job = int(jobs[at])
        if not wish.free_gpus.any():
            return
        if not wish.placement(job):
            _squeeze_in(view, wish, job, int(sizes[at]) - 1)
    alone = np.setdiff1d(np.arange(len(jobs)), np.array(order, dtype=np.int64))
    for job in jobs[alone].tolist():
        if wish.free_gpus.any() and not wish.placement(job):
            pack(view, wish, job, int(view.min_gpus[job]))


def start_more(view: ClusterView, wish: Allocation, jobs: IntArray, least: IntArray, order: Sequence[int]) -> None:
    """Jobs without GPUs, in order, on their least size where there is room after all.

    Args:
        view: the round.
        wish: the answer under construction; changed in place.
        jobs: int64[num_jobs].
        least: int64[num_jobs], fewest GPUs on which each runs.
        order: places in `jobs` by falling priority.
    """
    full = int(wish.free_gpus.sum()) + 1  # so many were not found in one piece
    for at in order:
        if not wish.free_gpus.any():
            return
        if (
            least[at] < full
            and not wish.placement(int(jobs[at]))
            and not pack(view, wish, int(jobs[at]), int(least[at]))
        ):
            full = full if len(view.cluster.gpu_types) > 1 else min(full, int(least[at]))


def _squeeze_in(view: ClusterView, wish: Allocation, job: int, largest: int) -> None:
    """The largest size up to `largest`, within the job's range, for which there is room."""
    for size in range(min(largest, int(wish.free_gpus.sum())), int(view.min_gpus[job]) - 1, -1):
        if (view.speed(job)[:, size] > 0).any() and pack(view, wish, job, size):
            return
