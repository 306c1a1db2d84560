"""Learned scheduling: networks, imitation, PPO, checkpoints. The only package that imports torch and ray."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.checkpoint import Checkpoint
    from agents.imitation import ImitationSettings
    from agents.networks import AttentionPolicy, Blueprint, PolicyNetwork
    from agents.rllib import PPOSettings, TrainingSetup
    from agents.scheduler import PolicyScheduler
    from agents.training import Trainer, TrainingSettings

_HOMES = {
    "AttentionPolicy": "agents.networks",
    "Blueprint": "agents.networks",
    "Checkpoint": "agents.checkpoint",
    "ImitationSettings": "agents.imitation",
    "PPOSettings": "agents.rllib",
    "PolicyNetwork": "agents.networks",
    "PolicyScheduler": "agents.scheduler",
    "Trainer": "agents.training",
    "TrainingSettings": "agents.training",
    "TrainingSetup": "agents.rllib",
}

__all__ = [
    "AttentionPolicy",
    "Blueprint",
    "Checkpoint",
    "ImitationSettings",
    "PPOSettings",
    "PolicyNetwork",
    "PolicyScheduler",
    "Trainer",
    "TrainingSettings",
    "TrainingSetup",
]


def __getattr__(name: str) -> object:
    """Import a name when it is first used: `import agents` loads neither torch nor ray."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
