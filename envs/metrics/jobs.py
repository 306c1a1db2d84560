"""What single jobs experienced: pure functions of records (dtype `envs.simulation.result.RECORD`), in their order.

Every function takes any selection of a run's records and answers float64[num_records]. What never happened is
NaN: a job that the end of the run cut off has no completion time, one that never ran has no queueing delay.
Means are taken by `envs.metrics.summary`, which counts such jobs beside them.
"""

import numpy as np
import numpy.typing as npt

from envs.metrics.timeline import departures, jobs_in_system
from envs.simulation.result import RunResult
from envs.types import FloatArray, Seconds

Records = npt.NDArray[np.void]


def job_completion_times(records: Records) -> FloatArray:
    """JCT = finish - submit, in seconds (Tiresias, NSDI'19); NaN for unfinished jobs."""
    return np.asarray(records["finish_time"] - records["submit_time"], dtype=np.float64)


def censored_completion_times(records: Records, end_time: Seconds) -> FloatArray:
    """JCT in seconds, with unfinished jobs cut at the end of the run: for them a lower bound on what it would be."""
    finish = np.where(np.isnan(records["finish_time"]), end_time, records["finish_time"])
    return np.asarray(finish - records["submit_time"], dtype=np.float64)


def queueing_delays(records: Records) -> FloatArray:
    """First start - submit, in seconds (Tiresias, NSDI'19); NaN for jobs that never started.

    Waiting after a preemption is not in it; it is in the JCT.
    """
    return np.asarray(records["start_time"] - records["submit_time"], dtype=np.float64)


def slowdowns(records: Records) -> FloatArray:
    """JCT / ideal duration: how many times longer than alone on the requested GPUs; NaN for unfinished jobs.

    Ideal is the job alone, consolidated, on its fastest GPU type here. An elastic job that got more GPUs than it
    asked for can be below 1.
    """
    return np.asarray(job_completion_times(records) / records["ideal_duration"], dtype=np.float64)


def bounded_slowdowns(records: Records, threshold: Seconds = 10.0) -> FloatArray:
    """max(JCT / max(ideal duration, threshold), 1): slowdown that very short jobs do not dominate.

    Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling" (JSSPP'98), with their 10 s.

    Raises:
        ValueError: the threshold is not positive.
    """
    if not threshold > 0:
        raise ValueError(f"bounded slowdown: threshold is {threshold} s; it must be positive")
    ratio = job_completion_times(records) / np.maximum(records["ideal_duration"], threshold)
    return np.asarray(np.maximum(ratio, 1.0), dtype=np.float64)


def finish_time_fairness(result: RunResult) -> FloatArray:
    """Rho = JCT / time on a fair share of the cluster, of every record; above 1 is worse than under equal sharing.

    Themis (NSDI'20). The fair share is GPUs / N, where N is the time-averaged number of jobs in the
    system while the job was in it (Themis' average contention). A job that asks for no more than that runs at its
    ideal speed; a larger one has all its GPUs for the fraction share / request of the time, as in the isolated
    share of Gavel (OSDI'20):

        time on fair share = ideal duration * max(1, requested GPUs * N / GPUs)

    On a cluster of several GPU types the ideal duration is on the job's fastest, so that rho errs upward there.
    """
    records = result.records
    share = result.cluster.num_gpus / average_contention(result)
    fair = records["ideal_duration"] * np.maximum(1.0, records["num_gpus"] / share)
    return np.asarray(job_completion_times(records) / fair, dtype=np.float64)


def average_contention(result: RunResult) -> FloatArray:
    """float64[num_records]: jobs in the system (itself included), averaged over each job's time in it; at least 1."""
    if not len(result.records):
        return np.empty(0)
    times, number = jobs_in_system(result)
    area = np.concatenate([[0.0], np.cumsum(number[:-1] * np.diff(times))])  # job-seconds until each instant
    come, leave = result.records["submit_time"], departures(result)
    stay = leave - come
    # Where a job came at the very end there is no time to average over: it meets itself.
    met = np.interp(leave, times, area) - np.interp(come, times, area)
    mean: FloatArray = np.divide(met, stay, out=np.ones_like(stay), where=stay > 0)
    return np.maximum(1.0, mean)


def jain_index(values: FloatArray) -> float:
    """(sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything (Jain, Chiu, Hawe, DEC-TR-301, 1984).

    NaN for no values; 1 if all are zero.
    """
    if len(values) == 0:
        return float("nan")
    scale = np.abs(values).max()
    if scale == 0:
        return 1.0
    scaled = values / scale  # so that squares neither overflow nor vanish
    return float(scaled.sum() ** 2 / (len(scaled) * (scaled**2).sum()))
