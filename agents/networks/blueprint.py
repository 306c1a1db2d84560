"""How a network is named, built and remembered without a pickle."""

import importlib
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

from envs.gpu_cluster import EnvSpec
from envs.types import CheckpointError, MurmurationError


@dataclass(frozen=True)
class Blueprint:
    """A network class by its import path, with its keyword arguments. Travels to workers and into checkpoints.

    The class is called as `target(spec, **options)` and answers the `PolicyNetwork` protocol.
    """

    target: str = "agents.networks.AttentionPolicy"
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, spec: EnvSpec) -> nn.Module:
        """A fresh network for these sizes.

        Raises:
            MurmurationError: the class cannot be found, is no network, or does not take the options.
        """
        module, _, name = self.target.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise MurmurationError(
                f"network {self.target!r} cannot be imported ({error}); give module.Class"
            ) from error
        # A published description names what is called: nothing but a network is.
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise MurmurationError(f"network {self.target!r} is no torch.nn.Module; name a class that is one")
        try:
            return found(spec, **self.options)
        except TypeError as error:
            raise MurmurationError(f"network {self.target}: {error}; options were {self.options}") from error

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Blueprint":
        """The inverse of `to_dict`.

        Raises:
            CheckpointError: fields are missing.
        """
        try:
            return cls(str(values["target"]), dict(values["options"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"network description {values!r} lacks target or options") from error
