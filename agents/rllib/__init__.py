"""RLlib's new API stack over the batched environment: module, learner, runner, configuration."""

from agents.rllib.config import PPOSettings, World, algorithm_config

__all__ = ["PPOSettings", "World", "algorithm_config"]
