"""Seeds of the random parts of a training run. They differ from each other and from those of runs with other seeds."""

from enum import IntEnum

import numpy as np


class Phase(IntEnum):
    """The part of a run that a seed is for."""

    IMITATION = 0
    LEARNING = 1
    SAMPLING = 2
    AUDIT = 3
    WORLDS = 4


def derive_seed(seed: int, phase: Phase, iteration: int = 0, worker: int = 0) -> int:
    """Derive a 31-bit seed for one part of a run with NumPy's `SeedSequence`.

    Sums such as seed + worker would give runs with consecutive seeds each other's workloads.
    """
    return int(np.random.SeedSequence([seed, phase, iteration, worker]).generate_state(1)[0] >> 1)
