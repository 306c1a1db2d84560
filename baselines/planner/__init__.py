"""Planners that play allocations ahead on copies of the cluster before they choose one."""

from baselines.planner.expert import PlannerExpert
from baselines.planner.forecasts import ForecastMarket, ForecastPlanner
from baselines.planner.futures import DrawnFutures
from baselines.planner.oracle import OraclePlanner
from baselines.planner.scheduler import RolloutPlanner

__all__ = ["DrawnFutures", "ForecastMarket", "ForecastPlanner", "OraclePlanner", "PlannerExpert", "RolloutPlanner"]
