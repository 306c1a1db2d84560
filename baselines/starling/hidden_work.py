"""Kernels that estimate hidden remaining work from the jobs that have run so far in this episode.

Jobs that have ended tell how long jobs run. Jobs that have not ended tell that they run longer than they have. The
product-limit estimator of the distribution of run times uses both (Kaplan and Meier, "Nonparametric estimation from
incomplete observations", JASA 1958). A few jobs of a prior distribution count as further jobs that have ended, so that
an estimate exists from the first job on.

Run times are in seconds on the requested GPUs: GPU-seconds received over GPUs requested. This counts a GPU-second alike
on any number of GPUs, and pauses like work. It is all that the view shows.
"""

import math

import numpy as np

from envs.simulation.compiled.jit import inlined
from envs.types import BoolArray, FloatArray, IntArray, Seconds

NUM_QUANTILES = 8  # jobs of the prior
NORMAL_QUANTILES = (-1.53412, -0.88715, -0.48878, -0.15731, 0.15731, 0.48878, 0.88715, 1.53412)  # at 1/16, 3/16, ...
LEAST_SURVIVAL = 1e-9  # a smaller share of jobs that run so long is rounding
LEAST_TIME = 1.0  # seconds; no job is assumed to end sooner


@inlined
def survival(ran: FloatArray, ended: BoolArray, median: Seconds, spread: float) -> tuple[FloatArray, FloatArray]:
    """Estimate the share of jobs that run longer than a time, by the product-limit estimator.

    Args:
        ran: float64[num_jobs], seconds that each job has run.
        ended: bool[num_jobs], whether that was all; if not, the job will run longer.
        median: median of the prior, seconds.
        spread: standard deviation of the logarithm of the prior, which is log-normal.

    Returns:
        float64[n], the times at which jobs have ended, ascending, and float64[n], the share of jobs that run longer.
        Times may repeat.
    """
    num_jobs = len(ran)
    times, ends = np.empty(num_jobs + NUM_QUANTILES), np.ones(num_jobs + NUM_QUANTILES, np.bool_)
    times[:num_jobs], ends[:num_jobs] = ran, ended
    for place in range(NUM_QUANTILES):
        times[num_jobs + place] = median * math.exp(spread * NORMAL_QUANTILES[place])
    ended_at, open_at = np.sort(times[ends]), np.sort(times[~ends])
    share, left = np.empty(len(ended_at)), 1.0
    gone = 0  # jobs without an end that have run for less than this time
    for place in range(len(ended_at)):
        while gone < len(open_at) and open_at[gone] < ended_at[place]:
            gone += 1
        at_risk = len(times) - place - gone
        left *= 1.0 - 1.0 / at_risk
        share[place] = left
    return ended_at, share


@inlined
def time_for_an_end(ran: Seconds, times: FloatArray, share: FloatArray, residual: float) -> Seconds:
    """Return the least time that must be spent on a job for each end: the inverse of its Gittins index.

    If a job that has run for some time is run for at most x more, it ends with probability p(x) and takes e(x) on
    average. The least e(x) / p(x) is the time to compare jobs by: with equal distributions and one machine, the mean
    completion time is least if the job with the least value runs (Gittins, "Bandit processes and dynamic allocation
    indices", JRSS B 1979; Sevcik, "Scheduling for minimum total loss using service time distributions", JACM 1974).
    With known work it is the remaining time.

    Args:
        ran: seconds that the job has run.
        times: as returned by `survival`.
        share: likewise.
        residual: a job that has run longer than all that have ended is assumed to need so many times its time more.
    """
    place = int(np.searchsorted(times, ran, side="right"))
    alive = share[place - 1] if place > 0 else 1.0
    if place == len(times) or alive <= LEAST_SURVIVAL:
        return max(LEAST_TIME, residual * ran)
    best, spent, last, running = np.inf, 0.0, ran, 1.0
    for later in range(place, len(times)):
        spent += (times[later] - last) * running
        last, running = times[later], share[later] / alive
        if running < 1.0:
            best = min(best, spent / (1.0 - running))
    return max(LEAST_TIME, best)


@inlined
def guess_seconds(
    ran: FloatArray, ended: BoolArray, jobs: IntArray, median: Seconds, spread: float, residual: float
) -> FloatArray:
    """float64[len(jobs)]: seconds that jobs are assumed to need on their requested GPUs; see `time_for_an_end`.

    Args:
        ran: as for `survival`, of all jobs submitted so far.
        ended: likewise.
        jobs: int64[num_guessed], the jobs to guess.
        median: as for `survival`.
        spread: likewise.
        residual: as for `time_for_an_end`.
    """
    times, share = survival(ran, ended, median, spread)
    seconds = np.empty(len(jobs))
    for place in range(len(jobs)):
        if place > 0 and ran[jobs[place]] == ran[jobs[place - 1]]:  # as for most jobs of a long queue
            seconds[place] = seconds[place - 1]
        else:
            seconds[place] = time_for_an_end(ran[jobs[place]], times, share, residual)
    return seconds
