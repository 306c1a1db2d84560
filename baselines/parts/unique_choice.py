"""Find the best choice of `choosing` without a solver, where it is ahead of all others by a margin.

Prices bound what a choice can save, and leave few options open (see `baselines.parts.prices`). A dynamic program over
the GPUs that are left then finds the best two choices. If they differ by more than a solver's tolerances, every solver
ends with the first one. So this gives the same choice as HiGHS, in a fraction of its time. Otherwise the solver has to
decide, since it breaks ties in its own way.
"""

import numpy as np

from baselines.parts.options import Options
from envs.simulation.compiled.jit import jit
from envs.types import BoolArray, FloatArray, IntArray

MARGIN = 10.0  # multiple of the solver's tolerance by which the best choice must be ahead
LEAST_GAP = 1e-6  # the absolute gap of HiGHS, for a program whose largest saving is 1
STEPS = 200  # of the search for prices
PATIENCE = 8  # steps without improvement after which the steps become shorter
FIRST_BUDGET = 1 / 16  # part of the gap between bound and known choice by which options may lose at first
GROWTH = 4.0  # of the budget while no choice fits
MOST_WORK = 3_000_000  # additions of the dynamic program; a larger one is left to the solver


def unique_choice(options: Options, capacity: IntArray, gap: float) -> IntArray | None:
    """Return the best choice, int64[num_jobs] (-1 for none).

    It is None if another choice is nearly as good, or if the program is too large to tell.

    Args:
        options: the options.
        capacity: int64[num_gpu_types].
        gap: relative gap up to which the solver does not distinguish choices.
    """
    num_jobs, scale = len(options.idle), float(np.abs(options.saving).max(initial=0.0))
    if not 0 < scale < np.inf or capacity.min() < 0:
        return None
    # An option larger than the cluster is in no choice. Savings are scaled as for the solver, whose gap is absolute.
    kept = np.flatnonzero(options.num_gpus <= capacity[options.gpu_type])
    none = np.zeros(num_jobs, np.int64)  # no GPUs is an option too, the last one of each job
    job = np.concatenate([options.job[kept], np.arange(num_jobs)])
    order = np.argsort(job, kind="stable")
    ahead, picked = best_of_two(
        np.searchsorted(job[order], np.arange(num_jobs + 1)),
        np.concatenate([options.gpu_type[kept], none])[order],
        np.concatenate([options.num_gpus[kept], none])[order],
        np.concatenate([options.saving[kept] / scale, np.zeros(num_jobs)])[order],
        np.asarray(capacity, dtype=np.int64),
        MARGIN * max(gap, LEAST_GAP),
    )
    return np.concatenate([kept, none - 1])[order[picked]] if ahead else None


@jit
def best_of_two(
    first: IntArray, gpu_type: IntArray, num_gpus: IntArray, saving: FloatArray, capacity: IntArray, tolerance: float
) -> tuple[bool, IntArray]:
    """Compute the best choice, and whether it saves more than all others by the tolerance.

    Args:
        first: int64[num_jobs + 1], place of the first option of each job in the next arrays, and their length.
        gpu_type: int64[num_options].
        num_gpus: int64[num_options], each at most the capacity; the last option of each job has 0.
        saving: float64[num_options].
        capacity: int64[num_gpu_types].
        tolerance: the margin, times the larger of 1 and the saving of the best choice.

    Returns:
        Whether the choice is known and ahead, and int64[num_jobs], the option of each job; no meaning if it is not.
    """
    # A known choice below and prices above enclose the best saving: most options then lose too much to be part of it.
    least = save_greedily(first, gpu_type, num_gpus, saving, capacity)
    bound, loss = tightest_bound(first, gpu_type, num_gpus, saving, capacity, least)
    bound = max(bound, least)  # rounding
    margin, budget = tolerance * max(bound, 1.0), (bound - least) * FIRST_BUDGET
    while True:
        # A choice with an option that loses more saves less than `bound - budget`.
        known, saved, second, chosen = best_within(first, gpu_type, num_gpus, saving, capacity, loss <= budget)
        if not known:
            return False, chosen
        least = max(least, saved)
        # Within this budget no choice is missed that comes within the margin of the best one.
        if budget >= bound - least + margin:
            return saved - second > margin, chosen
        # With a better choice known, the budget that misses nothing is small. With none, more options are needed.
        budget = bound - least + margin if saved > -np.inf else GROWTH * budget + margin


@jit
def best_within(
    first: IntArray, gpu_type: IntArray, num_gpus: IntArray, saving: FloatArray, capacity: IntArray, near: BoolArray
) -> tuple[bool, float, float, IntArray]:
    """Find the best two of the choices that consist of some options.

    Args:
        first: as for `best_of_two`, like the next four.
        gpu_type: int64[num_options].
        num_gpus: int64[num_options].
        saving: float64[num_options].
        capacity: int64[num_gpu_types].
        near: bool[num_options], the options to consider, at least one of each job.

    Returns:
        Whether the work was within the limit, what the best and the second best choice save (-inf if none fits), and
        int64[num_jobs], the option of each job in the best one.
    """
    chosen, left, states, work = np.full(len(first) - 1, -1), capacity.copy(), 1, 0
    several = np.zeros(len(chosen), np.bool_)
    settled = 0.0
    # A job with one option left needs no search: its GPUs and saving are settled, which makes the program smaller.
    for job in range(len(chosen)):
        found = np.flatnonzero(near[first[job] : first[job + 1]])
        several[job] = len(found) > 1
        if several[job]:
            work += len(found)
            continue
        chosen[job] = first[job] + found[0]
        left[gpu_type[chosen[job]]] -= num_gpus[chosen[job]]
        settled += saving[chosen[job]]
    if left.min() < 0:
        return True, -np.inf, -np.inf, chosen
    # The program has a state for each number of GPUs by type, so its size is known before memory is taken for it.
    for gpus in left:
        states *= gpus + 1
        if states * work > MOST_WORK:
            return False, -np.inf, -np.inf, chosen
    jobs = np.flatnonzero(several)
    best, second = best_two_sums(jobs, first, gpu_type, num_gpus, saving, near, left)
    if best[0, -1] > -np.inf:
        trace_best(jobs, first, gpu_type, num_gpus, saving, near, left, best, chosen)
    return True, settled + best[0, -1], settled + second, chosen


@jit
def save_greedily(
    first: IntArray, gpu_type: IntArray, num_gpus: IntArray, saving: FloatArray, capacity: IntArray
) -> float:
    """Return what a choice saves that takes options in order of saving per GPU; arguments as for `best_of_two`."""
    total, left = 0.0, capacity.copy()
    taken, owner = np.zeros(len(first) - 1, np.bool_), np.zeros(len(saving), np.int64)
    for job in range(len(taken)):
        owner[first[job] : first[job + 1]] = job
    # A good choice found quickly is enough: the closer to the best, the more options the bound rules out.
    for option in np.argsort(-saving / np.maximum(num_gpus, 1), kind="mergesort"):
        if saving[option] <= 0:
            break
        if not taken[owner[option]] and num_gpus[option] <= left[gpu_type[option]]:
            taken[owner[option]] = True
            left[gpu_type[option]] -= num_gpus[option]
            total += saving[option]
    return total


@jit
def tightest_bound(
    first: IntArray, gpu_type: IntArray, num_gpus: IntArray, saving: FloatArray, capacity: IntArray, least: float
) -> tuple[float, FloatArray]:
    """Search prices of GPUs that bound the saving of all choices, by Polyak's subgradient steps.

    Args:
        first: as for `best_of_two`, like the next four.
        gpu_type: int64[num_options].
        num_gpus: int64[num_options].
        saving: float64[num_options].
        capacity: int64[num_gpu_types].
        least: what a known choice saves.

    Returns:
        The bound, and float64[num_options], by how much less than the bound a choice with this option must save.
    """
    prices, best_at = np.zeros(len(capacity)), np.zeros(len(capacity))
    bound, length, failed = np.inf, 1.0, 0
    for _ in range(STEPS):
        # At given prices each job takes its best option alone. With the prices of all GPUs, that bounds every choice.
        total, excess = 0.0, -capacity
        for job in range(len(first) - 1):
            most, pick = -np.inf, 0
            for option in range(first[job], first[job + 1]):
                net = saving[option] - prices[gpu_type[option]] * num_gpus[option]
                if net > most:
                    most, pick = net, option
            total += most
            excess[gpu_type[pick]] += num_gpus[pick]
        for one in range(len(capacity)):
            total += prices[one] * capacity[one]
        # Steps overshoot, so the least bound is kept with its prices, not the last one.
        failed += 1
        if total < bound:
            bound, failed = total, 0
            best_at[:] = prices
        # A price of 0 cannot fall, so GPUs that are not in demand at that price do not count in the step's length.
        norm = 0.0
        for one in range(len(capacity)):
            if excess[one] > 0 or prices[one] > 0:
                norm += excess[one] ** 2
        # The prices clear the market, or the bound has met the known choice: it cannot become tighter.
        if norm == 0 or total <= least:
            break
        # Steps are too long where none of them helps: go back and take shorter ones.
        if failed == PATIENCE:
            length, failed = length / 2, 0
            prices[:] = best_at
            continue
        for one in range(len(capacity)):
            prices[one] = max(prices[one] + length * (total - least) / norm * excess[one], 0.0)
    # An option is worse than its job's best one at these prices; every choice with it is as much below the bound.
    loss = saving - best_at[gpu_type] * num_gpus
    for job in range(len(first) - 1):
        loss[first[job] : first[job + 1]] = loss[first[job] : first[job + 1]].max() - loss[first[job] : first[job + 1]]
    return bound, loss


@jit
def best_two_sums(
    jobs: IntArray,
    first: IntArray,
    gpu_type: IntArray,
    num_gpus: IntArray,
    saving: FloatArray,
    near: BoolArray,
    left: IntArray,
) -> tuple[FloatArray, float]:
    """Compute the savings of the best and the second best choice of some jobs for all numbers of GPUs.

    Args:
        jobs: int64[n], the jobs.
        first: as for `best_of_two`, like the next three.
        gpu_type: int64[num_options].
        num_gpus: int64[num_options].
        saving: float64[num_options].
        near: bool[num_options], the options to consider.
        left: int64[num_gpu_types], GPUs for these jobs.

    Returns:
        float64[n + 1, states], the most that the jobs from each place on save with at most the GPUs of a state; and
        what the second best choice of all of them saves with all GPUs. States are numbers of GPUs by type in Fortran
        order, so the last one is all GPUs.
    """
    stride = np.ones(len(left) + 1, np.int64)
    stride[1:] = np.cumprod(left + 1)
    best = np.full((len(jobs) + 1, stride[-1]), -np.inf)
    best[-1] = 0.0
    # The best choice is traced back later and needs a row for each job. Of the second best only the sum is needed.
    behind, now = np.full(stride[-1], -np.inf), np.empty(stride[-1])
    for place in range(len(jobs) - 1, -1, -1):
        most, after = best[place], best[place + 1]
        now[:] = -np.inf
        for option in range(first[jobs[place]], first[jobs[place] + 1]):
            if not near[option]:
                continue
            step, block = stride[gpu_type[option]], stride[gpu_type[option] + 1]
            # States below `taken` in a block have too few GPUs of this type for the option.
            taken = num_gpus[option] * step
            for begin in range(0, stride[-1], block):
                for state in range(begin + taken, begin + block):
                    # A second choice may differ in this option or in a later job, so both sums compete for its place.
                    reached, other = after[state - taken] + saving[option], behind[state - taken] + saving[option]
                    if reached > most[state]:
                        now[state] = max(most[state], other)
                        most[state] = reached
                    elif reached > now[state]:
                        now[state] = reached
        behind, now = now, behind
    return best, behind[-1]


@jit
def trace_best(
    jobs: IntArray,
    first: IntArray,
    gpu_type: IntArray,
    num_gpus: IntArray,
    saving: FloatArray,
    near: BoolArray,
    left: IntArray,
    best: FloatArray,
    chosen: IntArray,
) -> None:
    """Write the options of the best choice into `chosen`; arguments as for `best_two_sums`, and its result."""
    stride = np.ones(len(left) + 1, np.int64)
    stride[1:] = np.cumprod(left + 1)
    state, free = stride[-1] - 1, left.copy()
    for place in range(len(jobs)):
        for option in range(first[jobs[place]], first[jobs[place] + 1]):
            # The same additions made both sums, so the option of the best choice is found by exact comparison.
            before = state - num_gpus[option] * stride[gpu_type[option]]
            if (
                near[option]
                and num_gpus[option] <= free[gpu_type[option]]
                and best[place + 1, before] + saving[option] == best[place, state]
            ):
                chosen[jobs[place]] = option
                free[gpu_type[option]] -= num_gpus[option]
                state = before
                break
