"""Cost of changing a running job: seconds without progress.

A cost is either computed from the model's size and the storage bandwidth, or looked up in a published table.
Schedulers see the cost that the world charges: a policy that believes another cost is not modelled.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

from envs.performance.zoo import architecture, model_profile
from envs.types import PerformanceError, Seconds

SIA_BELIEVED: dict[str, Seconds] = {
    "deepspeech2": 25.0,
    "resnet50": 250.0,
    "resnet18": 30.0,
    "bert": 120.0,
    "bert_squad": 120.0,
    "yolov3": 45.0,
}
"""Checkpoint and restore as Sia's policy believes, by model (SOSP'23 artifact, sia.py): measured on its cluster."""

SIA_SIMULATED: dict[str, Seconds] = {
    "deepspeech2": 25.0,
    "resnet50": 250.0,
    "resnet18": 50.0,
    "bert": 120.0,
    "bert_squad": 120.0,
    "yolov3": 80.0,
    "ncf": 15.0,
}
"""The same as Sia's simulated world charges (SOSP'23 artifact, applications.py)."""

SIA_OTHER: Seconds = 30.0  # for models that are in neither table

RUBICK_SECONDS: Seconds = 260.0
"""Cost of each placement change and of the first start in Rubick's simulator (MLSys'25 artifact, job.py)."""


GPUS_PER_NODE = 8  # of the nodes that divide the writing of a large checkpoint


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
    """Cost by model size and storage bandwidth: write and read a checkpoint, start the processes, warm up.

    With the checkpoint's size s in GB (`ModelProfile.checkpoint_gb`: weights and optimizer states in single precision)
    and p million parameters:

        warm-up     = min(p * warm_up_per_million, most_warm_up)
        first start = restart + warm-up
        change      = restart + warm-up + 2 s / (storage_gb_s * nodes)

    Nodes are the fewest nodes of eight GPUs on which the model can run; each of them writes and reads its part.

    Sources of the constants:

    - `restart`, 15 s: container, processes, libraries, GPU context. It is the least published cost, that of NCF in
      Sia's simulator, a model with almost no warm-up.
    - `warm_up_per_million`, 0.6 s: building and distributing the model, and the first slow steps. Least squares over
      the logarithms of Sia's measured costs of deepspeech2, resnet18, bert and yolov3, with the other constants as they
      are. The formula deviates from those four by a factor of 1.6 at most.
    - `most_warm_up`, 110 s: the warm-up behind the longest published cost of a model that a GPU can hold alone (bert,
      120 s). Larger models are built in parallel.
    - `storage_gb_s`, 2 GB/s: an assumption; one NVMe disk, or a node's share of a parallel file system.

    Costs are from 15 s (m5) to 258 s (llama30b), as published ones are: 15 to 250 s (Sia, SOSP'23), 30 s (Pollux's
    simulator, OSDI'21), 78 s on average for language models of up to 30 billion parameters (Rubick, MLSys'25), 260 s
    (Rubick's simulator). Size is not everything: Sia's 250 s for resnet50 are mostly ImageNet's, and the formula gives
    31 s; it gives 34 s for NCF, where Sia has 15 s.
    """

    storage_gb_s: float = 2.0  # write and read bandwidth of one node to where checkpoints go, GB/s
    restart: Seconds = 15.0
    warm_up_per_million: Seconds = 0.6
    most_warm_up: Seconds = 110.0

    def __post_init__(self) -> None:
        if not self.storage_gb_s > 0:
            raise PerformanceError(f"storage_gb_s is {self.storage_gb_s}; it must be positive")
        for name in ("restart", "warm_up_per_million", "most_warm_up"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise PerformanceError(f"{name} is {value} s; it must be finite and at least 0")

    def seconds(self, model: str, *, first: bool = False) -> Seconds:
        """See `ReconfigurationCost.seconds`."""
        profile = model_profile(model)
        start = self.restart + min(profile.params_millions * self.warm_up_per_million, self.most_warm_up)
        if first:
            return start
        nodes = -(-profile.min_gpus // GPUS_PER_NODE)
        return start + 2.0 * profile.checkpoint_gb / (self.storage_gb_s * nodes)


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
        name = architecture(model)
        return 0.0 if first and not self.charge_first else self.table.get(name, self.other)


def sia_beliefs() -> CostByTable:
    """Return the cost by model that Sia's policy believes; a first start is free."""
    return CostByTable(dict(SIA_BELIEVED), SIA_OTHER)


def sia_simulated() -> CostByTable:
    """Return the cost by model that Sia's simulated world charges, for a first start too."""
    return CostByTable(dict(SIA_SIMULATED), SIA_OTHER, charge_first=True)


def rubick_cost() -> CostByTable:
    """Return Rubick's cost: 260 s for every change and for the first start."""
    return CostByTable({}, RUBICK_SECONDS, charge_first=True)


def no_cost() -> CostByTable:
    """Return a cost of 0 for every change."""
    return CostByTable({}, 0.0)
