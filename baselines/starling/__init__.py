"""The heuristic to beat: shortest first, sized at the knee, two plans, look-ahead."""

from baselines.starling.scheduler import Starling

__all__ = ["Starling"]
