"""The companion of sampling: workers by marginal gain, then exchanges between jobs while any of them pays; compiled.

Ours, not the paper's. Completion times add up, so what an exchange does to one partner does not depend on who the other
is: the best pair for kinds g and h is the job that loses least by giving g for h, and the one that loses least by
giving h for g. That makes a step as cheap as looking at every job once for every pair of kinds.
"""

import numpy as np

from baselines.sampling_matching.kernels import clear, rate_in_category, seconds, total
from baselines.sampling_matching.problem import Problem
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray

NEGLIGIBLE = 1e-12  # of the objective: smaller gains are rounding
REACH = 16  # workers of one kind that one step of growth adds at most
NOBODY = -1  # no kind: what a plain gift is exchanged for; no job: the spare workers


@jit
def start_least(problem: Problem, counts: IntArray) -> bool:
    """The least number of workers to every job, by the market on the logarithm of rates; say whether it can be.

    The sum of logarithms is the product of speeds, which no job's unit or size distorts.
    """
    jobs, kinds = counts.shape
    values = np.empty((jobs, kinds))
    for job in range(jobs):
        for kind in range(kinds):
            rate = rate_in_category(problem, job, problem.least[job], kind)
            values[job, kind] = np.log(rate) if rate > 0.0 else -np.inf
    welfare = clear(values, problem.least, problem.supply, counts, np.empty(len(problem.supply)))
    return welfare > -np.inf and total(problem, counts) < np.inf


@jit
def _best_step(problem: Problem, counts: IntArray, left: IntArray, job: int) -> tuple[float, int, int]:
    """The largest weighted gain per worker of one more step for a job, its kind and how many workers; -inf if none."""
    size = 0
    for kind in range(len(left)):
        size += counts[job, kind]
    now = seconds(problem, job, counts)
    gain = -np.inf
    best = NOBODY
    amount = 0
    for kind in range(len(left)):
        held = counts[job, kind]
        for more in range(1, min(left[kind], problem.most[job] - size, REACH) + 1):
            counts[job, kind] = held + more
            found = problem.weight[job] * (now - seconds(problem, job, counts)) / more
            if found > gain:
                gain, best, amount = found, kind, more
        counts[job, kind] = held
    return gain, best, amount


@jit
def grow(problem: Problem, counts: IntArray) -> None:
    """Workers that are left to whoever gains most per worker; all that can be given, unless workers may idle."""
    jobs = len(counts)
    left = problem.supply - counts.sum(axis=0)
    gains = np.empty(jobs)
    kinds = np.empty(jobs, np.int64)
    amounts = np.empty(jobs, np.int64)
    for job in range(jobs):
        gains[job], kinds[job], amounts[job] = _best_step(problem, counts, left, job)
    least = NEGLIGIBLE * total(problem, counts) if problem.may_idle else -np.inf
    while jobs > 0:
        job = int(np.argmax(gains))
        if gains[job] <= least:
            return
        if amounts[job] <= left[kinds[job]]:  # else others have taken workers that this step was to take
            counts[job, kinds[job]] += amounts[job]
            left[kinds[job]] -= amounts[job]
        gains[job], kinds[job], amounts[job] = _best_step(problem, counts, left, job)


@jit
def shed(problem: Problem, counts: IntArray, need: int) -> bool:
    """Take workers off jobs that have more than their least, least loss per worker first, until so many are free.

    Args:
        problem: what is matched; restarts count, so that few jobs shrink much rather than many a little.
        counts: changed in place; jobs without workers are left alone.
        need: workers that shall have no job.

    Returns:
        Whether that many could be freed.
    """
    free = np.sum(problem.supply) - np.sum(counts)
    while free < need:
        least, best, best_kind, best_amount = np.inf, NOBODY, NOBODY, 0
        for job in range(len(counts)):
            spare = np.sum(counts[job]) - problem.least[job]
            if spare <= 0:
                continue
            now = seconds(problem, job, counts)
            for kind in range(counts.shape[1]):
                for amount in range(1, min(spare, counts[job, kind], need - free) + 1):
                    loss = _loss(problem, counts, now, job, kind, NOBODY, amount) / amount
                    if loss < least:
                        least, best, best_kind, best_amount = loss, job, kind, amount
        if best == NOBODY:
            return False
        counts[best, best_kind] -= best_amount
        free += best_amount
    return True


@jit
def _loss(problem: Problem, counts: IntArray, now: float, job: int, give: int, take: int, amount: int) -> float:
    """Weighted seconds that a job loses by giving workers of one kind for as many of another."""
    if give >= 0:
        counts[job, give] -= amount
    if take >= 0:
        counts[job, take] += amount
    loss = float(problem.weight[job]) * (seconds(problem, job, counts) - now)
    if give >= 0:
        counts[job, give] += amount
    if take >= 0:
        counts[job, take] -= amount
    return loss


@jit
def _offer(problem: Problem, counts: IntArray, job: int, losses: FloatArray) -> None:
    """What a job loses by every exchange of 1, 2, 4, ... workers.

    Args:
        problem: what is matched.
        counts: the plan.
        job: whose losses.
        losses: float64[num_amounts, num_kinds + 1, num_kinds + 1, num_jobs], the job's are written: kinds given and
            taken are counted from 1; 0 stands for none. Infinite where it cannot be.
    """
    kinds = counts.shape[1]
    now = seconds(problem, job, counts)
    for power in range(len(losses)):
        for give in range(-1, kinds):
            for take in range(-1, kinds):
                able = take != give and (give < 0 or counts[job, give] >= 2**power)
                loss = _loss(problem, counts, now, job, give, take, 2**power) if able else np.inf
                losses[power, give + 1, take + 1, job] = loss


@jit
def _two_least(losses: FloatArray) -> tuple[float, int, float, int]:
    """The least and second least of losses by job, and whose they are; infinite and nobody's where there are none."""
    first, second = np.inf, np.inf
    one, other = NOBODY, NOBODY
    for job in range(len(losses)):
        if losses[job] < first:
            first, second = losses[job], first
            one, other = job, one
        elif losses[job] < second:
            second, other = losses[job], job
    return first, one, second, other


@jit
def _best_exchange(problem: Problem, left: IntArray, losses: FloatArray) -> tuple[float, int, int, int, int, int]:
    """The least sum of losses of two partners: (loss, one, other, kind that one gives, kind that it takes, workers)."""
    best = (np.inf, NOBODY, NOBODY, NOBODY, NOBODY, 0)
    kinds = len(left)
    for power in range(len(losses)):
        amount = 2**power
        for give in range(-1, kinds):
            for take in range(-1, kinds):
                if give == take:
                    continue
                loss, one, second, runner_up = _two_least(losses[power, give + 1, take + 1])
                # The spare workers are a partner that loses nothing, if it has what is taken; gifts to it lie idle.
                spare = problem.may_idle if take < 0 else left[take] >= amount
                if spare and loss < best[0]:
                    best = (loss, one, NOBODY, give, take, amount)
                if give > take or one == NOBODY:
                    continue  # the pair comes the other way round, too
                back, other, back_second, other_up = _two_least(losses[power, take + 1, give + 1])
                if one != other and loss + back < best[0]:
                    best = (loss + back, one, other, give, take, amount)
                if one == other and second + back < best[0]:
                    best = (second + back, runner_up, other, give, take, amount)
                if one == other and loss + back_second < best[0]:
                    best = (loss + back_second, one, other_up, give, take, amount)
    return best


@jit
def descend(problem: Problem, counts: IntArray, steps: int) -> int:
    """Make the exchange that saves most, again and again, until none saves; `counts` is changed in place.

    An exchange is between two jobs, or a job and the spare workers: some workers of one kind for nothing, or for as
    many of another kind; 1, 2, 4, ... of them at once.

    Args:
        problem: what is matched.
        counts: a plan under which every job's seconds are finite.
        steps: exchanges at most.

    Returns:
        Exchanges made.
    """
    jobs, kinds = counts.shape
    left = problem.supply - counts.sum(axis=0)
    powers = 1
    while 2**powers <= np.max(problem.supply):
        powers += 1
    losses = np.empty((powers, kinds + 1, kinds + 1, jobs))
    for job in range(jobs):
        _offer(problem, counts, job, losses)
    tolerance = NEGLIGIBLE * total(problem, counts)
    for step in range(steps):
        loss, one, other, give, take, amount = _best_exchange(problem, left, losses)
        if not loss < -tolerance:
            return step
        for partner, gives, takes in ((one, give, take), (other, take, give)):
            of = left if partner == NOBODY else counts[partner]
            if gives >= 0:
                of[gives] -= amount
            if takes >= 0:
                of[takes] += amount
            if partner != NOBODY:
                _offer(problem, counts, partner, losses)
    return steps
