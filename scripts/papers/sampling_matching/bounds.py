"""A lower bound from prices, for problems too large for a certified optimum.

Workers are rented at a price per worker type instead of assigned. Then jobs do not compete: each job takes the cheapest
workers for it. Time plus rent, minus the rent of all workers, is at most the worth of any matching (Lagrangian
relaxation; Geoffrion 1974).
"""

import numpy as np
from scipy.optimize import linprog

from baselines.sampling_matching.problem import Problem
from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, MurmurationError

TOLERANCE = 1e-6  # of a matching's worth: the search ends when planes and bound differ by less


@jit
def cheapest(problem: Problem, job: int, size: int, prices: FloatArray, wanted: FloatArray) -> float:
    """The least sum of weighted time and rent for a job on `size` workers, with fractions of workers allowed.

    Time is convex in throughput, so at most two types are mixed, at the point where the slopes of time and rent agree.

    Args:
        problem: the paper's model: throughputs by job and worker type.
        job: the job.
        size: its number of workers.
        prices: float64[num_types].
        wanted: float64[num_types], written: the workers of each type at the minimum.
    """
    scale = problem.weight[job] * problem.work[job]
    throughputs = problem.throughputs[job, 0, 0]
    least = np.inf
    wanted[:] = 0.0
    for one in range(len(prices)):
        for other in range(len(prices)):
            if throughputs[one] <= 0.0 or throughputs[other] < throughputs[one]:
                continue
            part = 0.0  # workers of the other, faster type
            if throughputs[other] > throughputs[one]:
                slope = (prices[other] - prices[one]) / (throughputs[other] - throughputs[one])
                gang_throughput = np.sqrt(scale / slope) if slope > 0.0 else np.inf
                part = (gang_throughput - size * throughputs[one]) / (throughputs[other] - throughputs[one])
                part = min(max(part, 0.0), size)
            gang_throughput = (size - part) * throughputs[one] + part * throughputs[other]
            cost = scale / gang_throughput + (size - part) * prices[one] + part * prices[other]
            if cost < least:
                least = cost
                wanted[:] = 0.0
                wanted[one] += size - part
                wanted[other] += part
    return least + float(problem.weight[job] * problem.overhead[job, min(size, problem.overhead.shape[1] - 1)])


@jit
def relaxed(problem: Problem, prices: FloatArray, wanted: FloatArray) -> float:
    """The bound at given prices; `wanted`, float64[num_types], receives the demand of all jobs."""
    value = 0.0
    wanted[:] = 0.0
    here = np.empty(len(prices))
    best_here = np.empty(len(prices))
    for worker_type in range(len(prices)):
        value -= prices[worker_type] * problem.supply[worker_type]
    for job in range(len(problem.work)):
        best = np.inf
        for size in range(problem.least[job], problem.most[job] + 1):
            cost = cheapest(problem, job, size, prices, here)
            if cost < best:
                best = cost
                best_here[:] = here
        value += best
        wanted += best_here
    return value


def price_bound(problem: Problem, worth: float, steps: int = 100) -> float:
    """A lower bound on every matching's worth, at the best prices that cutting planes find (Kelley 1960).

    The bound is concave in the prices. Each evaluation gives a plane above it, and the next prices maximise the minimum
    of all planes so far.

    Args:
        problem: the paper's model.
        worth: worth of a matching; it sets the scale of prices and ends the search when the bound reaches it.
        steps: most evaluations; any number gives a valid bound.

    Raises:
        MurmurationError: throughputs depend on the gang's size.
    """
    if problem.throughputs.shape[1:3] != (1, 1):
        raise MurmurationError("price bound: works on the paper's model only: throughputs by job and worker type")
    num_types = len(problem.supply)
    far = 100.0 * worth / problem.num_workers
    rents = problem.may_idle or problem.assigned < problem.num_workers  # then no price is negative
    box = [(0.0 if rents else -far, far)] * num_types + [(None, worth)]
    prices, wanted = np.zeros(num_types), np.zeros(num_types)
    planes: list[FloatArray] = []
    limits: list[float] = []
    best = -np.inf
    for _ in range(steps):
        value = relaxed(problem, prices, wanted)
        best = max(best, value)
        excess = wanted - problem.supply
        planes.append(np.append(-excess, 1.0))  # bound <= value + excess (prices' - prices)
        limits.append(value - float(excess @ prices))
        found = linprog(np.append(np.zeros(num_types), -1.0), np.array(planes), limits, bounds=box)
        if found.x is None or found.fun is None or -found.fun - best <= TOLERANCE * worth:
            break
        prices = found.x[:num_types]
    return best
