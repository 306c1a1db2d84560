"""A lower bound by prices, for problems too large for any certificate.

Workers are let at a price per kind instead of handed out. Then no job stands in another's way, each takes what is
cheapest for it, and time plus rent less the rent of all workers is at most what any plan is worth (Lagrangian
relaxation; Geoffrion 1974).
"""

import numpy as np
from scipy.optimize import linprog

from baselines.sampling_matching.problem import Problem
from envs.simulation.jit import jit
from envs.types import FloatArray, MurmurationError

TOLERANCE = 1e-6  # of a plan's worth: planes and bound that differ by less agree


@jit
def cheapest(problem: Problem, job: int, size: int, prices: FloatArray, wanted: FloatArray) -> float:
    """The least of weighted time and rent for a job on so many workers, fractions of a worker allowed.

    Time is convex in speed, so at most two kinds are mixed, at the point where the slopes of time and rent agree.

    Args:
        problem: the paper's model: rates by job and kind.
        job: the job.
        size: its workers in all.
        prices: float64[num_kinds].
        wanted: float64[num_kinds], written: the workers of each kind at the least.
    """
    scale = problem.weight[job] * problem.work[job]
    rates = problem.rates[job, 0, 0]
    least = np.inf
    wanted[:] = 0.0
    for one in range(len(prices)):
        for other in range(len(prices)):
            if rates[one] <= 0.0 or rates[other] < rates[one]:
                continue
            part = 0.0  # workers of the other, faster kind
            if rates[other] > rates[one]:
                slope = (prices[other] - prices[one]) / (rates[other] - rates[one])
                speed = np.sqrt(scale / slope) if slope > 0.0 else np.inf
                part = (speed - size * rates[one]) / (rates[other] - rates[one])
                part = min(max(part, 0.0), size)
            speed = (size - part) * rates[one] + part * rates[other]
            cost = scale / speed + (size - part) * prices[one] + part * prices[other]
            if cost < least:
                least = cost
                wanted[:] = 0.0
                wanted[one] += size - part
                wanted[other] += part
    return least + float(problem.weight[job] * problem.overhead[job, min(size, problem.overhead.shape[1] - 1)])


@jit
def relaxed(problem: Problem, prices: FloatArray, wanted: FloatArray) -> float:
    """The bound at given prices; `wanted`, float64[num_kinds], is written with what all jobs together take."""
    value = 0.0
    wanted[:] = 0.0
    here = np.empty(len(prices))
    best_here = np.empty(len(prices))
    for kind in range(len(prices)):
        value -= prices[kind] * problem.supply[kind]
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
    """A lower bound of every plan's worth, by the best prices that cutting planes find (Kelley 1960).

    The bound is concave in the prices; each evaluation tells a plane above it, and the next prices are where the planes
    so far allow most.

    Args:
        problem: the paper's model.
        worth: that of a plan, which sets the scale of prices and ends the search where the bound reaches it.
        steps: evaluations at most; any number of them gives a valid bound.

    Raises:
        MurmurationError: rates depend on the gang's size.
    """
    if problem.rates.shape[1:3] != (1, 1):
        raise MurmurationError("price bound: holds the paper's model only: rates by job and kind")
    kinds = len(problem.supply)
    far = 100.0 * worth / problem.num_workers
    rents = problem.may_idle or problem.assigned < problem.num_workers  # then nobody is paid for taking a worker
    box = [(0.0 if rents else -far, far)] * kinds + [(None, worth)]
    prices, wanted = np.zeros(kinds), np.zeros(kinds)
    planes: list[FloatArray] = []
    limits: list[float] = []
    best = -np.inf
    for _ in range(steps):
        value = relaxed(problem, prices, wanted)
        best = max(best, value)
        excess = wanted - problem.supply
        planes.append(np.append(-excess, 1.0))  # bound <= value + excess (prices' - prices)
        limits.append(value - float(excess @ prices))
        found = linprog(np.append(np.zeros(kinds), -1.0), np.array(planes), limits, bounds=box)
        if found.x is None or found.fun is None or -found.fun - best <= TOLERANCE * worth:
            break
        prices = found.x[:kinds]
    return best
