"""Learned scheduling: networks, policies, methods, the trainer. The only package that imports torch and ray."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.methods.evolution import EvolutionSettings
    from agents.methods.group_ppo import GroupPPOSettings
    from agents.methods.imitation import ImitationSettings
    from agents.networks import Blueprint
    from agents.policies import BiddingCheckpoint
    from agents.policies.options.checkpoint import OptionCheckpoint
    from agents.policies.options.scheduler import OptionScheduler
    from agents.problems.bids import BiddingTask, BidProblem
    from agents.problems.options import OptionProblem, OptionTask
    from agents.training import Trainer, TrainingSettings

_HOMES = {
    "BidProblem": "agents.problems.bids",
    "BiddingCheckpoint": "agents.policies",
    "BiddingTask": "agents.problems.bids",
    "Blueprint": "agents.networks",
    "EvolutionSettings": "agents.methods.evolution",
    "GroupPPOSettings": "agents.methods.group_ppo",
    "ImitationSettings": "agents.methods.imitation",
    "OptionCheckpoint": "agents.policies.options.checkpoint",
    "OptionProblem": "agents.problems.options",
    "OptionScheduler": "agents.policies.options.scheduler",
    "OptionTask": "agents.problems.options",
    "Trainer": "agents.training",
    "TrainingSettings": "agents.training",
}

__all__ = [
    "BidProblem",
    "BiddingCheckpoint",
    "BiddingTask",
    "Blueprint",
    "EvolutionSettings",
    "GroupPPOSettings",
    "ImitationSettings",
    "OptionCheckpoint",
    "OptionProblem",
    "OptionScheduler",
    "OptionTask",
    "Trainer",
    "TrainingSettings",
]


def __getattr__(name: str) -> object:
    """Import a name when it is first used: `import agents` loads neither torch nor ray."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
