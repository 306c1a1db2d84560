"""Metrics of single jobs: pure functions of records (dtype `envs.simulation.result.RECORD`), in their order.

Every function takes any selection of a run's records and returns float64[num_records]. Times of events that did not
happen are NaN: an unfinished job has no completion time, and a job that never ran has no time to its start.
`envs.metrics.summary` computes means and counts such jobs separately.
"""

import numpy as np
import numpy.typing as npt

from envs.metrics.timeline import departures, find_waits, jobs_in_system
from envs.simulation.log import EventKind
from envs.simulation.result import RunResult
from envs.types import FloatArray, Seconds

JobRecords = npt.NDArray[np.void]


def job_completion_times(records: JobRecords) -> FloatArray:
    """JCT = finish - submit, in seconds (Tiresias, NSDI'19); NaN for unfinished jobs."""
    return np.asarray(records["finish_time"] - records["submit_time"], dtype=np.float64)


def censored_completion_times(result: RunResult) -> FloatArray:
    """Time in the system in seconds: the JCT, and of unfinished jobs, the time until the end of the run, a lower bound.

    A job that ended at its time limit counts until then.
    """
    return np.asarray(departures(result) - result.records["submit_time"], dtype=np.float64)


def waits(result: RunResult) -> FloatArray:
    """Time without GPUs between entry and end, in seconds, of every record: the sum of all its `find_waits`.

    A job enters the queue when it is submitted, or later if it waits for its begin time or for other jobs.

    It includes the time after a preemption or a failure, and none in which the job starts or restarts on GPUs that it
    holds. So wait + time with GPUs = JCT for a job that entered when it was submitted. Of an unfinished job it is the
    time without GPUs up to the end of the run.
    NaN for jobs whose arrival is not in the log.
    """
    found, events = find_waits(result.log, result.end_time), result.log.events
    seconds = np.full(len(result.workload), np.nan)
    seconds[events["job"][events["kind"] == EventKind.ARRIVE]] = 0.0
    seconds += np.bincount(found["job"], found["end"] - found["start"], minlength=len(seconds))
    return np.asarray(seconds[result.records["job"]])


def times_to_start(records: JobRecords) -> FloatArray:
    """First start - submit, in seconds; NaN for jobs that never started. It is the first part of a job's wait."""
    return np.asarray(records["start_time"] - records["submit_time"], dtype=np.float64)


def slowdowns(records: JobRecords) -> FloatArray:
    """JCT / ideal duration: how many times longer than alone on the requested GPUs; NaN for unfinished jobs.

    The ideal duration is that of the job alone, consolidated, on its fastest GPU type in the cluster, or where no type
    has so many GPUs, on several. An elastic job that received more GPUs than it requested can be below 1.
    """
    return np.asarray(job_completion_times(records) / records["ideal_duration"], dtype=np.float64)


def bounded_slowdowns(records: JobRecords, threshold: Seconds = 10.0) -> FloatArray:
    """max(JCT / max(ideal duration, threshold), 1): a slowdown that very short jobs do not dominate.

    Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling" (JSSPP'98), with their threshold of
    10 s.

    Raises:
        ValueError: the threshold is not positive.
    """
    if not threshold > 0:
        raise ValueError(f"bounded slowdown: threshold is {threshold} s; it must be positive")
    ratio = job_completion_times(records) / np.maximum(records["ideal_duration"], threshold)
    return np.asarray(np.maximum(ratio, 1.0), dtype=np.float64)


def finish_time_fairness(result: RunResult) -> FloatArray:
    """Rho = JCT / time on a fair share of the cluster, of every record; above 1 is worse than equal sharing.

    Themis (NSDI'20). The fair share is GPUs / N, where N is the time-averaged number of jobs in the system while the
    job was in it (Themis' average contention). A job that requests at most its fair share runs at its ideal throughput.
    A larger job has all its GPUs for the fraction share / request of the time, as in the isolated share of Gavel
    (OSDI'20):

        time on fair share = ideal duration * max(1, requested GPUs * N / GPUs)

    On a cluster of several GPU types the ideal duration is on the job's fastest type, so rho is overestimated there.
    """
    records = result.records
    share = result.cluster.num_gpus / average_contention(result)
    fair = records["ideal_duration"] * np.maximum(1.0, records["num_gpus"] / share)
    return np.asarray(job_completion_times(records) / fair, dtype=np.float64)


def average_contention(result: RunResult) -> FloatArray:
    """float64[num_records]: jobs in the system (the job included), averaged over the job's time in it; at least 1."""
    if not len(result.records):
        return np.empty(0)
    times, number = jobs_in_system(result)
    area = np.concatenate([[0.0], np.cumsum(number[:-1] * np.diff(times))])  # job-seconds until each time
    come, leave = result.records["submit_time"], departures(result)
    stay = leave - come
    # A job submitted at the very end has no time to average over; it counts as alone.
    met = np.interp(leave, times, area) - np.interp(come, times, area)
    mean: FloatArray = np.divide(met, stay, out=np.ones_like(stay), where=stay > 0)
    return np.maximum(1.0, mean)


def jain_index(values: FloatArray) -> float:
    """(sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything (Jain, Chiu, Hawe, DEC-TR-301, 1984).

    NaN if there are no values; 1 if all are zero.
    """
    if len(values) == 0:
        return float("nan")
    scale = np.abs(values).max()
    if scale == 0:
        return 1.0
    scaled = values / scale  # so that squares neither overflow nor vanish
    return float(scaled.sum() ** 2 / (len(scaled) * (scaled**2).sum()))
