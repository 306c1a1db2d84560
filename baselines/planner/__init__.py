"""Planners that play allocations ahead on copies of the cluster before they choose one."""

from baselines.planner.oracle import OraclePlanner
from baselines.planner.scheduler import RolloutPlanner

__all__ = ["OraclePlanner", "RolloutPlanner"]
