"""Cores and memory beside GPUs, by sensitivity (OSDI'22)."""

from baselines.synergy.scheduler import Synergy

__all__ = ["Synergy"]
