"""Compiled descent: workers by marginal gain, then exchanges between jobs while one of them saves time.

Ours, not the paper's. Completion times add up, so the effect of an exchange on one job does not depend on the other
job. The best pair for worker types g and h is the job that loses least by giving g for h, and the job that loses least
by giving h for g. So one step looks at every job once for every pair of types.
"""

import numpy as np

from baselines.parts.ties import first_largest, less
from baselines.sampling_matching.kernels import clear, seconds, throughput_in_category, total
from baselines.sampling_matching.problem import Problem
from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, IntArray

NEGLIGIBLE_SAVING = 1e-12  # of the objective: smaller gains count as rounding
MOST_WORKERS_PER_STEP = 16  # most workers of one type that one step of growth adds
_NONE = -1  # no type (a gift without exchange), or no job (the spare workers)


@jit
def start_least(problem: Problem, counts: IntArray) -> bool:
    """Give every job its least number of workers by an assignment on logarithms of throughputs; return if possible.

    The sum of logarithms is the logarithm of the product of throughputs, which does not depend on jobs' units or sizes.
    """
    jobs, num_types = counts.shape
    values = np.empty((jobs, num_types))
    for job in range(jobs):
        for worker_type in range(num_types):
            throughput = throughput_in_category(problem, job, problem.least[job], worker_type)
            values[job, worker_type] = np.log(throughput) if throughput > 0.0 else -np.inf
    welfare = clear(values, problem.least, problem.supply, counts, np.empty(len(problem.supply)))
    return welfare > -np.inf and total(problem, counts) < np.inf


@jit
def _best_step(problem: Problem, counts: IntArray, left: IntArray, job: int) -> tuple[float, int, int]:
    """The largest weighted gain per worker of a job's next step, its type and its workers; -inf if there is none."""
    size = 0
    for worker_type in range(len(left)):
        size += counts[job, worker_type]
    now = seconds(problem, job, counts)
    gain = -np.inf
    best = _NONE
    amount = 0
    for worker_type in range(len(left)):
        held = counts[job, worker_type]
        for more in range(1, min(left[worker_type], problem.most[job] - size, MOST_WORKERS_PER_STEP) + 1):
            counts[job, worker_type] = held + more
            found = problem.weight[job] * (now - seconds(problem, job, counts)) / more
            if less(gain, found):
                gain, best, amount = found, worker_type, more
        counts[job, worker_type] = held
    return gain, best, amount


@jit
def grow_by_marginal_gain(problem: Problem, counts: IntArray) -> None:
    """Give free workers to the job that gains most per worker; unless workers may idle, give all that fit."""
    jobs = len(counts)
    left = problem.supply - counts.sum(axis=0)
    gains = np.empty(jobs)
    types = np.empty(jobs, np.int64)
    amounts = np.empty(jobs, np.int64)
    for job in range(jobs):
        gains[job], types[job], amounts[job] = _best_step(problem, counts, left, job)
    least = NEGLIGIBLE_SAVING * total(problem, counts) if problem.may_idle else -np.inf
    while jobs > 0:
        job = first_largest(gains)
        if gains[job] <= least:
            return
        if amounts[job] <= left[types[job]]:  # else the workers of this step have been taken
            counts[job, types[job]] += amounts[job]
            left[types[job]] -= amounts[job]
        gains[job], types[job], amounts[job] = _best_step(problem, counts, left, job)


@jit
def shed(problem: Problem, counts: IntArray, need: int) -> bool:
    """Take workers from jobs above their least size, the least loss per worker first, until `need` are free.

    Args:
        problem: the matching problem; its restarts make few jobs shrink much rather than many a little.
        counts: changed in place; jobs without workers stay so.
        need: number of workers to free.

    Returns:
        Whether that many were freed.
    """
    free = np.sum(problem.supply) - np.sum(counts)
    while free < need:
        least, best, best_type, best_amount = np.inf, _NONE, _NONE, 0
        for job in range(len(counts)):
            spare = np.sum(counts[job]) - problem.least[job]
            if spare <= 0:
                continue
            now = seconds(problem, job, counts)
            for worker_type in range(counts.shape[1]):
                for amount in range(1, min(spare, counts[job, worker_type], need - free) + 1):
                    loss = _loss(problem, counts, now, job, worker_type, _NONE, amount) / amount
                    if less(loss, least):
                        least, best, best_type, best_amount = loss, job, worker_type, amount
        if best == _NONE:
            return False
        counts[best, best_type] -= best_amount
        free += best_amount
    return True


@jit
def _loss(problem: Problem, counts: IntArray, now: float, job: int, give: int, take: int, amount: int) -> float:
    """Weighted seconds that a job loses by giving `amount` workers of one type for as many of another."""
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
def _write_losses(problem: Problem, counts: IntArray, job: int, losses: FloatArray) -> None:
    """Compute the losses of a job for every exchange of 1, 2, 4, ... workers.

    Args:
        problem: the matching problem.
        counts: the matching.
        job: the job.
        losses: float64[num_amounts, num_types + 1, num_types + 1, num_jobs]; the job's entries are written. Types given
            and taken are numbered from 1; 0 means none. Infinite for impossible exchanges.
    """
    num_types = counts.shape[1]
    now = seconds(problem, job, counts)
    for power in range(len(losses)):
        for give in range(-1, num_types):
            for take in range(-1, num_types):
                able = take != give and (give < 0 or counts[job, give] >= 2**power)
                loss = _loss(problem, counts, now, job, give, take, 2**power) if able else np.inf
                losses[power, give + 1, take + 1, job] = loss


@jit
def _two_least(losses: FloatArray) -> tuple[float, int, float, int]:
    """The least and second least loss and their jobs; infinite and `_NONE` where there are none."""
    first, second = np.inf, np.inf
    one, other = _NONE, _NONE
    for job in range(len(losses)):
        if less(losses[job], first):
            first, second = losses[job], first
            one, other = job, one
        elif less(losses[job], second):
            second, other = losses[job], job
    return first, one, second, other


@jit
def _best_exchange(problem: Problem, left: IntArray, losses: FloatArray) -> tuple[float, int, int, int, int, int]:
    """The least sum of two partners' losses: (loss, one, other, type that one gives, type it takes, workers)."""
    best = (np.inf, _NONE, _NONE, _NONE, _NONE, 0)
    num_types = len(left)
    for power in range(len(losses)):
        amount = 2**power
        for give in range(-1, num_types):
            for take in range(-1, num_types):
                if give == take:
                    continue
                loss, one, second, runner_up = _two_least(losses[power, give + 1, take + 1])
                # The spare workers are a partner without losses, if they suffice; workers given to them stay idle.
                spare = problem.may_idle if take < 0 else left[take] >= amount
                if spare and less(loss, best[0]):
                    best = (loss, one, _NONE, give, take, amount)
                if give > take or one == _NONE:
                    continue  # the reversed pair is considered, too
                back, other, back_second, other_up = _two_least(losses[power, take + 1, give + 1])
                if one != other and less(loss + back, best[0]):
                    best = (loss + back, one, other, give, take, amount)
                if one == other and less(second + back, best[0]):
                    best = (second + back, runner_up, other, give, take, amount)
                if one == other and less(loss + back_second, best[0]):
                    best = (loss + back_second, one, other_up, give, take, amount)
    return best


@jit
def descend(problem: Problem, counts: IntArray, steps: int) -> int:
    """Make the exchange that saves most until none saves; `counts` is changed in place.

    An exchange is between two jobs, or between a job and the spare workers: 1, 2, 4, ... workers of one type for
    nothing or for as many of another type.

    Args:
        problem: the matching problem.
        counts: a matching under which every job's seconds are finite.
        steps: most exchanges.

    Returns:
        Number of exchanges made.
    """
    jobs, num_types = counts.shape
    left = problem.supply - counts.sum(axis=0)
    powers = 1
    while 2**powers <= np.max(problem.supply):
        powers += 1
    losses = np.empty((powers, num_types + 1, num_types + 1, jobs))
    for job in range(jobs):
        _write_losses(problem, counts, job, losses)
    tolerance = NEGLIGIBLE_SAVING * total(problem, counts)
    for step in range(steps):
        loss, one, other, give, take, amount = _best_exchange(problem, left, losses)
        if not loss < -tolerance:
            return step
        for partner, gives, takes in ((one, give, take), (other, take, give)):
            of = left if partner == _NONE else counts[partner]
            if gives >= 0:
                of[gives] -= amount
            if takes >= 0:
                of[takes] += amount
            if partner != _NONE:
                _write_losses(problem, counts, partner, losses)
    return steps
