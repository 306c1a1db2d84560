"""Planners that play allocations ahead on copies of the cluster before they choose one."""

from baselines.planner.forecasts import ForecastMarket, ForecastPlanner
from baselines.planner.oracle import OraclePlanner
from baselines.planner.scheduler import RolloutPlanner

__all__ = ["ForecastMarket", "ForecastPlanner", "OraclePlanner", "RolloutPlanner"]
