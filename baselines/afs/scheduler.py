"""AFS: apathetic future share; a GPU goes to the shorter of two jobs unless the longer one gains far more from it."""

import math

import numpy as np

from baselines.afs.pool import afs_sizes
from baselines.afs.types import afs_grants, average_throughputs
from baselines.parts.estimates import require_remaining_work
from baselines.parts.gpu_pool import GpuPool, PooledRounds, place_sizes, start_more
from baselines.parts.grants import held_grants
from baselines.parts.priority import jobs_present
from baselines.parts.protection import RestartProtection
from baselines.parts.sizing import room_for
from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, MurmurationError, Seconds


class Afs:
    """AFS-L, the form with known lengths (Hwang et al., "Elastic resource sharing for deep learning", NSDI'21).

    GPUs are given out one at a time. Compare two jobs by the time that each still needs on its GPUs so far: a is the
    shorter one, b the longer one. The GPU goes to b if b's relative gain is larger than a's:

        (p_b(g_b + 1) - p_b(g_b)) / p_b(g_b + 1)  >  (p_a(g_a + 1) - p_a(g_a)) / p_a(g_a)

    where p is the throughput. Between two jobs without GPUs the shorter one wins. The GPU goes to the job that wins
    against all others, found in one pass over the jobs.

    The paper has one type of GPU, lets every GPU pay alone, and resizes at no cost. Additions, so that it runs in this
    world, in both forms:
    - Ranges: a job's first step is to its least size. Each further step is the one with the best gain per GPU, which
      skips sizes that do not pay. Steps larger than the number of GPUs left are not offered.

    Our extension, the default:
    - GPU types: a step may also lead to GPUs of another type, where its gain counts per GPU taken. The GPUs given up
      are shared out again. So a long job leaves a slow type when faster GPUs become idle.
    - Restarts: p is the average throughput over the next `payback` seconds, or to the job's end if that is sooner. On
      all GPUs except the present ones of a running job, it includes the restart. So a job is resized or moved only if
      that pays within this time.
    - A restarted job keeps its GPUs for `protection` times its restart delay, so that jobs do not spend their time on
      restarts where these are long.

    The literal form:
    - GPU types: all types are one pool, in which a job has the throughput of its fastest type. The length of a job
      without GPUs is its length on its least size. A job that keeps its number of GPUs keeps its type.
    - Restarts are ignored: a job whose number of GPUs changes is resized.

    Args:
        literal: whether GPU types and restarts are ignored, as in the paper.
        payback: seconds within which a resize or a move must pay for its restart; not used if literal.
        protection: multiple of a job's restart delay for which it keeps its GPUs after a restart; not used if literal.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(self, literal: bool = False, payback: Seconds = 200.0, protection: float = 10.0) -> None:
        if not (payback > 0 and not math.isnan(payback)):
            raise MurmurationError(f"Afs: payback is {payback} s; it must be positive (.inf: to the end of the job)")
        self.literal, self.payback, self.protection = literal, payback, protection
        self._pooled = PooledRounds("Afs")
        self._submitted = SubmittedJobs()
        self._protection = RestartProtection("Afs", protection)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._pooled.forget()
        self._submitted = SubmittedJobs()
        self._protection.reset()

    def schedule(self, view: ClusterView) -> Allocation:
        """Choose types and sizes by the pairwise rule, then nodes.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        if self.literal:
            return self._pooled.schedule(
                view, _length, lambda pool: afs_sizes(pool.work, pool.throughputs, pool.num_gpus)
            )
        return self._over_types(view)

    def _over_types(self, view: ClusterView) -> Allocation:
        """Place the grants of `afs_grants`; jobs that already hold their grant are not moved."""
        allocation = view.allocation(keep_running=True)
        jobs = jobs_present(view)
        work = require_remaining_work(view, jobs, "Afs")
        self._submitted.look_up(view)
        able = (self._submitted.least[jobs] > 0).any(axis=1)
        free = np.flatnonzero(able & ~self._protection.protected(view, jobs))
        least, shortest = self._least(jobs[free], work[free])
        order = free[np.lexsort((jobs[free], shortest))]
        fixed = np.setdiff1d(np.arange(len(jobs)), order)
        chosen, granted, fewest = (np.zeros(len(jobs), np.int64) for _ in range(3))
        chosen[order], granted[order] = self._grants(view, jobs[order], work[order], room_for(view, jobs[fixed]))
        fewest[free] = least
        place_sizes(view, allocation, jobs, granted, order.tolist(), chosen)
        start_more(view, allocation, jobs, fewest, order.tolist())
        self._protection.remember(view, allocation)
        return allocation

    def _least(self, jobs: IntArray, work: FloatArray) -> tuple[IntArray, FloatArray]:
        """int64[num_jobs] and float64[num_jobs]: fewest GPUs of any type, and seconds left on a type's least size."""
        least, throughput = self._submitted.least[jobs], self._submitted.throughput_at_least[jobs]
        fewest = np.where(least > 0, least, np.iinfo(np.int64).max).min(axis=1)
        seconds: FloatArray = work / throughput.max(axis=1)
        return fewest, seconds

    def _grants(self, view: ClusterView, jobs: IntArray, work: FloatArray, room: IntArray) -> tuple[IntArray, IntArray]:
        """int64[num_jobs] twice: type and number of GPUs of each of `jobs`, which are in order of length."""
        held = held_grants(view)
        now = [held.get(job) for job in jobs.tolist()]
        present = np.array([grant.gpu_type if grant else -1 for grant in now], dtype=np.int64)
        size = np.array([grant.num_gpus if grant else 0 for grant in now], dtype=np.int64)
        throughputs = average_throughputs(
            work, self._submitted.throughput(view, jobs), present, size, view.restart_delay[jobs], self.payback
        )
        return afs_grants(work, throughputs, present, room)


def _length(pool: GpuPool) -> FloatArray:
    """float64[num_jobs]: seconds left on the least size."""
    length: FloatArray = pool.work / pool.throughputs[np.arange(len(pool.work)), pool.least]
    return length
