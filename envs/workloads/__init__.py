"""What arrives: workloads, one reader per public trace, synthetic generators, splits by time."""

from envs.workloads.workload import JOB_COLUMNS, Workload

__all__ = ["JOB_COLUMNS", "Workload"]
