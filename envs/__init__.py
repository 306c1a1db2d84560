"""Clusters, workloads, throughputs, the simulator, metrics and the PettingZoo environments; no torch, ray or hydra."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envs.bidding import BiddingEnv, BiddingRules, bidding_env
    from envs.episodes import FlatObservations, Reward, TeamReward
    from envs.evaluation import Comparison, compare_schedulers
    from envs.metrics import Summary, summarise
    from envs.options import OptionBatch, OptionEnv, OptionRules, parallel_env
    from envs.performance import (
        Contention,
        IdealModel,
        PerformanceModel,
        ReconfigurationCost,
        TableModel,
        default_model,
    )
    from envs.scheduling import ClusterView, Scheduler
    from envs.simulation import (
        CompiledScheduler,
        Failures,
        FifoMarket,
        Information,
        Market,
        Rounds,
        RunResult,
        Scenario,
        Setup,
        Simulator,
        run_episode,
    )
    from envs.types import (
        Allocation,
        ClusterSpec,
        Configuration,
        Constraints,
        ExecutionPlan,
        JobSpec,
        MurmurationError,
        NodeSpec,
        Placement,
    )
    from envs.workloads import SyntheticSource, TraceSource, Workload, WorkloadSource

_MODULES = {
    "envs.bidding": "BiddingEnv BiddingRules bidding_env",
    "envs.episodes": "FlatObservations Reward TeamReward",
    "envs.evaluation": "Comparison compare_schedulers",
    "envs.metrics": "Summary summarise",
    "envs.options": "OptionBatch OptionEnv OptionRules parallel_env",
    "envs.performance": "Contention IdealModel PerformanceModel ReconfigurationCost TableModel default_model",
    "envs.scheduling": "ClusterView Scheduler",
    "envs.simulation": (
        "CompiledScheduler Failures FifoMarket Information Market Rounds RunResult Scenario Setup Simulator run_episode"
    ),
    "envs.types": (
        "Allocation ClusterSpec Configuration Constraints ExecutionPlan JobSpec MurmurationError NodeSpec Placement"
    ),
    "envs.workloads": "SyntheticSource TraceSource Workload WorkloadSource",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["Allocation", "BiddingEnv", "BiddingRules", "ClusterSpec", "ClusterView", "Comparison", "CompiledScheduler"]
__all__ += ["Configuration", "Constraints", "Contention", "ExecutionPlan", "Failures", "FifoMarket", "FlatObservations"]
__all__ += ["IdealModel", "Information", "JobSpec", "Market", "MurmurationError", "NodeSpec", "OptionBatch"]
__all__ += ["OptionEnv", "OptionRules", "PerformanceModel", "Placement", "ReconfigurationCost", "Reward", "Rounds"]
__all__ += ["RunResult", "Scenario", "Scheduler", "Setup", "Simulator", "Summary", "SyntheticSource", "TableModel"]
__all__ += ["TeamReward", "TraceSource", "Workload", "WorkloadSource", "bidding_env", "compare_schedulers"]
__all__ += ["default_model", "parallel_env", "run_episode", "summarise"]


def __getattr__(name: str) -> object:
    """Import a name when it is first used: `import envs.types` loads nothing else."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
