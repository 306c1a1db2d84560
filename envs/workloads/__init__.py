"""Workloads: the jobs of an episode, one reader per public trace, synthetic generators, splits by time."""

from envs.workloads.calibration import STREAMS, JobStream
from envs.workloads.demand import LoadDefinition
from envs.workloads.distributions import AllAtOnce, ArrivalProcess, Arrivals, LogNormal, MarkovModulated, Quantiles
from envs.workloads.fits import check_workload_fits
from envs.workloads.habits import Habits
from envs.workloads.mix import DEFAULT_MIX, JobMix
from envs.workloads.mixes import MIXES
from envs.workloads.requests import Requests
from envs.workloads.source import WorkloadSource
from envs.workloads.splits import Windows
from envs.workloads.synthetic import SyntheticSource
from envs.workloads.trace_source import TraceSource
from envs.workloads.workload import JOB_COLUMNS, Workload

__all__ = [
    "DEFAULT_MIX",
    "JOB_COLUMNS",
    "MIXES",
    "STREAMS",
    "AllAtOnce",
    "ArrivalProcess",
    "Arrivals",
    "Habits",
    "JobMix",
    "JobStream",
    "LoadDefinition",
    "LogNormal",
    "MarkovModulated",
    "Quantiles",
    "Requests",
    "SyntheticSource",
    "TraceSource",
    "Windows",
    "Workload",
    "WorkloadSource",
    "check_workload_fits",
]
