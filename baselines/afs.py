"""AFS: apathetic future share; a GPU goes to the shorter of two jobs unless the longer one makes far more of it."""

import numpy as np

from baselines.parts.one_heap import Heap, OneHeap
from envs.scheduling import ClusterView
from envs.simulation.jit import jit
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray


class Afs:
    """AFS-L, the form with known lengths (Hwang et al., "Elastic resource sharing for deep learning", NSDI'21).

    GPUs go out one at a time. Of two jobs, a the shorter by the time that it needs yet on what it has so far, b the
    longer, the GPU is b's if it gains b more than it would gain a, relative to what each has then:

        (p_b(g_b + 1) - p_b(g_b)) / p_b(g_b + 1)  >  (p_a(g_a + 1) - p_a(g_a)) / p_a(g_a)

    with speeds p; between two jobs without GPUs the shorter one wins. The GPU's owner is who wins against all, found in
    one pass over the jobs.

    Beyond the paper, so that it runs in this world:
    - Ranges: a job's next step is to its least size, then the best step per GPU, which jumps over sizes that do not
      pay; the gain is counted per GPU. Steps larger than what is left are not offered.
    - GPU types: one heap, in which a job's speed is that on its fastest type. The length of a job without GPUs is that
      on its least size.
    - Restarts are not looked at: a job whose number of GPUs changes is resized.
    """

    information = "estimate"
    preemptive = True
    elastic = True

    def __init__(self) -> None:
        self._heap = OneHeap("Afs")

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._heap.forget()

    def schedule(self, view: ClusterView) -> Allocation:
        """Sizes by the pairwise rule, then places.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        return self._heap.schedule(view, _length, lambda heap: afs_sizes(heap.work, heap.speeds, heap.num_gpus))


def _length(heap: Heap) -> FloatArray:
    """float64[num_jobs]: seconds left on the least size."""
    length: FloatArray = heap.work / heap.speeds[np.arange(len(heap.work)), heap.least]
    return length


@jit
def next_step(speeds: FloatArray, size: int, left: int) -> tuple[int, float]:
    """A job's next size, at most `left` GPUs larger, and its gain in samples/s per GPU; the same size if none gains.

    From nothing it is the least size; then that with the greatest gain per GPU.

    Args:
        speeds: float64[sizes], samples/s; 0 where the job does not run.
        size: GPUs so far.
        left: GPUs to be had.
    """
    best, gain = size, 0.0
    for larger in range(size + 1, min(size + left, len(speeds) - 1) + 1):
        if speeds[larger] > speeds[size]:
            per_gpu = (speeds[larger] - speeds[size]) / (larger - size)
            if size == 0:
                return larger, per_gpu
            if per_gpu > gain:
                best, gain = larger, per_gpu
    return best, gain


@jit
def prefers_longer(
    speeds_a: FloatArray, size_a: int, gain_a: float, speeds_b: FloatArray, size_b: int, next_b: int, gain_b: float
) -> bool:
    """Whether the longer job b wins the next GPU against the shorter a, by AFS-L's inequality."""
    if size_a == 0:
        return False  # what a job gains that has nothing is beyond any measure
    return bool(gain_b / speeds_b[next_b] > gain_a / speeds_a[size_a])


@jit
def afs_sizes(work: FloatArray, speeds: FloatArray, num_gpus: int) -> IntArray:
    """GPUs for each job by AFS-L.

    Args:
        work: float64[num_jobs], samples left; jobs by length on their least size, which decides between equals.
        speeds: float64[num_jobs, sizes], samples/s; 0 where a job does not run.
        num_gpus: to share out.

    Returns:
        int64[num_jobs].
    """
    num_jobs, left = len(work), num_gpus
    sizes, steps, gains, lengths = (
        np.zeros(num_jobs, np.int64), np.zeros(num_jobs, np.int64), np.zeros(num_jobs), np.zeros(num_jobs),
    )  # fmt: skip
    for job in range(num_jobs):
        steps[job], gains[job] = next_step(speeds[job], 0, left)
        lengths[job] = work[job] / speeds[job, steps[job]] if gains[job] > 0 else np.inf
    while left > 0:
        owner = -1
        for job in range(num_jobs):
            if gains[job] > 0 and steps[job] - sizes[job] > left:
                steps[job], gains[job] = next_step(speeds[job], sizes[job], left)
            if gains[job] <= 0:
                continue
            if owner < 0:
                owner = job
                continue
            a, b = (owner, job) if lengths[owner] <= lengths[job] else (job, owner)
            longer = prefers_longer(speeds[a], sizes[a], gains[a], speeds[b], sizes[b], steps[b], gains[b])
            owner = b if longer else a
        if owner < 0:
            break
        left -= steps[owner] - sizes[owner]
        sizes[owner] = steps[owner]
        lengths[owner] = work[owner] / speeds[owner, sizes[owner]]
        steps[owner], gains[owner] = next_step(speeds[owner], sizes[owner], left)
    return sizes
