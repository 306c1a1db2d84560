"""What both of RLlib's algorithms here need besides training: Ray, and states on disk. RLlib's states are pickles."""

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

from agents.rllib.quiet import quieten
from envs.types import CheckpointError

LEARNER = "learner.pkl"


def start_ray() -> bool:
    """Start Ray quietly unless it runs; return whether it was started, so that the caller must stop it."""
    quieten()
    if ray.is_initialized():
        return False
    ray.init(log_to_driver=False, include_dashboard=False, object_store_memory=400_000_000, logging_level="ERROR")
    return True


def save_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write a state; the file is replaced as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{LEARNER}.part"
    part.write_bytes(pickle.dumps(dict(state)))
    part.replace(folder / LEARNER)


def load_state(folder: Path) -> dict[str, Any]:
    """Read the result of `save_state`. Only a state of one's own may be read: a pickle can run anything."""
    found: dict[str, Any] = pickle.loads((folder / LEARNER).read_bytes())
    return found


@contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Turn whatever restoring raises into one error.

    Raises:
        CheckpointError: the state is missing or corrupt.
    """
    try:
        yield
    except Exception as error:  # damaged pickles raise almost anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise CheckpointError(f"{path} cannot be restored ({reason}); start a new run") from error
