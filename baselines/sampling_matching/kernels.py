"""The compiled core of matching: a matching's worth, the assignment of one category, and a loop over many categories.

Kernels take a `problem.Problem`. `counts` is int64[num_jobs, num_types], workers of each type for each job; `sizes`,
int64[num_jobs], is a category: the number of workers of each job.
"""

import numpy as np

from baselines.parts.ties import CLOSE, less
from baselines.sampling_matching.problem import Problem
from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, IntArray


@jit
def seconds(problem: Problem, job: int, counts: IntArray) -> float:
    """Seconds to a job's end on `counts[job]`; infinite if it cannot run.

    Reference implementation: `problem.compute_completion_seconds`.
    """
    size = 0
    num_types = 0
    for worker_type in range(counts.shape[1]):
        size += int(counts[job, worker_type])
        num_types += int(counts[job, worker_type] > 0)
    if size < problem.least[job] or size > problem.most[job]:
        return np.inf
    # Problems whose throughputs do not depend on mixture or size have a single entry for all of them.
    mix = min(int(num_types > 1), problem.throughputs.shape[1] - 1)
    at = min(size, problem.throughputs.shape[2] - 1)
    gang_throughput = 0.0
    changed = False
    # A job on any other workers than its present ones restarts, whatever their number.
    for worker_type in range(counts.shape[1]):
        changed |= bool(counts[job, worker_type] != problem.present[job, worker_type])
        if counts[job, worker_type] > 0:
            throughput = float(problem.throughputs[job, mix, at, worker_type])
            if throughput <= 0.0:
                return np.inf
            gang_throughput += counts[job, worker_type] * throughput
    total = float(problem.work[job] / gang_throughput + problem.overhead[job, min(size, problem.overhead.shape[1] - 1)])
    return total + (float(problem.restart[job]) if changed else 0.0)


@jit
def total(problem: Problem, counts: IntArray) -> float:
    """Weighted sum of all jobs' seconds. Reference implementation: `problem.objective`."""
    found = 0.0
    for job in range(len(problem.work)):
        found += problem.weight[job] * seconds(problem, job, counts)
    return found


@jit
def throughput_in_category(problem: Problem, job: int, size: int, worker_type: int) -> float:
    """Samples/s of one worker in a gang of `size` workers: of its type alone if it runs so, else of several types."""
    at = min(size, problem.throughputs.shape[2] - 1)
    alone = float(problem.throughputs[job, 0, at, worker_type])
    mixed = float(problem.throughputs[job, problem.throughputs.shape[1] - 1, at, worker_type])
    return alone if alone > 0.0 else mixed


@jit
def clear(values: FloatArray, sizes: IntArray, supply: IntArray, counts: IntArray, prices: FloatArray) -> float:
    """Clear one assignment: find the counts of largest value and prices at which every job prefers what it gets.

    Successive shortest paths over worker types: one more worker for a job may move other jobs from type to type. The
    potentials are clearing prices. Exact, like `scipy.optimize.linear_sum_assignment` with one buyer per
    wanted worker; the number of steps depends on types, not on workers.

    Args:
        values: float64[num_jobs, num_types], worth of one worker; -inf where a job cannot use it.
        sizes: number of workers of each job, of any types.
        supply: int64[num_types].
        counts: written.
        prices: float64[num_types], written: 0 for types with workers left.

    Returns:
        The sum of values; -inf if the jobs cannot be served.
    """
    jobs, num_types = values.shape
    left = supply.copy()
    counts[:] = 0
    prices[:] = 0.0
    distance = np.empty(num_types)
    done = np.empty(num_types, np.bool_)
    via_type = np.empty(num_types, np.int64)
    via_job = np.empty(num_types, np.int64)
    # Each job joins an assignment that is optimal for the jobs before it, so one path per step keeps it optimal.
    for job in range(jobs):
        want = sizes[job]
        while want > 0:
            target = _cheapest_path(values, counts, prices, left, job, distance, done, via_type, via_job)
            if target < 0:
                return -np.inf
            # Each price rises by how much nearer its type is than the target.
            for worker_type in range(num_types):
                if done[worker_type]:
                    prices[worker_type] += distance[target] - distance[worker_type]
            want -= _push(counts, left, target, want, via_type, via_job)
    welfare = 0.0
    for job in range(jobs):
        for worker_type in range(num_types):
            if counts[job, worker_type] > 0:
                welfare += counts[job, worker_type] * values[job, worker_type]
    return welfare


@jit
def _cheapest_path(
    values: FloatArray,
    counts: IntArray,
    prices: FloatArray,
    left: IntArray,
    job: int,
    distance: FloatArray,
    done: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    via_type: IntArray,
    via_job: IntArray,
) -> int:
    """The type with free workers that a job reaches at the least loss by moving others; -1 if there is none."""
    num_types = len(left)
    # Losses against the job's best offer are never negative, so the shortest paths are Dijkstra's.
    utility, rounding = -np.inf, 0.0
    for worker_type in range(num_types):
        utility = max(utility, values[job, worker_type] - prices[worker_type])
        if values[job, worker_type] > -np.inf:
            rounding = max(rounding, CLOSE * (abs(values[job, worker_type]) + prices[worker_type]))
    for worker_type in range(num_types):
        able = values[job, worker_type] > -np.inf
        distance[worker_type] = utility - (values[job, worker_type] - prices[worker_type]) if able else np.inf
        done[worker_type] = False
        via_type[worker_type] = -1
        via_job[worker_type] = job
    while True:
        near = -1
        for worker_type in range(num_types):
            nearer = near < 0 or distance[worker_type] < distance[near] - rounding
            if not done[worker_type] and distance[worker_type] < np.inf and nearer:
                near = worker_type
        # Types are reached by rising loss: the first one with free workers is the cheapest.
        if near < 0 or left[near] > 0:
            return near
        # All workers of this type are taken. The job gets one if a holder moves to another type, at the holder's loss.
        done[near] = True
        for holder in range(len(values)):
            if counts[holder, near] == 0:
                continue
            here = values[holder, near] - prices[near]
            for worker_type in range(num_types):
                if done[worker_type] or values[holder, worker_type] == -np.inf:
                    continue
                # A holder prefers what it has at these prices; a negative loss is rounding.
                further = distance[near] + max(here - (values[holder, worker_type] - prices[worker_type]), 0.0)
                if further < distance[worker_type] - rounding:
                    distance[worker_type] = further
                    via_type[worker_type] = near
                    via_job[worker_type] = holder


@jit
def _push(counts: IntArray, left: IntArray, target: int, want: int, via_type: IntArray, via_job: IntArray) -> int:
    """Move as many workers along the path to `target` as possible; return their number."""
    # Every move on the path is limited by what its holder has there, so the least of them limits the whole path.
    amount = min(want, int(left[target]))
    worker_type = target
    while via_type[worker_type] >= 0:
        amount = min(amount, int(counts[via_job[worker_type], via_type[worker_type]]))
        worker_type = via_type[worker_type]
    # Only the target loses free workers; the types before it on the path exchange one holder for another.
    left[target] -= amount
    worker_type = target
    while worker_type >= 0:
        counts[via_job[worker_type], worker_type] += amount
        if via_type[worker_type] >= 0:
            counts[via_job[worker_type], via_type[worker_type]] -= amount
        worker_type = via_type[worker_type]
    return amount


@jit
def expected_throughput(problem: Problem, job: int, size: int) -> float:
    """Samples/s of a job on `size` average workers; 0 where it runs on no type."""
    found = 0.0
    workers = 0
    for worker_type in range(len(problem.supply)):
        throughput = throughput_in_category(problem, job, size, worker_type)
        # Workers on which the job cannot run are no part of the average that it can expect.
        if throughput > 0.0:
            found += problem.supply[worker_type] * throughput
            workers += problem.supply[worker_type]
    return size * found / max(workers, 1)


@jit
def expected_throughputs(problem: Problem, sizes: IntArray) -> FloatArray:
    """float64[num_jobs]: `expected_throughput` of a category, the start of the assignment's valuation."""
    gang_throughputs = np.zeros(len(sizes))
    for job in range(len(sizes)):
        gang_throughputs[job] = expected_throughput(problem, job, sizes[job])
    return gang_throughputs


@jit
def valuation(problem: Problem, sizes: IntArray, gang_throughputs: FloatArray, plain: bool, values: FloatArray) -> None:
    """Compute the worth of a worker to each job: the seconds that it saves, to first order.

    A job's time is W / R for the sum R of its workers' throughputs, so a worker of throughput r saves r W / R^2. With
    `plain` a worker is worth its throughput, which ignores how long jobs are.
    """
    for job in range(len(sizes)):
        scale = 1.0 if plain else problem.weight[job] * problem.work[job] / max(gang_throughputs[job], 1e-100) ** 2
        for worker_type in range(len(problem.supply)):
            throughput = throughput_in_category(problem, job, sizes[job], worker_type)
            values[job, worker_type] = scale * throughput if throughput > 0.0 else -np.inf


@jit
def realised_throughputs(problem: Problem, sizes: IntArray, counts: IntArray) -> FloatArray:
    """float64[num_jobs]: samples/s of each job on its workers, by `throughput_in_category`."""
    gang_throughputs = np.zeros(len(sizes))
    for job in range(len(sizes)):
        for worker_type in range(len(problem.supply)):
            if counts[job, worker_type] > 0:
                throughput = throughput_in_category(problem, job, sizes[job], worker_type)
                gang_throughputs[job] += counts[job, worker_type] * throughput
    return gang_throughputs


@jit
def match_category(problem: Problem, sizes: IntArray, solves: int, plain: bool, best: IntArray) -> float:
    """Assign the workers of one category by a weighted assignment, revalued by its own outcome.

    Args:
        problem: the matching problem.
        sizes: the category.
        solves: most assignments to clear; each further one values workers at throughputs half way between the last
            valuation and its outcome, until there is no improvement.
        plain: whether jobs value workers by throughput alone.
        best: int64[num_jobs, num_types], written: the best counts found.

    Returns:
        The weighted sum of seconds; infinite if the category cannot be served.
    """
    values = np.empty(best.shape)
    counts = np.empty_like(best)
    prices = np.empty(len(problem.supply))
    # The worth of a worker to a job depends on the job's other workers, which are unknown before the first assignment.
    gang_throughputs = expected_throughputs(problem, sizes)
    found = np.inf
    for _ in range(solves):
        valuation(problem, sizes, gang_throughputs, plain, values)
        if clear(values, sizes, problem.supply, counts, prices) == -np.inf:
            return np.inf
        worth = total(problem, counts)
        # Revaluation has stopped helping.
        if not less(worth, found):
            break
        found = worth
        best[:] = counts
        # Half way only: the outcome depends on the valuation in turn, so full steps may go back and forth.
        gang_throughputs = 0.5 * (gang_throughputs + realised_throughputs(problem, sizes, counts))
    return found


@jit
def unfairness(problem: Problem, counts: IntArray, equal: FloatArray) -> float:
    """1 - Jain's index of completion times relative to `equal`, the times under equal shares.

    Reference implementation: `jain_index`.
    """
    sum_, squares = 0.0, 0.0
    for job in range(len(equal)):
        ratio = seconds(problem, job, counts) / equal[job]
        sum_ += ratio
        squares += ratio * ratio
    return 1.0 - sum_ * sum_ / (len(equal) * squares)


@jit
def match_categories(
    problem: Problem,
    categories: IntArray,
    solves: int,
    plain: bool,
    equal: FloatArray,
    fairness: float,
    best: IntArray,
) -> FloatArray:
    """`match_category` for each row of int64[num_categories, num_jobs].

    Args:
        problem: the matching problem.
        categories: the rows.
        solves: most assignments to clear in each category.
        plain: whether jobs value workers by throughput alone.
        equal: float64[num_jobs], completion times under equal shares; unused if fairness is 0.
        fairness: the score of a category is its worth times 1 + fairness (1 - Jain's index).
        best: int64[num_jobs, num_types], written: the counts of the least score, the first among equals.

    Returns:
        float64[num_categories], scores.
    """
    scores = np.empty(len(categories))
    counts = np.empty_like(best)
    least = np.inf
    for row in range(len(categories)):
        scores[row] = match_category(problem, categories[row], solves, plain, counts)
        # Jain's index costs as much as the worth, so it is left out where it has no weight.
        if fairness > 0.0 and scores[row] < np.inf:
            scores[row] *= 1.0 + fairness * unfairness(problem, counts, equal)
        if less(scores[row], least):
            least = scores[row]
            best[:] = counts
    return scores
