"""How fast a job runs."""

from envs.performance.model import IdealModel, PerformanceModel

__all__ = ["IdealModel", "PerformanceModel"]
