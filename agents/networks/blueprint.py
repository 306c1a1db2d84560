"""A description of a network that can be saved and built without a pickle."""

import importlib
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

from envs.bidding import BiddingSpec
from envs.options import OptionSpec
from envs.types import CheckpointError, MurmurationError


@dataclass(frozen=True)
class Blueprint:
    """A network class, by import path, and its keyword arguments; sent to workers and saved in checkpoints.

    The class is called as `target(spec, **options)`. It has a method `scores` from `Decisions` to scores of options, or
    implements `BidNetwork` for the bidding environment.
    """

    target: str = "agents.networks.option_scorer.OptionScorer"
    options: dict[str, Any] = field(default_factory=dict)

    def network_class(self) -> type[nn.Module]:
        """Import the class.

        Raises:
            MurmurationError: it cannot be found, or is not a network.
        """
        module, _, name = self.target.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise MurmurationError(
                f"network {self.target!r} cannot be imported ({error}); give module.Class"
            ) from error
        # A published description says which class is called: call nothing but a network.
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise MurmurationError(f"network {self.target!r} is not a torch.nn.Module; name a class that is one")
        return found

    def build(self, spec: BiddingSpec | OptionSpec) -> nn.Module:
        """Build a fresh network for these sizes.

        Raises:
            MurmurationError: the class cannot be found, is not a network, or does not take the options.
        """
        found: Any = self.network_class()
        try:
            network: nn.Module = found(spec, **self.options)
        except TypeError as error:
            raise MurmurationError(f"network {self.target}: {error}; options were {self.options}") from error
        return network

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Blueprint":
        """Return the blueprint from the result of `to_dict`.

        Raises:
            CheckpointError: fields are missing.
        """
        try:
            return cls(str(values["target"]), dict(values["options"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"network description {values!r} lacks target or options") from error
