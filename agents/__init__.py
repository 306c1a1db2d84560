"""Learned scheduling: networks, policies, methods, the trainer. The only package that imports torch and ray."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.methods.evolution import EvolutionSettings
    from agents.methods.imitation import ImitationSettings
    from agents.methods.ppo import PPOSettings, TrainingSetup
    from agents.networks import AttentionPolicy, Blueprint, PolicyNetwork
    from agents.policies import BiddingCheckpoint
    from agents.policies.checkpoint import Checkpoint
    from agents.policies.scheduler import PolicyScheduler
    from agents.problems.bids import BidProblem
    from agents.problems.choices import ChoiceProblem
    from agents.training import Trainer, TrainingSettings

_HOMES = {
    "AttentionPolicy": "agents.networks",
    "BidProblem": "agents.problems.bids",
    "BiddingCheckpoint": "agents.policies",
    "Blueprint": "agents.networks",
    "Checkpoint": "agents.policies.checkpoint",
    "ChoiceProblem": "agents.problems.choices",
    "EvolutionSettings": "agents.methods.evolution",
    "ImitationSettings": "agents.methods.imitation",
    "PPOSettings": "agents.methods.ppo",
    "PolicyNetwork": "agents.networks",
    "PolicyScheduler": "agents.policies.scheduler",
    "Trainer": "agents.training",
    "TrainingSettings": "agents.training",
    "TrainingSetup": "agents.methods.ppo",
}

__all__ = [
    "AttentionPolicy",
    "BidProblem",
    "BiddingCheckpoint",
    "Blueprint",
    "Checkpoint",
    "ChoiceProblem",
    "EvolutionSettings",
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
