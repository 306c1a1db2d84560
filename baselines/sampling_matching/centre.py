"""The centre of good categories: workers per job by marginal gain if all workers were average."""

import numpy as np

from baselines.sampling_matching.kernels import expected_throughput
from baselines.sampling_matching.problem import Problem
from envs.simulation.jit import jit
from envs.types import IntArray

MOST_WORKERS_PER_SIZE_STEP = 16  # most workers that one step adds


@jit
def expected_seconds(problem: Problem, job: int, size: int) -> float:
    """Weighted seconds to a job's end on `size` average workers; infinite where it does not run on that many."""
    gang_throughput = expected_throughput(problem, job, size)
    if gang_throughput <= 0.0:
        return np.inf
    overhead = problem.overhead[job, min(size, problem.overhead.shape[1] - 1)]
    return float(problem.weight[job] * (problem.work[job] / gang_throughput + overhead))


@jit
def _step(problem: Problem, job: int, size: int, left: int) -> tuple[float, int]:
    """The largest gain per worker of a job's next step, and the step's workers; 0 workers if there is no step."""
    now, gain, best = expected_seconds(problem, job, size), -np.inf, 0
    for more in range(1, min(left, problem.most[job] - size, MOST_WORKERS_PER_SIZE_STEP) + 1):
        then = expected_seconds(problem, job, size + more)
        if then < np.inf and (now - then) / more > gain:
            gain, best = (now - then) / more, more
    return gain, best


@jit
def expected_sizes(problem: Problem, workers: int) -> IntArray:
    """int64[num_jobs]: sizes by repeated steps of the job that gains most per worker, the lowest job among equals.

    All workers are assigned as far as the jobs' ranges allow, even if no job gains. Where seconds are convex in the
    size, as with cheap communication, no other category is better for average workers.

    Args:
        problem: the matching problem.
        workers: number of workers to assign, `Problem.assigned`.
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
        if steps[job] <= left:  # else the workers of this step have been taken
            sizes[job] += steps[job]
            left -= steps[job]
        gains[job], steps[job] = _step(problem, job, sizes[job], left)
    return sizes
