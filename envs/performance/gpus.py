"""GPU types: datasheet figures."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from envs.performance.names import describe_unknown
from envs.types import Gigabytes, PerformanceError

USABLE_MEMORY = 0.92
"""Share of a GPU's memory left after the driver, the libraries' contexts and fragmentation (estimated)."""


@dataclass(frozen=True, slots=True)
class GpuType:
    """Datasheet figures of one GPU type (column `source` of `tables/gpus.csv`)."""

    name: str
    fp32_tflops: float
    tensor_tflops: float  # dense half-precision peak of the tensor cores; 0 without them
    bandwidth_gb_s: float  # device memory, GB/s
    memory_gb: Gigabytes
    capability: float  # CUDA compute capability
    intra_node_gb_s: float  # all-reduce bus bandwidth within a node, GB/s: PCIe 3, or the type's usual NVLink
    source: str

    @property
    def usable_gb(self) -> Gigabytes:
        """Memory that a job can fill."""
        return self.memory_gb * USABLE_MEMORY


@cache
def gpu_types() -> Mapping[str, GpuType]:
    """Read all GPU types by name from `tables/gpus.csv`, oldest first."""
    text = (files("envs.performance") / "tables" / "gpus.csv").read_text(encoding="utf-8")
    types = {
        row["name"]: GpuType(
            name=row["name"],
            fp32_tflops=float(row["fp32_tflops"]),
            tensor_tflops=float(row["tensor_tflops"]),
            bandwidth_gb_s=float(row["bandwidth_gb_s"]),
            memory_gb=float(row["memory_gb"]),
            capability=float(row["capability"]),
            intra_node_gb_s=float(row["intra_node_gb_s"]),
            source=row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    }
    return MappingProxyType(types)


@dataclass(frozen=True, slots=True)
class Parts:
    """How a GPU is divided; see `envs.performance.slices`.

    Attributes:
        gpu_type: the whole GPU's.
        number: of equal parts.
        compute: share of the compute units that a part has.
        memory: share of the memory, and of its bandwidth.
    """

    gpu_type: str
    number: int
    compute: float
    memory: float


MIG_TYPES = ("A100", "A800", "H100", "H200", "B200")
MIG_PROFILES: Mapping[int, tuple[float, float]] = MappingProxyType(
    {2: (3 / 7, 1 / 2), 3: (2 / 7, 1 / 4), 4: (1 / 7, 1 / 4), 7: (1 / 7, 1 / 8)}
)
"""Shares of compute and memory by equal parts: 3g.40gb, 2g.20gb, 1g.20gb and 1g.10gb of 80 GB (NVIDIA's MIG guide)."""

MOST_PARTS = 8


def find_parts(name: str) -> Parts:
    """Return how a GPU type is divided; a name without "/" is one part.

    Raises:
        PerformanceError: it is no number of parts into which that type can be divided.
    """
    gpu_type, mark, number = name.partition("/")
    if not mark:
        return Parts(gpu_type, 1, 1.0, 1.0)
    possible = tuple(MIG_PROFILES) if gpu_type in MIG_TYPES else tuple(range(2, MOST_PARTS + 1))
    if number not in map(str, possible):
        raise PerformanceError(
            f"GPU type {name!r}: {gpu_type} can be divided into {', '.join(map(str, possible))} parts; "
            f"write {gpu_type}/{possible[0]} for one of {possible[0]}"
        )
    count = int(number)
    compute, memory = MIG_PROFILES[count] if gpu_type in MIG_TYPES else (1 / count, 1 / count)
    return Parts(gpu_type, count, compute, memory)


@cache
def find_gpu_type(name: str) -> GpuType:
    """Return the figures of one GPU type, or of a slice, such as "A100/4" (see `envs.performance.slices`).

    Raises:
        PerformanceError: the name is unknown.
    """
    whole, mark, _ = name.partition("/")
    found = gpu_types().get(whole)
    if found is None:
        raise PerformanceError(describe_unknown("GPU type", name, gpu_types()))
    if not mark:
        return found
    parts = find_parts(name)
    return replace(
        found,
        name=name,
        fp32_tflops=found.fp32_tflops * parts.compute,
        tensor_tflops=found.tensor_tflops * parts.compute,
        bandwidth_gb_s=found.bandwidth_gb_s * parts.memory,
        memory_gb=found.memory_gb * parts.memory,
    )
