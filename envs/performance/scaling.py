"""Throughputs on GPU types that were not measured: the scaling rule and its error on the measured types.

The rule: ln(throughput on a type) is linear in ln(index of the type), index = sqrt(peak x memory bandwidth). The peak
is that of the tensor cores in half precision, and in single precision for types without them, to which V100 connects.
The slope is the model's own least-squares slope over the types on which it was measured, pulled towards the slope of
all models together (`common_exponent`) with the weight of one more observation. The line goes through the measured type
with the nearest index. Only computation is scaled: communication keeps its measured time, and so does the CPUs' share
of a step (`ModelProfile.gpu_share`).

The rule is our reconstruction, not published, and crude: predictions for old types or CPU-bound models miss by a factor
of two to four (`leave_one_type_out`). `docs/performance.md` compares it with sources that it was not fitted to.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from envs.performance.gpus import find_gpu_type
from envs.performance.measurements import measured_points, measured_surface, measured_types
from envs.performance.step_time import StepTime
from envs.performance.zoo import ModelProfile, zoo
from envs.types import FloatArray

LINK = "V100"  # both of its peaks are known, and models were measured on it and on types without tensor cores
PULL = 1.0  # weight of the common slope beside a model's own, in units of squared ln(index)


@dataclass(frozen=True, slots=True)
class ScalingError:
    """One prediction of the rule and the measurement, which was left out."""

    model: str
    gpu_type: str
    measured: float  # samples/s on one GPU
    predicted: float

    @property
    def relative(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted / self.measured - 1.0


def log_index(gpu_type: str) -> float:
    """Return the natural logarithm of a GPU type's performance index."""
    gpu, link = find_gpu_type(gpu_type), find_gpu_type(LINK)
    if not gpu.tensor_tflops:
        return math.log(gpu.fp32_tflops * gpu.bandwidth_gb_s) / 2
    faster = gpu.tensor_tflops * gpu.bandwidth_gb_s / (link.tensor_tflops * link.bandwidth_gb_s)
    return math.log(link.fp32_tflops * link.bandwidth_gb_s * faster) / 2


def types_without(model: str, without: str = "") -> list[str]:
    """Return the GPU types on which a zoo model was measured, but for a type or a source (a key of `TESTBEDS`)."""
    known = measured_points()
    return [name for name in measured_types(model) if without not in (name, known[model, name][0].source)]


@cache
def one_gpu_throughput(model: str, gpu_type: str) -> float:
    """Return samples/s of a zoo model on one GPU of a measured type, at its usual batch size."""
    batch = np.array(float(zoo()[model].usual_batch(1)))
    one = np.ones(())
    return float(batch / measured_surface(model, gpu_type).seconds(one, one, batch))


@cache
def common_exponent(without: str = "") -> float:
    """Return the slope of all models together, through the origin, over all pairs of measured types.

    It is that of the least absolute deviations, since some models wait for their input on any GPU.

    Args:
        without: a GPU type or a source to leave out.
    """
    across: list[float] = []
    faster: list[float] = []
    for model in zoo():
        types = types_without(model, without)
        for position, first in enumerate(types):
            for second in types[position + 1 :]:
                across.append(log_index(second) - log_index(first))
                faster.append(math.log(one_gpu_throughput(model, second) / one_gpu_throughput(model, first)))
    x, y = np.array(across), np.array(faster)
    order = np.argsort(y / x)
    weight = np.cumsum(np.abs(x)[order])
    return float((y / x)[order][np.searchsorted(weight, weight[-1] / 2)])


@cache
def model_exponent(model: str, without: str = "") -> float:
    """Return a model's slope: its own, pulled towards that of all models; at least 0.

    Args:
        model: a zoo name.
        without: a GPU type or a source to leave out.
    """
    types = types_without(model, without)
    x: FloatArray = np.array([log_index(gpu_type) for gpu_type in types])
    y: FloatArray = np.array([math.log(one_gpu_throughput(model, gpu_type)) for gpu_type in types])
    x, y = x - x.mean(), y - y.mean()
    own = (x @ y + PULL * common_exponent(without)) / (x @ x + PULL)
    return max(float(own), 0.0)


def nearest_type(model: str, gpu_type: str, without: str = "") -> str:
    """Return the model's measured type with the index nearest to that of a GPU type."""
    return min(types_without(model, without), key=lambda other: abs(log_index(other) - log_index(gpu_type)))


def throughput_ratio(model: str, fast: str, slow: str, without: str = "") -> float:
    """Return the estimated speedup of the GPU's part of a step on type `fast` over type `slow`."""
    return math.exp(model_exponent(model, without) * (log_index(fast) - log_index(slow)))


def surface(profile: ModelProfile, gpu_type: str, without: str = "") -> StepTime:
    """Return a model's step-time surface on any GPU type: measured, or scaled from the nearest measured type.

    Args:
        profile: the model.
        gpu_type: the type.
        without: a GPU type or a source whose measurements are left out; the model must have others.
    """
    if gpu_type in types_without(profile.name, without):
        return measured_surface(profile.name, gpu_type)
    nearest = nearest_type(profile.name, gpu_type, without)
    ratio = throughput_ratio(profile.name, gpu_type, nearest, without)
    return measured_surface(profile.name, nearest).scale(ratio, profile.gpu_share)


def leave_one_type_out() -> list[ScalingError]:
    """Predict each measured (model, GPU type) from the model's other types; all models' fits leave out the type."""
    found = []
    for model, profile in zoo().items():
        for gpu_type in measured_types(model):
            if len(measured_types(model)) < 2:
                continue
            nearest = nearest_type(model, gpu_type, without=gpu_type)
            ratio = throughput_ratio(model, gpu_type, nearest, without=gpu_type)
            slower = (1.0 - profile.gpu_share) + profile.gpu_share / ratio
            predicted = one_gpu_throughput(model, nearest) / slower
            found.append(ScalingError(model, gpu_type, one_gpu_throughput(model, gpu_type), predicted))
    return found
