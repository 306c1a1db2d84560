"""What a run was worth: pure functions of its records and its event log.

Only jobs submitted within the workload's measurement window count in means; jobs that the end of the run cut off are
counted beside them. Formula and source of each metric stand in its docstring.
"""

from envs.metrics.cluster import fragmentation, gpu_hours, mean_jobs_in_system, utilisation
from envs.metrics.jobs import (
    average_contention,
    bounded_slowdowns,
    censored_completion_times,
    finish_time_fairness,
    jain_index,
    job_completion_times,
    queueing_delays,
    slowdowns,
)
from envs.metrics.summary import Summary, finished_jobs, makespan, percentile, summarise
from envs.metrics.timeline import SEGMENT, gpus_held, jobs_in_system, jobs_waiting, measured_span, segments

__all__ = [
    "SEGMENT",
    "Summary",
    "average_contention",
    "bounded_slowdowns",
    "censored_completion_times",
    "finish_time_fairness",
    "finished_jobs",
    "fragmentation",
    "gpu_hours",
    "gpus_held",
    "jain_index",
    "job_completion_times",
    "jobs_in_system",
    "jobs_waiting",
    "makespan",
    "mean_jobs_in_system",
    "measured_span",
    "percentile",
    "queueing_delays",
    "segments",
    "slowdowns",
    "summarise",
    "utilisation",
]
