"""Evolution strategies: training by changing all weights at random and keeping what plays better."""

from agents.evolution.ascent import Ascent, rank_shaped
from agents.evolution.perturbations import LowRankPerturbations
from agents.evolution.playing import Game, Score, play
from agents.evolution.settings import EvolutionSettings

__all__ = ["Ascent", "EvolutionSettings", "Game", "LowRankPerturbations", "Score", "play", "rank_shaped"]
