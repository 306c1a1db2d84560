"""PPO whose baseline is a group of episodes of the same workload, on options, from random weights."""

from agents.methods.group_ppo.settings import GroupPPOSettings

__all__ = ["GroupPPOSettings"]
