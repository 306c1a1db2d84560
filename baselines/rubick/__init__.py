"""Execution plans beside GPUs, by sensitivity curves and with guarantees (MLSys'25)."""

from baselines.rubick.artifact import RubickArtifact
from baselines.rubick.scheduler import Rubick

__all__ = ["Rubick", "RubickArtifact"]
