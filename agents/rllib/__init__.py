"""RLlib's new API stack on the batched environment: module, learner, runner, configuration."""

from agents.rllib.config import PPOSettings, TrainingSetup, algorithm_config

__all__ = ["PPOSettings", "TrainingSetup", "algorithm_config"]
