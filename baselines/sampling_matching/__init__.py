"""Sampling-based matching: sampled categories, assignments at prices, gangs over several GPU types (TPDS'24)."""

from baselines.sampling_matching.scheduler import SamplingMatching

__all__ = ["SamplingMatching"]
