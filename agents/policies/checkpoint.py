"""Files of checkpoints of all environments, and the check that their weights are numbers."""

from pathlib import Path

import torch
from torch import Tensor

from agents.policies.description import DESCRIPTION
from envs.types import CheckpointError


def check_finite(weights: dict[str, Tensor]) -> None:
    """Assert that all weights are finite.

    Raises:
        CheckpointError: names the first tensor with a value that is not.
    """
    for name, tensor in weights.items():
        if not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(f"{name} has values that are not finite")


def find_checkpoint(path: Path) -> Path:
    """Return the folder of a checkpoint: the path itself, or that of the best checkpoint of a training run.

    Raises:
        CheckpointError: there is none.
    """
    for folder in (path, path / "checkpoints" / "best", path / "best"):
        if (folder / DESCRIPTION).exists():
            return folder
    raise CheckpointError(f"{path} contains no {DESCRIPTION}; give the folder of a training run or of a checkpoint")
