"""Cost of changing a running job: seconds without progress.

A cost is either computed from the model's size and the storage bandwidth, or looked up in a published table.
"""

from dataclasses import dataclass, field
from typing import Protocol

from envs.performance.zoo import model_profile, zoo_name
from envs.types import PerformanceError, Seconds

SIA_SECONDS: dict[str, Seconds] = {
    "deepspeech2": 25.0,
    "resnet50": 250.0,
    "resnet18": 30.0,
    "bert": 120.0,
    "bert_squad": 120.0,
    "yolov3": 45.0,
}
"""Checkpoint and restore by model in Sia's simulator (Jayaram Subramanya et al., SOSP'23); 30 s for all others."""

SIA_OTHER: Seconds = 30.0

RUBICK_SECONDS: Seconds = 260.0
"""Cost of each placement change and of the first start in Rubick's simulator (MLSys'25 artifact, job.py)."""


class ReconfigurationCost(Protocol):
    """Seconds that a job makes no progress when it starts, or when its GPUs, plan or batch size change."""

    def seconds(self, model: str, *, first: bool = False) -> Seconds:
        """Return the seconds without progress.

        Args:
            model: zoo name or alias.
            first: whether this is the job's first start, without a checkpoint.
        """
        ...


@dataclass(frozen=True, slots=True)
class CostBySize:
    """Cost of writing a checkpoint, restarting and reading it: 2 size / bandwidth + restart; a first start: restart.

    The size is `ModelProfile.checkpoint_gb`: weights and optimizer states in single precision. The default of 1 GB/s is
    that of a networked file system. The 20 s for starting the container, the framework and the data loader are a guess
    in the range that Pollux and Sia report (10 to 30 s).
    """

    storage_gb_s: float = 1.0  # write and read bandwidth to where checkpoints go, GB/s
    restart: Seconds = 20.0

    def __post_init__(self) -> None:
        if not self.storage_gb_s > 0:
            raise PerformanceError(f"storage_gb_s is {self.storage_gb_s}; it must be positive")
        if not self.restart >= 0:
            raise PerformanceError(f"restart is {self.restart} s; it must be at least 0")

    def seconds(self, model: str, *, first: bool = False) -> Seconds:
        """See `ReconfigurationCost.seconds`."""
        size = model_profile(model).checkpoint_gb
        return self.restart + (0.0 if first else 2.0 * size / self.storage_gb_s)


@dataclass(frozen=True, slots=True)
class CostByTable:
    """Cost by model from a table; `other` for models that are not in it."""

    table: dict[str, Seconds] = field(default_factory=dict)
    other: Seconds = SIA_OTHER
    charge_first: bool = False  # whether a first start has the cost too

    def __post_init__(self) -> None:
        for model, cost in {**self.table, "other": self.other}.items():
            if not cost >= 0:
                raise PerformanceError(f"reconfiguration of {model}: {cost} s; it must be at least 0")

    def seconds(self, model: str, *, first: bool = False) -> Seconds:
        """See `ReconfigurationCost.seconds`."""
        name = zoo_name(model)
        return 0.0 if first and not self.charge_first else self.table.get(name, self.other)


def sia_cost() -> CostByTable:
    """Return Sia's cost by model; a first start is free."""
    return CostByTable(dict(SIA_SECONDS), SIA_OTHER)


def rubick_cost() -> CostByTable:
    """Return Rubick's cost: 260 s for every change and for the first start."""
    return CostByTable({}, RUBICK_SECONDS, charge_first=True)


def no_cost() -> CostByTable:
    """Return a cost of 0 for every change."""
    return CostByTable({}, 0.0)
