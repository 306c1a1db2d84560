"""Estimators of throughputs that are learnt."""

from agents.estimators.learned_curves import LearnedCurves, load_curves, save_curves

__all__ = ["LearnedCurves", "load_curves", "save_curves"]
