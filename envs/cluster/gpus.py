"""GPU types: the facts of NVIDIA's data sheets that sizing a cluster or scaling a speed needs."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from envs.types import ClusterError, Gigabytes


@dataclass(frozen=True, slots=True)
class GpuType:
    """One kind of GPU, as its maker states it (peaks without sparsity)."""

    name: str
    year: int  # of introduction
    memory: Gigabytes  # per GPU
    fp32_tflops: float  # peak of the ordinary cores, 10^12 operations a second
    tensor_tflops: float  # peak at 16 bits: tensor cores where there are any, else half or single precision
    memory_bandwidth: float  # gigabytes per second
    source: str


# The K80 is a board of two GPUs: the figures are those of one of them, which is what frameworks see as a device.
GPUS: Mapping[str, GpuType] = MappingProxyType(
    {
        gpu.name: gpu
        for gpu in (
            GpuType(
                "K80",
                2014,
                12.0,
                4.4,
                4.4,
                240.0,
                "NVIDIA Tesla K80 board specification; half of the board, boost clock",
            ),
            GpuType("P100", 2016, 16.0, 10.6, 21.2, 732.0, "NVIDIA Tesla P100 data sheet, SXM2"),
            GpuType("V100", 2017, 16.0, 15.7, 125.0, 900.0, "NVIDIA Tesla V100 data sheet, SXM2 16 GB"),
            GpuType("T4", 2018, 16.0, 8.1, 65.0, 320.0, "NVIDIA T4 data sheet"),
            GpuType("A100", 2020, 80.0, 19.5, 312.0, 2039.0, "NVIDIA A100 data sheet, SXM4 80 GB"),
            # The A800 is an A100 whose NVLink is cut from 600 to 400 GB/s; compute and memory are the same.
            GpuType("A800", 2022, 80.0, 19.5, 312.0, 2039.0, "NVIDIA A800 data sheet, SXM4 80 GB"),
            GpuType("H100", 2022, 80.0, 66.9, 989.4, 3350.0, "NVIDIA H100 data sheet, SXM5"),
        )
    }
)


def gpu(name: str) -> GpuType:
    """The facts of a GPU type.

    Raises:
        ClusterError: no such type in the table; the message names the nearest.
    """
    if name in GPUS:
        return GPUS[name]
    near = difflib.get_close_matches(name.upper(), GPUS, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ClusterError(f"GPU type {name!r} has no data sheet here; known: {', '.join(GPUS)}{hint}")
