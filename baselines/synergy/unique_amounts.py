"""Find the best amounts of cores and memory without a solver, where they are ahead of all others by a margin.

Groups of jobs that share nodes are small. A search over all their amounts finds the best two choices. If these differ
by more than a solver's tolerances, every solver ends with the first one, so this gives the same amounts as HiGHS, in a
fraction of its time. Otherwise the solver has to decide, since it breaks ties in its own way.
"""

import numpy as np

from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, IntArray

MARGIN = 5.0  # multiple of the solver's gap by which the best choice must be ahead
NEARLY = 1e-3  # cores or GB: a choice that exceeds a limit by less might be feasible to the solver
MOST_STEPS = 100_000  # of the search; a larger one is left to the solver


@jit
def unique_amounts(
    first: IntArray, worth: FloatArray, use: FloatArray, room: FloatArray, gap: float
) -> tuple[bool, IntArray]:
    """Choose one option for each job, of the largest sum of worths within the room.

    Args:
        first: int64[num_jobs + 1], place of the first option of each job in the next arrays, and their length.
        worth: float64[num_options].
        use: float64[num_options, num_limits], what an option takes of each limit; may be negative.
        room: float64[num_limits].
        gap: relative gap up to which the solver does not distinguish choices.

    Returns:
        Whether the choice is known to be ahead of all others, and int64[num_jobs], the option of each job; no meaning
        if it is not.
    """
    num_jobs = len(first) - 1
    # Bounds on the gain and the use of the remaining jobs show early that a branch leads nowhere.
    most, least = _rest(first, worth, use)
    option, chosen = first[:-1].copy(), first[:-1].copy()
    reached, used = np.zeros(num_jobs + 1), np.zeros((num_jobs + 1, len(room)))
    best, second, margin = -np.inf, -np.inf, 0.0
    job, steps = 0, 0
    while job >= 0:
        # All options of this job have been tried with the choices before it: go back to the job before.
        if option[job] == first[job + 1]:
            option[job] = first[job]
            job -= 1
            continue
        steps += 1
        if steps > MOST_STEPS:
            return False, chosen
        one = option[job]
        option[job] += 1
        reached[job + 1], used[job + 1] = reached[job] + worth[one], used[job] + use[one]
        # A branch matters only if it could become the best choice, or show that the best one is not unique.
        total = reached[job + 1] + most[job + 1]
        over = (used[job + 1] + least[job + 1] - room).max()
        if total <= max(second, best - margin) or over > NEARLY:
            continue
        if job < num_jobs - 1:
            job += 1
        elif over > 0 or total <= best:
            # A choice slightly above a limit may be feasible to the solver, so it is a rival, but not the best.
            second = max(second, total)
        else:
            best, second, margin = total, best, MARGIN * gap * max(total, 1.0)
            chosen[:] = option - 1
    return best - second > margin, chosen


@jit
def _rest(first: IntArray, worth: FloatArray, use: FloatArray) -> tuple[FloatArray, FloatArray]:
    """float64[num_jobs + 1] and [num_jobs + 1, num_limits]: the most worth and the least use of the jobs from each."""
    num_jobs, num_limits = len(first) - 1, use.shape[1]
    most, least = np.zeros(num_jobs + 1), np.zeros((num_jobs + 1, num_limits))
    for job in range(num_jobs - 1, -1, -1):
        most[job] = most[job + 1] + worth[first[job] : first[job + 1]].max()
        for limit in range(num_limits):
            least[job, limit] = least[job + 1, limit] + use[first[job] : first[job + 1], limit].min()
    return most, least
