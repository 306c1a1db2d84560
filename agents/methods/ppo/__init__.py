"""PPO on the discrete environment, on RLlib's new API stack: module, learner, runner, configuration."""

from agents.methods.ppo.config import PPOSettings, algorithm_config
from agents.problems.choices import TrainingSetup

__all__ = ["PPOSettings", "TrainingSetup", "algorithm_config"]
