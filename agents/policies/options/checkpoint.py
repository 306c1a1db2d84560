"""Checkpoints of policies that choose options: weights in safetensors and a plain manifest. No pickle is ever read."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn

from agents.networks import Blueprint, NetworkError, check_option_network
from agents.policies.checkpoint import check_finite
from agents.policies.description import (
    DESCRIPTION,
    NO_DESCRIPTION,
    NO_WEIGHTS,
    WEIGHTS,
    check_network_size,
    check_option_description,
    explaining_damage,
    read_json,
    require_file,
    write_policy,
)
from agents.policies.options.scheduler import OptionScheduler
from envs.options import OptionRules, OptionSpec
from envs.types import CheckpointError

FACE, FORMAT = "options", 3  # earlier formats had other columns
OPTION_NETWORKS = (
    "agents.networks.option_scorer.OptionScorer",
    "agents.networks.option_attention.OptionAttention",
    "agents.networks.option_claims.OptionClaims",
    "agents.networks.edge_attention.EdgeAttention",
    "agents.networks.job_priority.JobPriority",
)  # that any manifest may name


@dataclass(frozen=True)
class OptionCheckpoint:
    """A policy that chooses options, with all that is needed to run it again.

    Attributes:
        network: has a method `scores` from `agents.policies.options.rows.Decisions` to scores.
        blueprint: how it was built.
        rules: which options nodes have.
        notes: origin: seed, iteration, tasks, validation figures; `temperature`, at which it was validated best.
    """

    network: nn.Module
    blueprint: Blueprint
    rules: OptionRules
    notes: dict[str, Any]

    def save(self, folder: Path) -> None:
        """Write `weights.safetensors` and `policy.json`; each is replaced as a whole."""
        manifest = {
            "face": FACE,
            "format": FORMAT,
            "network": self.blueprint.to_dict(),
            "rules": asdict(self.rules),
            "notes": self.notes,
        }
        write_policy(folder, self.network, manifest)

    @classmethod
    def load(cls, folder: Path, networks: Collection[str] = ()) -> "OptionCheckpoint":
        """Read a checkpoint from its folder. The manifest is checked before anything that it names is imported.

        Args:
            folder: the folder.
            networks: import paths of network classes that it may name, besides `OPTION_NETWORKS`.

        Raises:
            CheckpointError: it is missing or corrupt, its weights do not fit its network, or its network does not score
                options.
        """
        with explaining_damage(folder / DESCRIPTION, NO_DESCRIPTION):
            manifest = read_json(folder / DESCRIPTION)
            if (manifest.get("face"), manifest["format"]) != (FACE, FORMAT):
                raise CheckpointError(
                    f"its face is {manifest.get('face')!r} in format {manifest['format']!r}; this version reads {FACE} "
                    f"in format {FORMAT}, whose rows have other columns"
                )
            check_option_description(manifest, {*OPTION_NETWORKS, *networks})
            blueprint = Blueprint.from_dict(manifest["network"])
            rules, notes = OptionRules(**manifest["rules"]), dict(manifest["notes"])
        with explaining_damage(folder / WEIGHTS, NO_WEIGHTS):
            require_file(folder / WEIGHTS)
            weights = load_file(str(folder / WEIGHTS))
            check_finite(weights)
        with explaining_damage(folder / DESCRIPTION, NO_DESCRIPTION):
            check_network_size(blueprint, OptionSpec(), weights)
            network = blueprint.build(OptionSpec())
        with explaining_damage(folder / WEIGHTS, NO_WEIGHTS):
            network.load_state_dict(weights)
        try:
            check_option_network(network, OptionSpec())
        except NetworkError as error:
            raise CheckpointError(f"{folder}: {error}") from error
        return cls(network, blueprint, rules, notes)

    def start_for(self, blueprint: Blueprint, spec: OptionSpec) -> dict[str, Tensor]:
        """Return the weights by name, for training that starts from them.

        Args:
            blueprint: the network that is to be trained. Options that only say how it begins may differ.
            spec: sizes of the rows that it will see.

        Raises:
            CheckpointError: the network of this checkpoint is another one.
        """
        weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        built = blueprint.build(spec).state_dict()
        if blueprint.target != self.blueprint.target or {name: value.shape for name, value in built.items()} != {
            name: value.shape for name, value in weights.items()
        }:
            raise CheckpointError(
                f"the network to train is {blueprint.target} {blueprint.options} and that of the checkpoint "
                f"{self.blueprint.target} {self.blueprint.options}; choose the same network"
            )
        return weights

    def scheduler(self, temperature: float | None = None) -> OptionScheduler:
        """Return the policy as a scheduler.

        Args:
            temperature: of the softmax over scores; None for the one that the notes name, or the likeliest option.
        """
        own = float(self.notes.get("temperature", 0.0)) if temperature is None else temperature
        return OptionScheduler(self.network, self.rules, temperature=own)
