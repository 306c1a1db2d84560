"""Starling with more candidates in each round, as a scheduler and as a market of bids."""

from baselines.planner.forecasts import ForecastMarket, ForecastPlanner

__all__ = ["ForecastMarket", "ForecastPlanner"]
