"""Share out GPUs of several types among elastic jobs by marginal gain, compiled, for queues of thousands of jobs.

A test checks that it agrees with a simple implementation beside the tests. Arguments recur: `cost`
float64[num_jobs, num_gpu_types, sizes], `weight` float64[num_jobs], `least` int64[num_jobs, num_gpu_types], `left`
int64[num_gpu_types], and the grants as `gpu_types` and `sizes`, int64[num_jobs], size 0 for none. Jobs ascend by id.
"""

import numpy as np

from envs.simulation.compiled.jit import jit
from envs.types import BoolArray, FloatArray, IntArray, Seconds

NEGLIGIBLE: Seconds = 1e-9  # smaller gains are rounding


def admissible(need: IntArray, room: int) -> BoolArray:
    """bool[num_jobs]: whether a job gets its least size; jobs are admitted in order, and those that do not fit skipped.

    Args:
        need: int64[num_jobs], fewest GPUs of each job in order of admission; 0 for one that runs on no one type.
        room: GPUs of all types.
    """
    sure = (need > 0) & (np.cumsum(need) <= room)  # up to the first job that does not fit, no loop is needed
    start = int(np.argmin(sure | (need == 0))) if not (sure | (need == 0)).all() else len(need)
    sure[start:] = False
    room -= int(need[:start].sum())
    for place in (start + np.flatnonzero((need[start:] > 0) & (need[start:] <= room))).tolist():
        if need[place] <= room:
            sure[place] = True
            room -= int(need[place])
        if room == 0:
            break
    return sure


@jit
def grant_least(
    cost: FloatArray,
    present: IntArray,
    least: IntArray,
    order: IntArray,
    left: IntArray,
    gpu_types: IntArray,
    sizes: IntArray,
) -> int:
    """Grant least sizes in order, running jobs on their present type; return how many jobs got theirs."""
    count = 0
    for job in order:
        best = -1
        for gpu_type in range(len(left)):
            if 0 < least[job, gpu_type] <= left[gpu_type]:
                if gpu_type == present[job]:
                    best = gpu_type
                    break
                if best < 0 or cost[job, gpu_type, least[job, gpu_type]] < cost[job, best, least[job, best]]:
                    best = gpu_type
        if best >= 0:
            gpu_types[job] = best
            sizes[job] = least[job, best]
            left[best] -= sizes[job]
            count += 1
    return count


@jit
def best_step(costs: FloatArray, now: int, left: int) -> tuple[float, int]:
    """Return the gain per GPU of the best larger size that is available, and that size; gain 0 if there is none."""
    gain = 0.0
    best = now
    for size in range(now + 1, min(now + left + 1, len(costs))):
        more = (costs[now] - costs[size]) / (size - now)
        if more > gain:
            gain = more
            best = size
    return gain, best


@jit
def grow_grants(cost: FloatArray, weight: FloatArray, left: IntArray, gpu_types: IntArray, sizes: IntArray) -> None:
    """Give GPUs of each type to the job on it that gains most per GPU, the lowest of equals, until no job gains."""
    gains = np.zeros(len(cost))
    steps = np.zeros(len(cost), np.int64)
    for job in range(len(cost)):
        if sizes[job] > 0 and left[gpu_types[job]] > 0:
            gain, steps[job] = best_step(cost[job, gpu_types[job]], sizes[job], left[gpu_types[job]])
            gains[job] = weight[job] * gain
    while len(gains) > 0:
        job = int(np.argmax(gains))
        if gains[job] <= NEGLIGIBLE:
            return
        gpu_type = gpu_types[job]
        if steps[job] - sizes[job] <= left[gpu_type]:  # else other jobs have taken GPUs that this step needs
            left[gpu_type] -= steps[job] - sizes[job]
            sizes[job] = steps[job]
        gain, steps[job] = best_step(cost[job, gpu_type], sizes[job], left[gpu_type])
        gains[job] = weight[job] * gain


@jit
def move_one(
    cost: FloatArray, weight: FloatArray, order: IntArray, left: IntArray, gpu_types: IntArray, sizes: IntArray
) -> bool:
    """Move the job that gains most to idle GPUs of another type; return whether one moved."""
    best_gain = NEGLIGIBLE
    best_job = -1
    best_type = -1
    best_size = 0
    for job in order:
        for gpu_type in range(len(left)):
            if sizes[job] == 0 or gpu_type == gpu_types[job] or left[gpu_type] == 0:
                continue
            size = int(np.argmin(cost[job, gpu_type, : left[gpu_type] + 1]))
            saved = cost[job, gpu_types[job], sizes[job]] - cost[job, gpu_type, size]
            gain = weight[job] * saved if saved > 0 else 0.0  # on a type where it does not run it saves -inf
            if gain > best_gain:
                best_gain, best_job, best_type, best_size = gain, job, gpu_type, size
    if best_job < 0:
        return False
    left[gpu_types[best_job]] += sizes[best_job]
    left[best_type] -= best_size
    gpu_types[best_job] = best_type
    sizes[best_job] = best_size
    return True


@jit
def share_out_arrays(
    cost: FloatArray, weight: FloatArray, present: IntArray, least: IntArray, order: IntArray, capacity: IntArray
) -> tuple[IntArray, IntArray]:
    """Share out GPUs: least sizes, growth by gain per GPU, moves to idle types.

    Args:
        cost: seconds to the end by type and GPUs; infinite where a job cannot run.
        weight: importance of a job's seconds.
        present: int64[num_jobs], GPU type of jobs that run, -1 of those that wait.
        least: fewest GPUs by type; 0 where a job cannot run.
        order: int64[num_admitted], jobs that get their least size, in this order: running ones first.
        capacity: int64[num_gpu_types], GPUs of each type.

    Returns:
        Type and number of GPUs for each job; 0 GPUs for a job that gets none.
    """
    left = capacity.copy()
    gpu_types = np.full(len(cost), -1, np.int64)
    sizes = np.zeros(len(cost), np.int64)
    count = grant_least(cost, present, least, order, left, gpu_types, sizes)
    grow_grants(cost, weight, left, gpu_types, sizes)
    for _ in range(4 * count):
        if not move_one(cost, weight, order, left, gpu_types, sizes):
            break
        grow_grants(cost, weight, left, gpu_types, sizes)
    return gpu_types, sizes
