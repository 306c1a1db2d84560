"""Checkpoints: weights in safetensors and a plain description. No pickle is ever read."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from agents.networks import Blueprint, NetworkError, check_network
from agents.policies.description import (
    DESCRIPTION,
    NO_DESCRIPTION,
    NO_WEIGHTS,
    WEIGHTS,
    check_description,
    check_network_size,
    explaining_damage,
    read_json,
    require_file,
    write_policy,
)
from agents.policies.gpu_types import check_types
from agents.policies.scheduler import PolicyScheduler
from envs.gpu_cluster import DecisionRules, EnvSpec
from envs.types import CheckpointError

FORMAT = 4  # of the description; raised when its meaning changes
# Settings of earlier versions, each with the only value that this version can play.
REMOVED = {"rules": {"amendments": False, "num_levels": 1}, "spec": {"num_levels": 1}}
# Format 2 called nodes servers; the weights of our own network had that word in their names, too.
OLD_KEYS = {"num_servers": "num_nodes", "candidates_per_server": "candidates_per_node"}
OLD_WEIGHTS = {"encode_server.": "encode_node.", "pointer_server.": "pointer_node."}
OLD_NETWORK = "agents.networks.AttentionPolicy"
NETWORKS = (
    "agents.networks.AttentionPolicy",
    "agents.networks.policy.AttentionPolicy",
)  # that any description may name


@dataclass(frozen=True)
class Checkpoint:
    """A policy with all that is needed to run it again."""

    network: nn.Module
    blueprint: Blueprint
    spec: EnvSpec
    rules: DecisionRules
    gpu_types: tuple[str, ...]  # in the order of the network's features
    notes: dict[str, Any]  # origin: seed, iteration, validation figures, teacher

    def save(self, folder: Path) -> None:
        """Write `weights.safetensors` and `policy.json`; each is replaced as a whole."""
        description = {
            "format": FORMAT,
            "network": self.blueprint.to_dict(),
            "spec": asdict(self.spec),
            "rules": asdict(self.rules),
            "gpu_types": list(self.gpu_types),
            "notes": self.notes,
        }
        write_policy(folder, self.network, description)

    @classmethod
    def load(cls, path: str | Path, networks: Collection[str] = ()) -> "Checkpoint":
        """Read a checkpoint from its folder, or the best one of a training run from the run's folder.

        The description is checked before anything that it names is imported.

        Args:
            path: the folder.
            networks: import paths of network classes that it may name, besides `NETWORKS`.

        Raises:
            CheckpointError: it is missing or corrupt, its weights do not fit its network, or its network breaks
                `PolicyNetwork`.
        """
        folder = find_checkpoint(Path(path))
        with explaining_damage(folder / DESCRIPTION, NO_DESCRIPTION):
            description = read_json(folder / DESCRIPTION)
            old = description["format"] == 2
            if old:
                description = _migrated(description)
            description = _without_removed(description)
            if description["format"] not in (3, FORMAT):
                raise CheckpointError(f"its format is {description['format']}, this version reads 2 to {FORMAT}")
            check_description(description, {*NETWORKS, *networks})
            blueprint = Blueprint.from_dict(description["network"])
            spec, rules = EnvSpec(**description["spec"]), DecisionRules(**description["rules"])
            gpu_types, notes = tuple(map(str, description["gpu_types"])), dict(description["notes"])
            check_types(gpu_types, spec)
        with explaining_damage(folder / WEIGHTS, NO_WEIGHTS):
            require_file(folder / WEIGHTS)
            weights = load_file(str(folder / WEIGHTS))
            check_finite(weights)
        with explaining_damage(folder / DESCRIPTION, NO_DESCRIPTION):
            check_network_size(blueprint, spec, weights)
            network = blueprint.build(spec)
        with explaining_damage(folder / WEIGHTS, NO_WEIGHTS):
            network.load_state_dict(_renamed(weights) if old and blueprint.target == OLD_NETWORK else weights)
        _check(network, spec, folder)
        return cls(network, blueprint, spec, rules, gpu_types, notes)

    def scheduler(self, *, sampled: bool = True) -> PolicyScheduler:
        """Return the policy as a scheduler; see there for `sampled`."""
        network: Any = self.network
        return PolicyScheduler(network, self.spec, self.rules, self.gpu_types, sampled=sampled)


def _migrated(description: dict[str, Any]) -> dict[str, Any]:
    """Return a description of format 2 as one of format 3."""
    parts = {
        part: {OLD_KEYS.get(name, name): value for name, value in description[part].items()}
        for part in ("spec", "rules")
    }
    return {**description, **parts, "format": 3}


def _without_removed(description: dict[str, Any]) -> dict[str, Any]:
    """Return a description without what only earlier versions could do.

    Raises:
        CheckpointError: the policy needs it.
    """
    if description.get("market") is not None:
        raise CheckpointError("its rounds begin with a market's proposal, which this version cannot play")
    found = dict(description)
    for part, removed in REMOVED.items():
        values = dict(found[part]) if isinstance(found.get(part), dict) else {}
        for name, value in removed.items():
            if values.pop(name, value) != value:
                raise CheckpointError(f"{part}.{name} is {found[part][name]!r}, which this version cannot play")
        found[part] = values
    return found


def _renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a network of format 2 under their present names."""
    found = {}
    for name, tensor in weights.items():
        for old, new in OLD_WEIGHTS.items():
            name = name.replace(old, new)
        found[name] = tensor
    return found


def check_finite(weights: dict[str, Tensor]) -> None:
    """Assert that all weights are finite.

    Raises:
        CheckpointError: names the first tensor with a value that is not.
    """
    for name, tensor in weights.items():
        if not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(f"{name} has values that are not finite")


def _check(network: nn.Module, spec: EnvSpec, folder: Path) -> None:
    try:
        check_network(network, spec)
    except NetworkError as error:
        raise CheckpointError(f"{folder}: {error}") from error


def find_checkpoint(path: Path) -> Path:
    """Return the folder of a checkpoint: the path itself, or that of the best checkpoint of a training run.

    Raises:
        CheckpointError: there is none.
    """
    for folder in (path, path / "checkpoints" / "best", path / "best"):
        if (folder / DESCRIPTION).exists():
            return folder
    raise CheckpointError(f"{path} contains no {DESCRIPTION}; give the folder of a training run or of a checkpoint")
