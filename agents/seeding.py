"""Seeds of all that is random in a training run: unlike each other, and unlike those of a run with the next seed."""

from enum import IntEnum

import numpy as np


class Phase(IntEnum):
    """What a seed is for."""

    IMITATION = 0
    LEARNING = 1
    SAMPLING = 2


def spread(seed: int, phase: Phase, iteration: int = 0, worker: int = 0) -> int:
    """A seed of 31 bits for one place of a run, mixed by NumPy's `SeedSequence`.

    Sums such as seed + worker would give neighbouring runs each other's workloads.
    """
    return int(np.random.SeedSequence([seed, phase, iteration, worker]).generate_state(1)[0] >> 1)
