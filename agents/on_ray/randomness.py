"""The state of the process's own random generators, from which RLlib's learner shuffles and runners sample."""

import random
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """Return the states of the global generators of Python, NumPy and torch (on the CPU)."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002  RLlib shuffles minibatches with it
        "torch": torch.get_rng_state(),
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Continue from the result of `random_state`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
