"""Where workloads come from: episodes to train on and fixed workloads to report on, apart from each other."""

import difflib
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from envs.types import TraceError
from envs.workloads.workload import Workload


class WorkloadSource(Protocol):
    """A supply of workloads in named splits that share no job.

    All workloads of a source have the same `models`, so that tables by model are built once.
    """

    @property
    def name(self) -> str:
        """Shown in results."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """Models that jobs may train, in the order of `Workload.models`."""
        ...

    @property
    def num_jobs(self) -> int:
        """Most jobs of an episode; buffers are sized by it."""
        ...

    def episode(self, rng: np.random.Generator, split: str = "train") -> Workload:
        """One workload of training size, drawn from a split.

        Raises:
            TraceError: there is no such split.
        """
        ...

    def evaluation(self, split: str | None = None) -> tuple[Workload, ...]:
        """The fixed workloads on which results are reported, the same at every call; None for the source's own choice.

        Raises:
            TraceError: there is no such split.
        """
        ...


def check_split(source: str, split: str, splits: Iterable[str]) -> None:
    """Assert that a split exists.

    Raises:
        TraceError: it does not; the message names the nearest.
    """
    names = list(splits)
    if split not in names:
        near = difflib.get_close_matches(split, names, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise TraceError(f"workload {source}: there is no split {split!r}; it has {', '.join(names)}{hint}")
