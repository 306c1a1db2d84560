"""Evolution strategies: training by changing all weights at random and keeping what plays better."""

from agents.methods.evolution.ascent import Ascent, rank_shaped
from agents.methods.evolution.learning import EvolutionSettings
from agents.methods.evolution.perturbations import LowRankPerturbations

__all__ = ["Ascent", "EvolutionSettings", "LowRankPerturbations", "rank_shaped"]
