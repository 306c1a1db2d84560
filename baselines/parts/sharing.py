"""`marginal_gain.share_out` compiled: the same grants from arrays, for queues of thousands of jobs.

`marginal_gain` is the readable form and the slow twin; a test holds the two equal. Arguments recur: `cost`
float64[num_jobs, num_gpu_types, sizes], `weight` float64[num_jobs], `least` int64[num_jobs, num_gpu_types], `left`
int64[num_gpu_types], and the grants as `kinds` and `sizes`, int64[num_jobs], size 0 for none. Jobs ascend by id.
"""

import numpy as np

from baselines.parts.marginal_gain import NEGLIGIBLE
from envs.simulation.jit import jit
from envs.types import BoolArray, FloatArray, IntArray


def admissible(need: IntArray, room: int) -> BoolArray:
    """bool[num_jobs]: who gets its least size while there is room; who asks for more than is left is passed.

    Args:
        need: int64[num_jobs], fewest GPUs of each job in order of admission; 0 for one that runs on no one type.
        room: GPUs of all types.
    """
    sure = (need > 0) & (np.cumsum(need) <= room)  # as long as everybody fits nobody needs to be looked at one by one
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
    kinds: IntArray,
    sizes: IntArray,
) -> int:
    """Least sizes in order, running jobs on their present type; return how many jobs got theirs."""
    count = 0
    for job in order:
        best = -1
        for kind in range(len(left)):
            if 0 < least[job, kind] <= left[kind]:
                if kind == present[job]:
                    best = kind
                    break
                if best < 0 or cost[job, kind, least[job, kind]] < cost[job, best, least[job, best]]:
                    best = kind
        if best >= 0:
            kinds[job] = best
            sizes[job] = least[job, best]
            left[best] -= sizes[job]
            count += 1
    return count


@jit
def best_step(costs: FloatArray, now: int, left: int) -> tuple[float, int]:
    """The gain per GPU of the best larger size within what is left, and that size; gain 0 if there is none."""
    gain = 0.0
    best = now
    for size in range(now + 1, min(now + left + 1, len(costs))):
        more = (costs[now] - costs[size]) / (size - now)
        if more > gain:
            gain = more
            best = size
    return gain, best


@jit
def grow(cost: FloatArray, weight: FloatArray, left: IntArray, kinds: IntArray, sizes: IntArray) -> None:
    """GPUs of a type to whoever of those on it gains most per GPU, the lowest job among equals, until nobody gains."""
    gains = np.zeros(len(cost))
    steps = np.zeros(len(cost), np.int64)
    for job in range(len(cost)):
        if sizes[job] > 0 and left[kinds[job]] > 0:
            gain, steps[job] = best_step(cost[job, kinds[job]], sizes[job], left[kinds[job]])
            gains[job] = weight[job] * gain
    while len(gains) > 0:
        job = int(np.argmax(gains))
        if gains[job] <= NEGLIGIBLE:
            return
        kind = kinds[job]
        if steps[job] - sizes[job] <= left[kind]:  # else others have taken GPUs that this step was to take
            left[kind] -= steps[job] - sizes[job]
            sizes[job] = steps[job]
        gain, steps[job] = best_step(cost[job, kind], sizes[job], left[kind])
        gains[job] = weight[job] * gain


@jit
def move_one(
    cost: FloatArray, weight: FloatArray, order: IntArray, left: IntArray, kinds: IntArray, sizes: IntArray
) -> bool:
    """Let the job that gains most move to idle GPUs of another type; say whether one did."""
    best_gain = NEGLIGIBLE
    best_job = -1
    best_kind = -1
    best_size = 0
    for job in order:
        for kind in range(len(left)):
            if sizes[job] == 0 or kind == kinds[job] or left[kind] == 0:
                continue
            size = int(np.argmin(cost[job, kind, : left[kind] + 1]))
            saved = cost[job, kinds[job], sizes[job]] - cost[job, kind, size]
            gain = weight[job] * saved if saved > 0 else 0.0  # where it does not run at all it saves -inf
            if gain > best_gain:
                best_gain, best_job, best_kind, best_size = gain, job, kind, size
    if best_job < 0:
        return False
    left[kinds[best_job]] += sizes[best_job]
    left[best_kind] -= best_size
    kinds[best_job] = best_kind
    sizes[best_job] = best_size
    return True


@jit
def share_out_arrays(
    cost: FloatArray, weight: FloatArray, present: IntArray, least: IntArray, order: IntArray, capacity: IntArray
) -> tuple[IntArray, IntArray]:
    """As `marginal_gain.share_out`: least sizes, growth by gain per GPU, moves to idle types.

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
    kinds = np.full(len(cost), -1, np.int64)
    sizes = np.zeros(len(cost), np.int64)
    count = grant_least(cost, present, least, order, left, kinds, sizes)
    grow(cost, weight, left, kinds, sizes)
    for _ in range(4 * count):
        if not move_one(cost, weight, order, left, kinds, sizes):
            break
        grow(cost, weight, left, kinds, sizes)
    return kinds, sizes
