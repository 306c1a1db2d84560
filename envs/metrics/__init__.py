"""Metrics of a run: pure functions of its records and its event log.

Means include only jobs submitted within the workload's measurement window. Jobs that were unfinished at the end of the
run are counted separately. The docstring of each metric gives its formula and source.
"""

from envs.metrics.cluster import fragmentation, gpu_hours, mean_jobs_in_system, utilisation
from envs.metrics.jobs import (
    average_contention,
    bounded_slowdowns,
    censored_completion_times,
    finish_time_fairness,
    jain_index,
    job_completion_times,
    slowdowns,
    times_to_start,
    waits,
)
from envs.metrics.queues import QUEUE_FIGURES, figures_of_queues, shares_of_queues
from envs.metrics.summary import (
    LimitShares,
    Summary,
    figures_of_jobs,
    finished_jobs,
    limit_shares,
    makespan,
    merge_summaries,
    percentile,
    queue_share,
    summarise,
)
from envs.metrics.timeline import (
    SEGMENT,
    WAIT,
    departures,
    find_waits,
    gpus_held,
    jobs_in_system,
    jobs_waiting,
    measured_span,
    segments,
)

__all__ = ["QUEUE_FIGURES", "SEGMENT", "WAIT", "LimitShares", "Summary", "average_contention", "bounded_slowdowns"]
__all__ += [
    "censored_completion_times",
    "departures",
    "figures_of_jobs",
    "figures_of_queues",
    "find_waits",
    "finish_time_fairness",
]
__all__ += ["finished_jobs", "fragmentation", "gpu_hours", "gpus_held", "jain_index", "job_completion_times"]
__all__ += ["jobs_in_system", "jobs_waiting", "limit_shares", "makespan", "mean_jobs_in_system", "measured_span"]
__all__ += ["merge_summaries"]
__all__ += [
    "percentile",
    "queue_share",
    "segments",
    "shares_of_queues",
    "slowdowns",
    "summarise",
    "times_to_start",
    "utilisation",
    "waits",
]
