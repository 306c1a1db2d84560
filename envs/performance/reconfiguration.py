"""What it costs to change a running job: seconds in which it makes no progress.

Two kinds: computed from the model's size and the storage it goes to, and looked up in a published table.
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
"""Checkpoint and restore by model in the simulator of Sia (Jayaram Subramanya et al., SOSP'23); 30 s for all others."""

SIA_OTHER: Seconds = 30.0

RUBICK_SECONDS: Seconds = 260.0
"""Every placement change, and the first start, in the simulator of Rubick (MLSys'25 artifact, job.py)."""


class ReconfigurationCost(Protocol):
    """How long a job stands still when it starts, or when its GPUs, plan or batch size change."""

    def seconds(self, model: str, *, first: bool = False) -> Seconds:
        """Seconds without progress.

        Args:
            model: zoo name or alias.
            first: whether it is the job's first start, when there is no checkpoint yet.
        """
        ...


@dataclass(frozen=True, slots=True)
class CostBySize:
    """Write a checkpoint, start again, read it back: 2 size / bandwidth + restart. A first start only starts.

    Size is `ModelProfile.checkpoint_gb`: weights and optimizer states in single precision. The default of 1 GB/s is
    that of a networked file system; 20 s for the container, the framework and the data loader is a guess in the range
    that Pollux and Sia report (10 to 30 s).
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
    """Seconds by model; `other` for those that are not in the table."""

    table: dict[str, Seconds] = field(default_factory=dict)
    other: Seconds = SIA_OTHER
    charge_first: bool = False  # whether a first start pays too

    def __post_init__(self) -> None:
        for model, cost in {**self.table, "other": self.other}.items():
            if not cost >= 0:
                raise PerformanceError(f"reconfiguration of {model}: {cost} s; it must be at least 0")

    def seconds(self, model: str, *, first: bool = False) -> Seconds:
        """See `ReconfigurationCost.seconds`."""
        name = zoo_name(model)
        return 0.0 if first and not self.charge_first else self.table.get(name, self.other)


def sia_cost() -> CostByTable:
    """Sia's per-model figures; a first start is free."""
    return CostByTable(dict(SIA_SECONDS), SIA_OTHER)


def rubick_cost() -> CostByTable:
    """Rubick's 260 s for everything, the first start included."""
    return CostByTable({}, RUBICK_SECONDS, charge_first=True)


def no_cost() -> CostByTable:
    """Changes are free."""
    return CostByTable({}, 0.0)
