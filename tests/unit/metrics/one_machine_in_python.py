"""The bounds of `envs.metrics.one_machine` in plain Python: the reference implementation of its kernels."""

import heapq

import numpy as np

from envs.types import FloatArray, IntArray, Seconds


def total_of_periods(submit_time: FloatArray, alone: FloatArray, seconds: FloatArray) -> Seconds:
    """Sum of the bounds of all busy periods: a lower bound on the sum of JCTs."""
    total = 0.0
    for period in busy_periods(submit_time, seconds):
        submit, least, need = submit_time[period], alone[period], seconds[period]
        shortest = preemptive(submit, need, static=False)[0].sum() - submit.sum()
        total += max(float(least.sum()), float(shortest), busy_date_bound(submit, least, need))
    return total


def busy_periods(submit_time: FloatArray, seconds: FloatArray) -> list[IntArray]:
    """Divide jobs into the busy periods of one machine, in order of submission."""
    order = np.argsort(submit_time, kind="stable")
    begin = submit_time[order]
    done = np.cumsum(seconds[order])
    # The time at which all jobs so far are done, on a machine that is never idle while there is work.
    free_at = np.maximum.accumulate(begin - (done - seconds[order])) + done
    idle_before = np.concatenate([[False], begin[1:] >= free_at[:-1]])
    return [np.asarray(part) for part in np.split(order, np.flatnonzero(idle_before))]


def busy_date_bound(submit_time: FloatArray, alone: FloatArray, seconds: FloatArray) -> Seconds:
    """A lower bound on the sum of JCTs, in seconds, from the throughput limits of both the cluster and each job.

    A job that takes at least `alone` seconds ends no earlier than `alone / 2` after its mean busy date, the average
    time of its work. The sum of mean busy dates on one machine is least if the shortest job, by total length, always
    goes first (Goemans, Queyranne, Schulz, Skutella, Wang 2002, "Single machine scheduling with release dates").
    Without release dates this is the bound of Eastman, Even and Isaacs (1964).
    """
    _, busy_dates = preemptive(submit_time, seconds, static=True)
    return float((busy_dates + alone / 2 - submit_time).sum())


def preemptive(submit_time: FloatArray, seconds: FloatArray, *, static: bool) -> tuple[FloatArray, FloatArray]:
    """Schedule jobs on one machine that always works on the shortest job.

    Args:
        submit_time: float64[num_jobs].
        seconds: float64[num_jobs], run times on the machine.
        static: compare jobs by total length instead of remaining length.

    Returns:
        float64[num_jobs] twice: the end of each job, and the mean time of its work.
    """
    ends, moments = np.zeros(len(seconds)), np.zeros(len(seconds))
    left = seconds.tolist()
    waiting: list[tuple[float, int]] = []
    coming = np.argsort(submit_time, kind="stable").tolist()
    submit = submit_time.tolist()
    now, next_one = 0.0, 0
    while waiting or next_one < len(coming):
        if not waiting:
            now = max(now, submit[coming[next_one]])
        while next_one < len(coming) and submit[coming[next_one]] <= now:
            heapq.heappush(waiting, (left[coming[next_one]], coming[next_one]))
            next_one += 1
        key, job = heapq.heappop(waiting)
        until = submit[coming[next_one]] if next_one < len(coming) else np.inf
        step = min(left[job], until - now)
        moments[job] += step * (now + step / 2)
        now += step
        left[job] -= step
        if left[job] > 0:
            heapq.heappush(waiting, (key if static else left[job], job))
        else:
            ends[job] = now
    mean = np.divide(moments, seconds, out=ends.copy(), where=seconds > 0)
    return ends, mean
