"""Trained policies built from configs. Needs torch."""

from omegaconf import DictConfig

from agents.checkpoint import Checkpoint
from agents.scheduler import PolicyScheduler


def build_policy(cfg: DictConfig) -> PolicyScheduler:
    """The trained policy that `cfg.checkpoint` names, sampled or at its likeliest as `cfg.sampled` says.

    Raises:
        CheckpointError: there is none, or it cannot be read.
    """
    return Checkpoint.load(cfg.checkpoint).scheduler(sampled=cfg.sampled)
