"""Small workloads, sources of given workloads, and a comparison of observations."""

from collections.abc import Mapping, Sequence

import numpy as np

from envs.types import JobSpec
from envs.workloads import Workload
from envs.workloads.source import check_split


class Fixed:
    """A source that plays given workloads: one of them at random, or all of them."""

    name = "fixed"

    def __init__(self, *workloads: Workload) -> None:
        self.workloads = workloads
        self.models = tuple(dict.fromkeys(model for workload in workloads for model in workload.models))
        self.num_jobs = max(len(workload) for workload in workloads)

    def episode(self, rng: np.random.Generator, split: str = "train") -> Workload:
        """One of them."""
        check_split(self.name, split, ("train",))
        return self.workloads[int(rng.integers(len(self.workloads)))]

    def evaluation(self, split: str | None = None) -> tuple[Workload, ...]:
        """All of them."""
        return self.workloads


def jobs_like(*rows: tuple[float, int, float] | tuple[float, int, float, int, int]) -> Workload:
    """Jobs from (submit time, GPUs, samples) or (submit time, GPUs, samples, least, most GPUs)."""
    specs = []
    for i, (submit, gpus, work, *elastic) in enumerate(rows):
        least, most = elastic or (0, 0)
        specs.append(JobSpec(i, submit, gpus, work, "any", min_gpus=int(least), max_gpus=int(most)))
    return Workload.of(specs)


def equal_observations(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether nested dicts of arrays are equal to the bit."""
    if one.keys() != other.keys():
        return False
    for key, value in one.items():
        if isinstance(value, Mapping):
            if not equal_observations(value, other[key]):  # type: ignore[arg-type]
                return False
        elif not np.array_equal(value, other[key]):  # type: ignore[arg-type]
            return False
    return True


def bursts(seed: int, num_jobs: int = 12, most_gpus: int = 6, models: Sequence[str] = ("any",)) -> Workload:
    """A drawn workload: jobs a few at a time, half of them elastic."""
    rng = np.random.default_rng(seed)
    specs = []
    for i in range(num_jobs):
        gpus = int(rng.integers(1, most_gpus + 1))
        elastic = bool(rng.integers(2))
        specs.append(
            JobSpec(
                i,
                float(rng.integers(0, 60)),
                gpus,
                float(rng.uniform(5, 120)),
                str(rng.choice(models)),
                min_gpus=int(rng.integers(1, gpus + 1)) if elastic else 0,
                max_gpus=int(rng.integers(gpus, most_gpus + 1)) if elastic else 0,
            )
        )
    return Workload.of(specs)
