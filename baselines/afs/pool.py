"""AFS-L on one pool of GPUs, as published: the pairwise rule, and sizes by it."""

import numpy as np

from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, IntArray


@jit
def next_step(throughputs: FloatArray, size: int, left: int) -> tuple[int, float]:
    """Find a job's next size, at most `left` GPUs larger, and its gain in samples/s per GPU.

    The next size of a job without GPUs is its least size; otherwise it is the size with the greatest gain per GPU. If
    no size gains, the present size is returned.

    Args:
        throughputs: float64[sizes], samples/s; 0 where the job does not run.
        size: GPUs so far.
        left: GPUs that are available.
    """
    best, gain = size, 0.0
    for larger in range(size + 1, min(size + left, len(throughputs) - 1) + 1):
        if throughputs[larger] > throughputs[size]:
            per_gpu = (throughputs[larger] - throughputs[size]) / (larger - size)
            if size == 0:
                return larger, per_gpu
            if per_gpu > gain:
                best, gain = larger, per_gpu
    return best, gain


@jit
def prefers_longer(
    throughputs_a: FloatArray,
    size_a: int,
    gain_a: float,
    throughputs_b: FloatArray,
    next_b: int,
    gain_b: float,
) -> bool:
    """Whether the longer job b wins the next GPU against the shorter a, by AFS-L's inequality."""
    if size_a == 0:
        return False  # the relative gain of a job without GPUs is infinite
    return bool(gain_b / throughputs_b[next_b] > gain_a / throughputs_a[size_a])


@jit
def afs_sizes(work: FloatArray, throughputs: FloatArray, num_gpus: int) -> IntArray:
    """Choose the number of GPUs of each job by AFS-L.

    Args:
        work: float64[num_jobs], samples left; jobs in order of length on their least size, which breaks ties.
        throughputs: float64[num_jobs, sizes], samples/s; 0 where a job does not run.
        num_gpus: GPUs to share out.

    Returns:
        int64[num_jobs].
    """
    num_jobs, left = len(work), num_gpus
    sizes, steps, gains, lengths = (
        np.zeros(num_jobs, np.int64), np.zeros(num_jobs, np.int64), np.zeros(num_jobs), np.zeros(num_jobs),
    )  # fmt: skip
    for job in range(num_jobs):
        steps[job], gains[job] = next_step(throughputs[job], 0, left)
        lengths[job] = work[job] / throughputs[job, steps[job]] if gains[job] > 0 else np.inf
    while left > 0:
        owner = -1
        for job in range(num_jobs):
            if gains[job] > 0 and steps[job] - sizes[job] > left:
                steps[job], gains[job] = next_step(throughputs[job], sizes[job], left)
            if gains[job] <= 0:
                continue
            if owner < 0:
                owner = job
                continue
            a, b = (owner, job) if lengths[owner] <= lengths[job] else (job, owner)
            longer = prefers_longer(throughputs[a], sizes[a], gains[a], throughputs[b], steps[b], gains[b])
            owner = b if longer else a
        if owner < 0:
            break
        left -= steps[owner] - sizes[owner]
        sizes[owner] = steps[owner]
        lengths[owner] = work[owner] / throughputs[owner, sizes[owner]]
        steps[owner], gains[owner] = next_step(throughputs[owner], sizes[owner], left)
    return sizes
