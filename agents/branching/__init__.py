"""Advantages from branches: sampled decisions and a baseline, played on with the same future by the market alone."""

from agents.branching.exploration import Exploration, arms_around, explore, log_ratios
from agents.branching.sampling import BranchedRounds, BranchSampler
from agents.branching.settings import BranchSettings
from agents.branching.tail import TailValue

__all__ = [
    "BranchSampler",
    "BranchSettings",
    "BranchedRounds",
    "Exploration",
    "TailValue",
    "arms_around",
    "explore",
    "log_ratios",
]
