"""RLlib's own PPO on nodes that act together."""

from agents.methods.rllib_ppo.settings import RLlibPPOSettings

__all__ = ["RLlibPPOSettings"]
