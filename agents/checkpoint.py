"""What is published and evaluated: weights in safetensors beside a plain description. No pickle is ever read."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load_file, save_file
from torch import nn

from agents.gpu_types import check_types
from agents.networks import Blueprint
from agents.scheduler import PolicyScheduler
from envs.gpu_cluster import DecisionRules, EnvSpec
from envs.types import CheckpointError

WEIGHTS, DESCRIPTION = "weights.safetensors", "policy.json"
FORMAT = 2  # of the description; raised when its meaning changes: 2 names the GPU types


@dataclass(frozen=True)
class Checkpoint:
    """A policy with all that is needed to play it again."""

    network: nn.Module
    blueprint: Blueprint
    spec: EnvSpec
    rules: DecisionRules
    gpu_types: tuple[str, ...]  # in the order in which the network sees them
    notes: dict[str, Any]  # how it came to be: seed, iteration, validation figures, teacher

    def save(self, folder: Path) -> None:
        """Write `weights.safetensors` and `policy.json`; each appears whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}
        description = {
            "format": FORMAT,
            "network": self.blueprint.to_dict(),
            "spec": asdict(self.spec),
            "rules": asdict(self.rules),
            "gpu_types": list(self.gpu_types),
            "notes": self.notes,
        }
        save_file(weights, str(folder / f"{WEIGHTS}.part"))
        (folder / f"{DESCRIPTION}.part").write_text(json.dumps(description, indent=2) + "\n")
        (folder / f"{WEIGHTS}.part").replace(folder / WEIGHTS)
        (folder / f"{DESCRIPTION}.part").replace(folder / DESCRIPTION)

    @classmethod
    def load(cls, path: str | Path) -> "Checkpoint":
        """Read a checkpoint from its folder, or the best one of a training run from the run's folder.

        Raises:
            CheckpointError: it is missing, corrupt, or its weights do not fit its network.
        """
        folder = _find(Path(path))
        try:
            description = json.loads((folder / DESCRIPTION).read_text())
            if description["format"] != FORMAT:
                raise CheckpointError(f"its format is {description['format']}, this version reads {FORMAT}")
            blueprint = Blueprint.from_dict(description["network"])
            spec, rules = EnvSpec(**description["spec"]), DecisionRules(**description["rules"])
            gpu_types, notes = tuple(map(str, description["gpu_types"])), dict(description["notes"])
            check_types(gpu_types, spec)
            network = blueprint.build(spec)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(
                f"{folder / DESCRIPTION} is not a policy description ({reason}); copy it again or train anew"
            ) from error
        try:
            network.load_state_dict(load_file(str(folder / WEIGHTS)))
        except (OSError, safetensors.SafetensorError, RuntimeError) as error:
            reason = " ".join(" ".join(str(error).splitlines()[:2]).split())
            raise CheckpointError(
                f"{folder / WEIGHTS} does not hold this network's weights ({reason}); copy it again or train anew"
            ) from error
        return cls(network, blueprint, spec, rules, gpu_types, notes)

    def scheduler(self, *, sampled: bool = True) -> PolicyScheduler:
        """The policy as a scheduler."""
        network: Any = self.network
        return PolicyScheduler(network, self.spec, self.rules, self.gpu_types, sampled=sampled)


def _find(path: Path) -> Path:
    for folder in (path, path / "checkpoints" / "best", path / "best"):
        if (folder / DESCRIPTION).exists():
            return folder
    raise CheckpointError(f"{path} holds no {DESCRIPTION}; give the folder of a training run or of a checkpoint")
