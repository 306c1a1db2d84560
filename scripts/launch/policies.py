"""The module of `load_planner` in configurations of runs before version 0.2."""

from murmuration.runs.policies import load_planner

__all__ = ["load_planner"]
