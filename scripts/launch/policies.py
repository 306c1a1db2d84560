"""The module of `load_estimator` and `load_planner` in configurations of runs before version 0.2."""

from murmuration.runs.policies import load_estimator, load_planner

__all__ = ["load_estimator", "load_planner"]
