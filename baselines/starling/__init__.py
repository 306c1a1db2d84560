"""The heuristic to beat: shortest first, sized at the knee, with look-ahead; its form for a short makespan."""

from baselines.starling.makespan import StarlingMakespan
from baselines.starling.scheduler import Starling

__all__ = ["Starling", "StarlingMakespan"]
