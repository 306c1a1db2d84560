"""Rubick: GPUs and execution plans chosen together by sensitivity curves, with guarantees (MLSys'25)."""

from baselines.rubick.artifact import RubickArtifact
from baselines.rubick.scheduler import Rubick

__all__ = ["Rubick", "RubickArtifact"]
