"""Expert iteration through bids: a policy learns what a planner that it leads would rather do, where that pays."""

from agents.expert_iteration.asking import AskedRounds, ExpertSampler
from agents.expert_iteration.settings import ExpertSettings, MakesExpert

__all__ = ["AskedRounds", "ExpertSampler", "ExpertSettings", "MakesExpert"]
