"""AFS-L over several GPU types: the pairwise rule decides on types as well as on sizes. The extension is ours."""

import numpy as np

from baselines.afs.pool import prefers_longer
from envs.simulation.compiled.jit import jit, leaf
from envs.types import FloatArray, IntArray, Seconds

_SAME = 1e-9  # throughputs that differ by less, relatively, count as equal


def average_throughputs(
    work: FloatArray,
    throughputs: FloatArray,
    present_type: IntArray,
    present_size: IntArray,
    restart: FloatArray,
    payback: Seconds,
) -> FloatArray:
    """Compute throughputs with the restart that a running job needs to reach them.

    A restart counts as time lost out of the next `payback` seconds, or out of the time to the job's end if that is
    shorter. The present GPUs of a running job cost no restart, and neither do the GPUs of a waiting job, which has to
    start anyway.

    Args:
        work: float64[num_jobs], samples left.
        throughputs: float64[num_jobs, num_gpu_types, sizes], samples/s; 0 where a job does not run.
        present_type: int64[num_jobs], GPU type that a job holds; -1 if it waits.
        present_size: int64[num_jobs], GPUs that it holds.
        restart: float64[num_jobs], seconds that a change costs a running job.
        payback: seconds within which a change must pay for its restart.

    Returns:
        float64[num_jobs, num_gpu_types, sizes], samples/s.
    """
    seconds = np.full(throughputs.shape, np.inf)
    np.divide(work[:, None, None], throughputs, out=seconds, where=throughputs > 0)
    seconds = np.maximum(np.minimum(seconds, payback), 1e-9)
    runs = np.flatnonzero(present_type >= 0)
    lost = np.zeros(len(work))
    lost[runs] = restart[runs]
    average: FloatArray = throughputs / (1 + lost[:, None, None] / seconds)
    # Present GPUs need no restart.
    here = runs, present_type[runs], present_size[runs]
    average[here] = throughputs[here]
    return average


@jit
def step_over_types(
    throughputs: FloatArray, gpu_type: int, size: int, present: int, left: IntArray
) -> tuple[int, int, float]:
    """Find a job's next type and size and its gain in samples/s per GPU; the gain is 0 if no step gains.

    The first step of a job is to its least size, on its present type if there is room, else on the type on which it is
    fastest then. Later steps are the larger size on its type, or the size on another type, with the greatest gain per
    GPU taken.

    Args:
        throughputs: float64[num_gpu_types, sizes], samples/s; 0 where the job does not run.
        gpu_type: its type so far; -1 for none.
        size: GPUs so far.
        present: the type that it holds now; -1 if it waits.
        left: int64[num_gpu_types], GPUs that are available.
    """
    best_type, best_size, gain = gpu_type, size, 0.0
    # A waiting job has no throughput to gain on, so its first step is decided by the throughput at its least size.
    if size == 0:
        fastest = 0.0
        for other in range(len(left)):
            for least in range(1, min(left[other], throughputs.shape[1] - 1) + 1):
                if throughputs[other, least] > 0:
                    # On its present type it needs no restart, if there is room.
                    if other == present:
                        return other, least, throughputs[other, least] / least
                    if throughputs[other, least] > fastest:
                        best_type, best_size, fastest = other, least, throughputs[other, least]
                        gain = fastest / least
                    break
        return best_type, best_size, gain
    # On another type all of its GPUs are new, so that a step there has to be worth more to win.
    now = throughputs[gpu_type, size]
    for other in range(len(left)):
        first, given = (size + 1, size) if other == gpu_type else (1, 0)
        for larger in range(first, min(given + left[other], throughputs.shape[1] - 1) + 1):
            if throughputs[other, larger] > now * (1 + _SAME):
                per_gpu = (throughputs[other, larger] - now) / (larger - given)
                if per_gpu > gain:
                    best_type, best_size, gain = other, larger, per_gpu
    return best_type, best_size, gain


@leaf
def step_fits(gain: float, next_type: int, next_size: int, gpu_type: int, size: int, left: IntArray) -> bool:
    """Whether there are still enough GPUs for a job's next step; True for a job without one (its gain is 0).

    Args:
        gain: as `step_over_types` returns it, like `next_type` and `next_size`.
        next_type: the type after the step.
        next_size: the size after the step.
        gpu_type: the type before it.
        size: the size before it.
        left: int64[num_gpu_types], GPUs that are available.
    """
    held = size if next_type == gpu_type else 0
    return gain <= 0 or next_size - held <= left[next_type]


@jit
def afs_grants(
    work: FloatArray, throughputs: FloatArray, present: IntArray, capacity: IntArray
) -> tuple[IntArray, IntArray]:
    """Choose the GPU type and the number of GPUs of each job by AFS-L's rule.

    The winner of the pairwise comparisons takes its best step, which may lead to another type. Its GPUs of the former
    type become available then. Every step makes a job faster, and no step takes GPUs from another job, so this ends.

    Args:
        work: float64[num_jobs], samples left; jobs in order of length on their least size, which breaks ties.
        throughputs: float64[num_jobs, num_gpu_types, sizes], samples/s; 0 where a job does not run.
        present: int64[num_jobs], GPU type that a job holds now; -1 if it waits.
        capacity: int64[num_gpu_types], GPUs to share out.

    Returns:
        int64[num_jobs] twice: the GPU type, -1 for a job without GPUs, and the number of GPUs.
    """
    num_jobs, left = len(work), capacity.copy()
    gpu_types, sizes = np.full(num_jobs, -1, np.int64), np.zeros(num_jobs, np.int64)
    next_type, next_size = np.full(num_jobs, -1, np.int64), np.zeros(num_jobs, np.int64)
    gains, lengths = np.zeros(num_jobs), np.full(num_jobs, np.inf)
    fresh = False  # whether all next steps are known for the GPUs that are left
    while True:
        owner = -1
        for job in range(num_jobs):
            # GPUs only become fewer while jobs grow on their types, so a next step remains the best one while it fits.
            fits = step_fits(gains[job], next_type[job], next_size[job], gpu_types[job], sizes[job], left)
            if not fresh or not fits:
                next_type[job], next_size[job], gains[job] = step_over_types(
                    throughputs[job], gpu_types[job], sizes[job], present[job], left
                )
                if sizes[job] == 0 and gains[job] > 0:
                    lengths[job] = work[job] / throughputs[job, next_type[job], next_size[job]]
            if gains[job] <= 0:
                continue
            if owner < 0:
                owner = job
                continue
            # The winner so far meets each further job, as in the published rule: one pass finds the owner of this step.
            a, b = (owner, job) if lengths[owner] <= lengths[job] else (job, owner)
            longer = prefers_longer(
                throughputs[a, max(gpu_types[a], 0)], sizes[a], gains[a],
                throughputs[b, next_type[b]], next_size[b], gains[b],
            )  # fmt: skip
            owner = b if longer else a
        if owner < 0:
            return gpu_types, sizes
        # A job that changes type gives GPUs back, so other jobs may have better steps now.
        fresh = True
        if sizes[owner] > 0:
            left[gpu_types[owner]] += sizes[owner]
            fresh = gpu_types[owner] == next_type[owner]
        gpu_types[owner], sizes[owner] = next_type[owner], next_size[owner]
        left[gpu_types[owner]] -= sizes[owner]
        lengths[owner] = work[owner] / throughputs[owner, gpu_types[owner], sizes[owner]]
        next_type[owner], next_size[owner], gains[owner] = step_over_types(
            throughputs[owner], gpu_types[owner], sizes[owner], present[owner], left
        )
