"""Workload sources: episodes to train on, and fixed workloads to report on that share no job with them."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from envs.types import TraceError, did_you_mean
from envs.workloads.workload import Workload


class WorkloadSource(Protocol):
    """A supply of workloads in named splits that share no jobs.

    All workloads of a source have the same `models`, so that tables by model need to be built only once.
    """

    @property
    def name(self) -> str:
        """Shown in results."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """Models of the jobs, in the order of `Workload.models`."""
        ...

    @property
    def num_jobs(self) -> int:
        """Most jobs of an episode, by which buffers are sized."""
        ...

    def episode(self, rng: np.random.Generator, split: str = "train") -> Workload:
        """Draw one workload of training size from a split.

        Raises:
            TraceError: the split does not exist.
        """
        ...

    def evaluation(self, split: str | None = None) -> tuple[Workload, ...]:
        """Return the fixed workloads on which results are reported, the same at every call.

        Args:
            split: their split; the source's own choice if None.

        Raises:
            TraceError: the split does not exist.
        """
        ...


def check_split(source: str, split: str, splits: Iterable[str]) -> None:
    """Assert that a split exists.

    Raises:
        TraceError: it does not exist; the message suggests the nearest name.
    """
    names = list(splits)
    if split not in names:
        hint = did_you_mean(split, names)
        raise TraceError(f"workload {source}: there is no split {split!r}; it has {', '.join(names)}{hint}")
