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

_HOMES = {
    "Allocation": "envs.types",
    "BiddingEnv": "envs.bidding",
    "BiddingRules": "envs.bidding",
    "ClusterSpec": "envs.types",
    "ClusterView": "envs.scheduling",
    "Comparison": "envs.evaluation",
    "CompiledScheduler": "envs.simulation",
    "Configuration": "envs.types",
    "Constraints": "envs.types",
    "Contention": "envs.performance",
    "ExecutionPlan": "envs.types",
    "Failures": "envs.simulation",
    "FifoMarket": "envs.simulation",
    "FlatObservations": "envs.episodes",
    "IdealModel": "envs.performance",
    "Information": "envs.simulation",
    "JobSpec": "envs.types",
    "Market": "envs.simulation",
    "MurmurationError": "envs.types",
    "NodeSpec": "envs.types",
    "OptionBatch": "envs.options",
    "OptionEnv": "envs.options",
    "OptionRules": "envs.options",
    "PerformanceModel": "envs.performance",
    "Placement": "envs.types",
    "ReconfigurationCost": "envs.performance",
    "Reward": "envs.episodes",
    "Rounds": "envs.simulation",
    "RunResult": "envs.simulation",
    "Scenario": "envs.simulation",
    "Scheduler": "envs.scheduling",
    "Setup": "envs.simulation",
    "Simulator": "envs.simulation",
    "Summary": "envs.metrics",
    "SyntheticSource": "envs.workloads",
    "TableModel": "envs.performance",
    "TeamReward": "envs.episodes",
    "TraceSource": "envs.workloads",
    "Workload": "envs.workloads",
    "WorkloadSource": "envs.workloads",
    "bidding_env": "envs.bidding",
    "compare_schedulers": "envs.evaluation",
    "default_model": "envs.performance",
    "parallel_env": "envs.options",
    "run_episode": "envs.simulation",
    "summarise": "envs.metrics",
}

__all__ = [
    "Allocation",
    "BiddingEnv",
    "BiddingRules",
    "ClusterSpec",
    "ClusterView",
    "Comparison",
    "CompiledScheduler",
    "Configuration",
    "Constraints",
    "Contention",
    "ExecutionPlan",
    "Failures",
    "FifoMarket",
    "FlatObservations",
    "IdealModel",
    "Information",
    "JobSpec",
    "Market",
    "MurmurationError",
    "NodeSpec",
    "OptionBatch",
    "OptionEnv",
    "OptionRules",
    "PerformanceModel",
    "Placement",
    "ReconfigurationCost",
    "Reward",
    "Rounds",
    "RunResult",
    "Scenario",
    "Scheduler",
    "Setup",
    "Simulator",
    "Summary",
    "SyntheticSource",
    "TableModel",
    "TeamReward",
    "TraceSource",
    "Workload",
    "WorkloadSource",
    "bidding_env",
    "compare_schedulers",
    "default_model",
    "parallel_env",
    "run_episode",
    "summarise",
]


def __getattr__(name: str) -> object:
    """Import a name when it is first used: `import envs.types` loads nothing else."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
