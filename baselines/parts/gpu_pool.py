"""For schedulers that know one GPU type: treat all types as one pool, then place the sizes on the real nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baselines.parts.estimates import require_remaining_work
from baselines.parts.placing import pack
from baselines.parts.priority import jobs_present, place_in_order
from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class GpuPool:
    """Jobs that can run on one GPU type, and the number of GPUs for them.

    Attributes:
        work: float64[num_jobs], samples left.
        throughputs: float64[num_jobs, sizes], samples/s on the fastest type; 0 where a job does not run.
        num_gpus: GPUs to share out: those that are up, without those of running gangs over several types.
    """

    work: FloatArray
    throughputs: FloatArray
    num_gpus: int

    @cached_property
    def least(self) -> IntArray:
        """int64[num_jobs]: fewest GPUs on which each job runs."""
        least: IntArray = (self.throughputs > 0).argmax(axis=1)
        return least

    def sorted(self, order: IntArray) -> "GpuPool":
        """Return the jobs in another order."""
        return GpuPool(self.work[order], self.throughputs[order], self.num_gpus)


class PooledRounds:
    """Rounds of a scheduler that shares out GPUs as if they were of one type: lengths, then sizes, then nodes.

    Jobs that already have their target size are not moved. A gang over several types starts if there is room after all
    others, and then keeps running. Restarts are ignored: a job whose number of GPUs changes is resized.

    Args:
        scheduler: its name, for error messages.
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
        length_of: Callable[[GpuPool], FloatArray],
        sizes_of: Callable[[GpuPool], IntArray],
    ) -> Allocation:
        """Choose sizes, then nodes; jobs without GPUs start at their least sizes on GPUs left over.

        Args:
            view: the round.
            length_of: computes float64[num_jobs]; jobs are ordered by it, shortest first.
            sizes_of: computes int64[num_jobs], GPUs for each of the jobs in this order; 0 for jobs that wait.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        allocation = view.allocation(keep_running=True)
        jobs = jobs_present(view)
        if not jobs.size:
            return allocation
        work = require_remaining_work(view, jobs, self.scheduler)
        self._submitted.look_up(view)
        throughputs = curves(view, self._submitted, jobs)
        able = np.flatnonzero(throughputs.max(axis=1) > 0)
        gangs = np.intersect1d(np.delete(jobs, able), view.running).tolist()
        room = int(view.capacity.sum()) - sum(view.placement(job).num_gpus for job in gangs)
        pool = GpuPool(work[able], throughputs[able], room)
        order = np.lexsort((jobs[able], length_of(pool)))
        sizes, least = np.zeros(len(jobs), np.int64), np.zeros(len(jobs), np.int64)
        sizes[able[order]] = sizes_of(pool.sorted(order))
        least[able] = pool.least
        place_sizes(view, allocation, jobs, sizes, able[order].tolist())
        start_more(view, allocation, jobs, least, able[order].tolist())
        return allocation


def curves(view: ClusterView, submitted: SubmittedJobs, jobs: IntArray) -> FloatArray:
    """float64[len(jobs), sizes]: samples/s of each job within its range on its fastest type; 0 where it cannot run."""
    fastest: FloatArray = submitted.throughput(view, jobs).max(axis=1)
    return fastest


def held(view: ClusterView, jobs: IntArray) -> IntArray:
    """int64[len(jobs)]: GPUs that each of `jobs`, in ascending order, holds now."""
    gpus = np.zeros(len(jobs), np.int64)
    rows = view.shares
    np.add.at(gpus, np.searchsorted(jobs, rows[:, 0]), rows[:, 2])
    return gpus


def place_sizes(
    view: ClusterView,
    allocation: Allocation,
    jobs: IntArray,
    sizes: IntArray,
    order: Sequence[int],
    gpu_types: IntArray | None = None,
) -> None:
    """Place sizes on nodes: jobs that have their size stay; the others follow in order, smaller where room is short.

    A gang over several types starts if there is room after all others, and then keeps running.

    Args:
        view: the round.
        allocation: the allocation under construction, with the running jobs at first; changed in place.
        jobs: int64[num_jobs], all jobs present, ascending.
        sizes: int64[num_jobs], GPUs for each of them; 0 for jobs that wait.
        order: places in `jobs` of those that can run on one type, by falling priority.
        gpu_types: int64[num_jobs], the type for each job's size; if None, a job takes the fastest type with room, and
            one that has its size stays on its type.
    """
    now = held(view, jobs)
    elsewhere = np.zeros(len(jobs), np.bool_) if gpu_types is None else _on_other_types(view, jobs, gpu_types)
    for at in order:
        if now[at] and (now[at] != sizes[at] or elsewhere[at]):
            allocation.stop(int(jobs[at]))
    granted = [at for at in order if sizes[at]]
    chosen = None if gpu_types is None else {int(jobs[at]): (int(gpu_types[at]),) for at in granted}
    place_in_order(view, allocation, jobs[granted].tolist(), {int(jobs[at]): int(sizes[at]) for at in granted}, chosen)
    for at in granted:
        job = int(jobs[at])
        if not allocation.free_gpus.any():
            return
        if not allocation.placement(job):
            _squeeze_in(view, allocation, job, int(sizes[at]) - (gpu_types is None))
    alone = np.setdiff1d(np.arange(len(jobs)), np.array(order, dtype=np.int64))
    for job in jobs[alone].tolist():
        if allocation.free_gpus.any() and not allocation.placement(job):
            pack(view, allocation, job, int(view.min_gpus[job]))


def _on_other_types(view: ClusterView, jobs: IntArray, gpu_types: IntArray) -> BoolArray:
    """bool[len(jobs)]: whether a job runs on another type than `gpu_types` has for it."""
    present = gpu_types.copy()
    held_by, first = np.unique(view.shares[:, 0], return_index=True)
    present[np.searchsorted(jobs, held_by)] = view.cluster.node_types[view.shares[first, 1]]
    other: BoolArray = present != gpu_types
    return other


def start_more(
    view: ClusterView, allocation: Allocation, jobs: IntArray, least: IntArray, order: Sequence[int]
) -> None:
    """Start jobs without GPUs, in order, on their least size where there is room.

    Args:
        view: the round.
        allocation: the allocation under construction; changed in place.
        jobs: int64[num_jobs].
        least: int64[num_jobs], fewest GPUs on which each runs.
        order: places in `jobs` by falling priority.
    """
    full = int(allocation.free_gpus.sum()) + 1  # the smallest size that was not found in one piece
    for at in order:
        if not allocation.free_gpus.any():
            return
        if (
            least[at] < full
            and not allocation.placement(int(jobs[at]))
            and not pack(view, allocation, int(jobs[at]), int(least[at]))
        ):
            full = full if len(view.cluster.gpu_types) > 1 else min(full, int(least[at]))


def _squeeze_in(view: ClusterView, allocation: Allocation, job: int, largest: int) -> None:
    """Place a job at the largest size up to `largest`, within its range, for which there is room."""
    for size in range(min(largest, int(allocation.free_gpus.sum())), int(view.min_gpus[job]) - 1, -1):
        if (view.throughputs(job)[:, size] > 0).any() and pack(view, allocation, job, size):
            return
