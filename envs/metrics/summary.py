"""The summary of a run in one row of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from envs.metrics import cluster as cluster_metrics
from envs.metrics import jobs as job_metrics
from envs.metrics.timeline import departures
from envs.simulation.result import RunResult
from envs.types import FloatArray, IntArray, Seconds

SUM = {"over_workloads": "sum"}  # how to merge the figures of several runs; the default is the mean
MAX = {"over_workloads": "max"}


@dataclass(frozen=True, slots=True)
class Summary:
    """The metrics of one run. Times are in seconds; NaN where there was nothing to measure.

    Means and percentiles of jobs are taken over the compared jobs: measured jobs that finished under every scheduler of
    the comparison. The number of unfinished jobs is reported as well, because a mean over finished jobs alone favours
    schedulers that starve jobs.
    """

    num_measured: int = field(metadata=SUM)  # jobs submitted in the measurement window
    num_unfinished: int = field(metadata=SUM)  # of these, cut off by the end of the run
    num_compared: int = field(metadata=SUM)
    mean_jct: float
    p50_jct: float
    p99_jct: float
    mean_jct_censored: float  # over all measured jobs, unfinished ones until the end: a lower bound
    makespan: float
    mean_wait: float  # time without GPUs, from submission to end
    p99_wait: float
    mean_time_to_start: float  # from submission to the first start
    p99_time_to_start: float
    mean_slowdown: float
    mean_bounded_slowdown: float
    mean_fairness: float  # finish-time fairness rho
    worst_fairness: float = field(metadata=MAX)
    jain_index: float  # of 1 / rho: 1 if all jobs have the same finish-time fairness
    utilisation: float
    fragmentation: float
    mean_jobs_in_system: float
    gpu_hours: float = field(metadata=SUM)
    preemptions: int = field(metadata=SUM)
    restarts: int = field(metadata=SUM)
    # Shares of running job-time by what limits the job, as in `LimitShares`.
    limited_by_gpus: float
    limited_by_cpus: float
    limited_by_memory: float
    limited_by_network: float
    queue_share: float  # of rounds after which a job waited


def percentile(values: FloatArray, q: float) -> float:
    """The q-th percentile, 0 to 100, interpolated linearly between order statistics (NumPy's default); NaN if empty."""
    return float(np.percentile(values, q, method="linear")) if len(values) else float("nan")


def mean(values: FloatArray) -> float:
    """The arithmetic mean; NaN if empty."""
    return float(values.mean()) if len(values) else float("nan")


def makespan(result: RunResult) -> Seconds:
    """Last finish - first submission of the measured jobs (Gavel, OSDI'20), in seconds; NaN without jobs.

    An unfinished job counts as finished at the end of the run, so the figure is then a lower bound.
    """
    measured = result.records["measured"]
    if not measured.any():
        return float("nan")
    return float(departures(result)[measured].max() - result.records["submit_time"][measured].min())


def finished_jobs(result: RunResult) -> IntArray:
    """int64[n]: ids of the measured jobs that finished, ascending."""
    return np.sort(result.records["job"][result.records["measured"] & result.finished])


def summarise(result: RunResult, compared: IntArray | None = None) -> Summary:
    """Compute every metric of one run.

    Args:
        result: the run.
        compared: ids of the jobs for means and percentiles of jobs; all measured and finished jobs if None.

    Raises:
        ValueError: a compared job is not measured and finished in this run.
    """
    own = finished_jobs(result)
    compared = own if compared is None else compared
    if not np.isin(compared, own).all():
        alien = int(np.setdiff1d(compared, own)[0])
        raise ValueError(f"{result.scheduler} on {result.workload.name}: job {alien} is not measured and finished")
    records = result.records
    measured = records[records["measured"]]
    chosen = np.isin(records["job"], compared)
    limits = limit_shares(result)
    return Summary(
        num_measured=len(measured),
        num_unfinished=int(np.isnan(result.left_times[records["measured"]]).sum()),
        **figures_of_jobs(
            records[chosen], job_metrics.finish_time_fairness(result)[chosen], job_metrics.waits(result)[chosen]
        ),
        mean_jct_censored=mean(job_metrics.censored_completion_times(result)[records["measured"]]),
        makespan=makespan(result),
        utilisation=cluster_metrics.utilisation(result),
        fragmentation=cluster_metrics.fragmentation(result),
        mean_jobs_in_system=cluster_metrics.mean_jobs_in_system(result),
        gpu_hours=cluster_metrics.gpu_hours(result),
        preemptions=int(measured["num_preemptions"].sum()),
        restarts=int(measured["num_restarts"].sum()),
        limited_by_gpus=limits.gpus,
        limited_by_cpus=limits.cpus,
        limited_by_memory=limits.memory,
        limited_by_network=limits.network,
        queue_share=queue_share(result),
    )


def figures_of_jobs(rows: job_metrics.JobRecords, rho: FloatArray, wait: FloatArray) -> dict[str, Any]:
    """Compute the figures of `Summary` that depend on which jobs are compared, by the names of its fields.

    Args:
        rows: [n], the compared jobs, with the times and the ideal duration of `RECORD`.
        rho: float64[n], their finish-time fairness.
        wait: float64[n], their time without GPUs.
    """
    jct, to_start = job_metrics.job_completion_times(rows), job_metrics.times_to_start(rows)
    return {
        "num_compared": len(rows),
        "mean_jct": mean(jct),
        "p50_jct": percentile(jct, 50),
        "p99_jct": percentile(jct, 99),
        "mean_wait": mean(wait),
        "p99_wait": percentile(wait, 99),
        "mean_time_to_start": mean(to_start),
        "p99_time_to_start": percentile(to_start, 99),
        "mean_slowdown": mean(job_metrics.slowdowns(rows)),
        "mean_bounded_slowdown": mean(job_metrics.bounded_slowdowns(rows)),
        "mean_fairness": mean(rho),
        "worst_fairness": float(rho.max()) if len(rho) else float("nan"),
        "jain_index": job_metrics.jain_index(1.0 / rho),
    }


@dataclass(frozen=True, slots=True)
class LimitShares:
    """Shares of running job-time by what limits the job; they add up to 1. NaN if no job ran in the window.

    `LimitedTime` defines what limits a job. "GPUs" means that neither cores, memory nor the network slow it down; so it
    is 1 where a scenario shares nothing but GPUs.
    """

    gpus: float
    cpus: float
    memory: float
    network: float


def limit_shares(result: RunResult) -> LimitShares:
    """Return the shares of job-time, over all jobs that ran in the window, that each resource limited."""
    limited = result.limited
    if limited is None or limited.running == 0:
        return LimitShares(*[float("nan")] * 4)
    if limited.running != limited.running:  # nothing but GPUs is shared
        return LimitShares(1.0, 0.0, 0.0, 0.0)
    cpus, memory, network = (part / limited.running for part in (limited.cpus, limited.memory, limited.network))
    return LimitShares(1.0 - cpus - memory - network, cpus, memory, network)


def queue_share(result: RunResult) -> float:
    """Return the share of the window's scheduling rounds after which a job waited; NaN without rounds."""
    limited = result.limited
    if limited is None or limited.num_rounds == 0:
        return float("nan")
    return limited.num_queue_rounds / limited.num_rounds


def merge_summaries(summaries: Sequence[Summary]) -> dict[str, float]:
    """Merge the summaries of several workloads: add counts, take the worst of worst cases and the mean of the rest.

    A workload without a figure (NaN) is left out of the figure's mean.
    """
    merged: dict[str, float] = {}
    for column in fields(Summary):
        values = np.array([getattr(summary, column.name) for summary in summaries])
        known = values[~np.isnan(values)]
        if not len(known):
            merged[column.name] = np.nan
            continue
        match column.metadata.get("over_workloads"):
            case "sum":
                merged[column.name] = known.sum().item()
            case "max":
                merged[column.name] = known.max().item()
            case _:
                merged[column.name] = known.mean().item()
    return merged
