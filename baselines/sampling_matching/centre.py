"""Where good categories lie: how many workers each job would get if all workers were the average one."""

import numpy as np

from baselines.sampling_matching.kernels import expected_speed
from baselines.sampling_matching.problem import Problem
from envs.simulation.jit import jit
from envs.types import IntArray

REACH = 16  # workers that one step adds at most


@jit
def expected_seconds(problem: Problem, job: int, size: int) -> float:
    """Weighted seconds to a job's end on so many average workers; infinite where it does not run on so many."""
    speed = expected_speed(problem, job, size)
    if speed <= 0.0:
        return np.inf
    overhead = problem.overhead[job, min(size, problem.overhead.shape[1] - 1)]
    return float(problem.weight[job] * (problem.work[job] / speed + overhead))


@jit
def _step(problem: Problem, job: int, size: int, left: int) -> tuple[float, int]:
    """The largest gain per worker of a job's next step, and its workers; 0 workers if there is no step."""
    now, gain, best = expected_seconds(problem, job, size), -np.inf, 0
    for more in range(1, min(left, problem.most[job] - size, REACH) + 1):
        then = expected_seconds(problem, job, size + more)
        if then < np.inf and (now - then) / more > gain:
            gain, best = (now - then) / more, more
    return gain, best


@jit
def expected_sizes(problem: Problem, workers: int) -> IntArray:
    """int64[num_jobs]: workers one step after the other to whoever gains most per worker, the lowest among equals.

    All workers are handed out, also where nobody gains by another one, as far as the jobs' ranges allow. Where seconds
    are convex in the size, as where communication is cheap, no other category is better for average workers.

    Args:
        problem: what is to be matched.
        workers: handed out in all, `Problem.assigned`.
    """
    jobs = len(problem.work)
    sizes = problem.least.copy()
    left = workers - sizes.sum()
    gains, steps = np.empty(jobs), np.empty(jobs, np.int64)
    for job in range(jobs):
        gains[job], steps[job] = _step(problem, job, sizes[job], left)
    while left > 0:
        job = int(np.argmax(gains))
        if steps[job] == 0:
            break
        if steps[job] <= left:  # else others have taken workers that this step was to take
            sizes[job] += steps[job]
            left -= steps[job]
        gains[job], steps[job] = _step(problem, job, sizes[job], left)
    return sizes
