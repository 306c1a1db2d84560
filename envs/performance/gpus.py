"""GPU types: datasheet figures."""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
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

    @property
    def performance_index(self) -> float:
        """Geometric mean of single-precision peak and memory bandwidth.

        Convolution and matrix kernels are bound by the peak, element-wise kernels by the bandwidth.
        """
        return math.sqrt(self.fp32_tflops * self.bandwidth_gb_s)


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


def find_gpu_type(name: str) -> GpuType:
    """Return the figures of one GPU type.

    Raises:
        PerformanceError: the name is unknown.
    """
    found = gpu_types().get(name)
    if found is None:
        raise PerformanceError(describe_unknown("GPU type", name, gpu_types()))
    return found
