"""Policies that choose options, and how they are trained from nothing."""

from agents.options.settings import GroupPPOSettings
from agents.options.training import OptionTrainer, OptionTrainingSettings

__all__ = ["GroupPPOSettings", "OptionTrainer", "OptionTrainingSettings"]
