"""The compiled core of matching: a plan's worth, the market of one category, and many categories in a row.

Kernels take a `problem.Problem` whole. `counts` is int64[num_jobs, num_kinds], workers of each kind for each
job; `sizes` int64[num_jobs] is a category: how many workers each job gets.
"""

import numpy as np

from baselines.sampling_matching.problem import Problem
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray


@jit
def seconds(problem: Problem, job: int, counts: IntArray) -> float:
    """Seconds to a job's end on `counts[job]`; infinite where it cannot run so. Twin: `completion_times`."""
    size = 0
    kinds = 0
    for kind in range(counts.shape[1]):
        size += int(counts[job, kind])
        kinds += int(counts[job, kind] > 0)
    if size < problem.least[job] or size > problem.most[job]:
        return np.inf
    mix = min(int(kinds > 1), problem.rates.shape[1] - 1)
    at = min(size, problem.rates.shape[2] - 1)
    speed = 0.0
    changed = False
    for kind in range(counts.shape[1]):
        changed |= bool(counts[job, kind] != problem.present[job, kind])
        if counts[job, kind] > 0:
            rate = float(problem.rates[job, mix, at, kind])
            if rate <= 0.0:
                return np.inf
            speed += counts[job, kind] * rate
    total = float(problem.work[job] / speed + problem.overhead[job, min(size, problem.overhead.shape[1] - 1)])
    return total + (float(problem.restart[job]) if changed else 0.0)


@jit
def total(problem: Problem, counts: IntArray) -> float:
    """Weighted sum of all jobs' seconds. Twin: `problem.objective`."""
    found = 0.0
    for job in range(len(problem.work)):
        found += problem.weight[job] * seconds(problem, job, counts)
    return found


@jit
def rate_in_category(problem: Problem, job: int, size: int, kind: int) -> float:
    """Samples/s of one worker in a gang of so many: alone of its kind, else among several kinds."""
    at = min(size, problem.rates.shape[2] - 1)
    rate = float(problem.rates[job, 0, at, kind])
    return rate if rate > 0.0 else float(problem.rates[job, problem.rates.shape[1] - 1, at, kind])


@jit
def clear(values: FloatArray, sizes: IntArray, supply: IntArray, counts: IntArray, prices: FloatArray) -> float:
    """Clear one market: the counts of largest value, and prices at which every job wants just what it gets.

    Successive shortest paths over the kinds of workers: a unit more for a job may push others from kind to kind. The
    potentials are market-clearing prices. Exact, as is `scipy.optimize.linear_sum_assignment` with a job as so
    many buyers as it wants workers; the steps depend on kinds, not on workers.

    Args:
        values: float64[num_jobs, num_kinds], worth of one worker; -inf where a job cannot use it.
        sizes: how many workers each job takes, of any kinds.
        supply: int64[num_kinds].
        counts: written.
        prices: float64[num_kinds], written: 0 for kinds of which some are left.

    Returns:
        The sum of values; -inf if the jobs cannot be served.
    """
    jobs, kinds = values.shape
    left = supply.copy()
    counts[:] = 0
    prices[:] = 0.0
    distance = np.empty(kinds)
    done = np.empty(kinds, np.bool_)
    via_kind = np.empty(kinds, np.int64)
    via_job = np.empty(kinds, np.int64)
    for job in range(jobs):
        want = sizes[job]
        while want > 0:
            target = _cheapest_path(values, counts, prices, left, job, distance, done, via_kind, via_job)
            if target < 0:
                return -np.inf
            for kind in range(kinds):  # prices rise by as much as the path fell short of the target's distance
                if done[kind]:
                    prices[kind] += distance[target] - distance[kind]
            want -= _push(counts, left, target, want, via_kind, via_job)
    welfare = 0.0
    for job in range(jobs):
        for kind in range(kinds):
            if counts[job, kind] > 0:
                welfare += counts[job, kind] * values[job, kind]
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
    via_kind: IntArray,
    via_job: IntArray,
) -> int:
    """The kind with workers left that a job reaches at least loss, others giving way; -1 if it reaches none."""
    kinds = len(left)
    utility = -np.inf
    for kind in range(kinds):
        utility = max(utility, values[job, kind] - prices[kind])
    for kind in range(kinds):
        able = values[job, kind] > -np.inf
        distance[kind] = utility - (values[job, kind] - prices[kind]) if able else np.inf
        done[kind] = False
        via_kind[kind] = -1
        via_job[kind] = job
    while True:
        near = -1
        for kind in range(kinds):
            if not done[kind] and distance[kind] < np.inf and (near < 0 or distance[kind] < distance[near]):
                near = kind
        if near < 0 or left[near] > 0:
            return near
        done[near] = True
        for holder in range(len(values)):
            if counts[holder, near] == 0:
                continue
            here = values[holder, near] - prices[near]
            for kind in range(kinds):
                if done[kind] or values[holder, kind] == -np.inf:
                    continue
                further = distance[near] + max(here - (values[holder, kind] - prices[kind]), 0.0)
                if further < distance[kind]:
                    distance[kind] = further
                    via_kind[kind] = near
                    via_job[kind] = holder


@jit
def _push(counts: IntArray, left: IntArray, target: int, want: int, via_kind: IntArray, via_job: IntArray) -> int:
    """Move as many workers along the path to `target` as it holds; return how many."""
    amount = min(want, int(left[target]))
    kind = target
    while via_kind[kind] >= 0:
        amount = min(amount, int(counts[via_job[kind], via_kind[kind]]))
        kind = via_kind[kind]
    left[target] -= amount
    kind = target
    while kind >= 0:
        counts[via_job[kind], kind] += amount
        if via_kind[kind] >= 0:
            counts[via_job[kind], via_kind[kind]] -= amount
        kind = via_kind[kind]
    return amount


@jit
def expected_speed(problem: Problem, job: int, size: int) -> float:
    """Samples/s of a job on so many workers of the average kind; 0 where it runs on none."""
    found = 0.0
    workers = 0
    for kind in range(len(problem.supply)):
        rate = rate_in_category(problem, job, size, kind)
        if rate > 0.0:
            found += problem.supply[kind] * rate
            workers += problem.supply[kind]
    return size * found / max(workers, 1)


@jit
def expected_speeds(problem: Problem, sizes: IntArray) -> FloatArray:
    """float64[num_jobs]: `expected_speed` of a category; where the market's valuation begins."""
    speeds = np.zeros(len(sizes))
    for job in range(len(sizes)):
        speeds[job] = expected_speed(problem, job, sizes[job])
    return speeds


@jit
def valuation(problem: Problem, sizes: IntArray, speeds: FloatArray, plain: bool, values: FloatArray) -> None:
    """Worth of a worker to a job that already has `speeds`: the seconds that it saves, to first order.

    A job's time falls with the sum R of its workers' speeds as W / R, so a worker of rate r saves r W / R^2. With
    `plain` it is worth its rate, which is the same to a job of an hour as to one of a minute.
    """
    for job in range(len(sizes)):
        scale = 1.0 if plain else problem.weight[job] * problem.work[job] / max(speeds[job], 1e-100) ** 2
        for kind in range(len(problem.supply)):
            rate = rate_in_category(problem, job, sizes[job], kind)
            values[job, kind] = scale * rate if rate > 0.0 else -np.inf


@jit
def realised_speeds(problem: Problem, sizes: IntArray, counts: IntArray) -> FloatArray:
    """float64[num_jobs]: samples/s of what each job has been given, by `rate_in_category`."""
    speeds = np.zeros(len(sizes))
    for job in range(len(sizes)):
        for kind in range(len(problem.supply)):
            if counts[job, kind] > 0:
                speeds[job] += counts[job, kind] * rate_in_category(problem, job, sizes[job], kind)
    return speeds


@jit
def match_category(problem: Problem, sizes: IntArray, solves: int, plain: bool, best: IntArray) -> float:
    """Who gets which workers in one category, by the weighted market, valued anew by its own outcome.

    Args:
        problem: what is to be matched.
        sizes: the category.
        solves: markets to clear at most; the second and later ones value workers at speeds half way from the last
            ones to what they gave, until that is no better.
        plain: whether jobs value workers by their rates alone.
        best: int64[num_jobs, num_kinds], written: the best counts found.

    Returns:
        The weighted sum of seconds; infinite if the category cannot be served.
    """
    values = np.empty(best.shape)
    counts = np.empty_like(best)
    prices = np.empty(len(problem.supply))
    speeds = expected_speeds(problem, sizes)
    found = np.inf
    for _ in range(solves):
        valuation(problem, sizes, speeds, plain, values)
        if clear(values, sizes, problem.supply, counts, prices) == -np.inf:
            return np.inf
        worth = total(problem, counts)
        if worth >= found:
            break
        found = worth
        best[:] = counts
        speeds = 0.5 * (speeds + realised_speeds(problem, sizes, counts))
    return found


@jit
def unfairness(problem: Problem, counts: IntArray, equal: FloatArray) -> float:
    """1 - Jain's index of completion times relative to `equal`, those under equal shares. Twin: `jain_index`."""
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
        problem: what is to be matched.
        categories: the rows.
        solves: markets to clear in each category at most.
        plain: whether jobs value workers by their rates alone.
        equal: float64[num_jobs], completion times under equal shares; not looked at where fairness is 0.
        fairness: the score of a category is its worth times 1 + fairness (1 - Jain's index).
        best: int64[num_jobs, num_kinds], written: the counts of the least score, the first one among equals.

    Returns:
        float64[num_categories], scores.
    """
    scores = np.empty(len(categories))
    counts = np.empty_like(best)
    least = np.inf
    for row in range(len(categories)):
        scores[row] = match_category(problem, categories[row], solves, plain, counts)
        if fairness > 0.0 and scores[row] < np.inf:
            scores[row] *= 1.0 + fairness * unfairness(problem, counts, equal)
        if scores[row] < least:
            least = scores[row]
            best[:] = counts
    return scores
