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

_MODULES = {
    "agents.methods.evolution": "EvolutionSettings",
    "agents.methods.group_ppo": "GroupPPOSettings",
    "agents.methods.imitation": "ImitationSettings",
    "agents.networks": "Blueprint",
    "agents.policies": "BiddingCheckpoint",
    "agents.policies.options.checkpoint": "OptionCheckpoint",
    "agents.policies.options.scheduler": "OptionScheduler",
    "agents.problems.bids": "BidProblem BiddingTask",
    "agents.problems.options": "OptionProblem OptionTask",
    "agents.training": "Trainer TrainingSettings",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["BidProblem", "BiddingCheckpoint", "BiddingTask", "Blueprint", "EvolutionSettings", "GroupPPOSettings"]
__all__ += ["ImitationSettings", "OptionCheckpoint", "OptionProblem", "OptionScheduler", "OptionTask", "Trainer"]
__all__ += ["TrainingSettings"]


def __getattr__(name: str) -> object:
    """Import a name when it is first used: `import agents` loads neither torch nor ray."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
