"""Synergy: cores and memory allocated beside GPUs, by the jobs' sensitivity to them (OSDI'22)."""

from baselines.synergy.scheduler import Synergy

__all__ = ["Synergy"]
