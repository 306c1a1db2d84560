"""Speeds on GPU types that nobody measured: the rule, and how far it is off on the types that were.

The rule: ln(speed on a type) is linear in ln(index of the type), index = sqrt(single-precision peak x memory
bandwidth). The slope is the model's own least-squares slope over the types it was measured on, pulled towards the
slope of all models together (`common_exponent`) as if by one more observation; the line goes through the measured
type nearest in index. Only computation is scaled: communication keeps its measured time, and so does the share of a
step that the host works (`ModelProfile.gpu_share`).

It is a reconstruction, not a published rule, and crude: leaving out one measured type at a time, half of the
predictions are within a quarter of the measurement, and old or host-bound cases miss by a factor of two to four
(`leave_one_type_out`). The types that no table measures here, H100 above all, can be no better than that.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from envs.performance.gpus import GpuType, gpu_type
from envs.performance.measurements import measured_surface, measured_types
from envs.performance.step_time import StepTime
from envs.performance.zoo import ModelProfile, zoo
from envs.types import FloatArray

PULL = 1.0  # weight of the common slope beside a model's own, in units of squared ln(index)


@dataclass(frozen=True, slots=True)
class ScalingError:
    """One prediction of the rule beside the measurement that it did not see."""

    model: str
    gpu_type: str
    measured: float  # samples/s on one GPU
    predicted: float

    @property
    def relative(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted / self.measured - 1.0


def log_index(kind: str) -> float:
    """Natural logarithm of the speed index of a GPU type."""
    gpu: GpuType = gpu_type(kind)
    return math.log(gpu.speed_index)


@cache
def one_gpu_speed(model: str, kind: str) -> float:
    """Samples/s of a zoo model on one GPU of a measured type, at its usual batch size."""
    batch = np.array(float(zoo()[model].usual_batch(1)))
    one = np.ones(())
    return float(batch / measured_surface(model, kind).seconds(one, one, batch))


@cache
def common_exponent(without: str = "") -> float:
    """The slope of all models together: least squares through the origin over all pairs of measured types.

    Args:
        without: a GPU type to leave out.
    """
    across: list[float] = []
    faster: list[float] = []
    for model in zoo():
        types = [kind for kind in measured_types(model) if kind != without]
        for position, first in enumerate(types):
            for second in types[position + 1 :]:
                across.append(log_index(second) - log_index(first))
                faster.append(math.log(one_gpu_speed(model, second) / one_gpu_speed(model, first)))
    x, y = np.array(across), np.array(faster)
    return float((x @ y) / (x @ x))


@cache
def model_exponent(model: str, without: str = "") -> float:
    """A model's slope: its own, pulled towards that of all models; never negative.

    Args:
        model: a zoo name.
        without: a GPU type to leave out.
    """
    types = [kind for kind in measured_types(model) if kind != without]
    x: FloatArray = np.array([log_index(kind) for kind in types])
    y: FloatArray = np.array([math.log(one_gpu_speed(model, kind)) for kind in types])
    x, y = x - x.mean(), y - y.mean()
    own = (x @ y + PULL * common_exponent(without)) / (x @ x + PULL)
    return max(float(own), 0.0)


def nearest_type(model: str, kind: str, without: str = "") -> str:
    """The measured type of a model whose index is nearest to that of a GPU type."""
    types = [other for other in measured_types(model) if other != without]
    return min(types, key=lambda other: abs(log_index(other) - log_index(kind)))


def speed_ratio(model: str, fast: str, slow: str, without: str = "") -> float:
    """How many times as fast the GPU's part of a step is taken to be on `fast` as on `slow`."""
    return math.exp(model_exponent(model, without) * (log_index(fast) - log_index(slow)))


def surface(profile: ModelProfile, kind: str) -> StepTime:
    """The step-time surface of a model on any GPU type: the measured one, or the nearest measured type's, scaled."""
    if kind in measured_types(profile.name):
        return measured_surface(profile.name, kind)
    nearest = nearest_type(profile.name, kind)
    ratio = speed_ratio(profile.name, kind, nearest)
    return measured_surface(profile.name, nearest).scaled(ratio, profile.gpu_share)


def leave_one_type_out() -> list[ScalingError]:
    """Each measured (model, GPU type) predicted from the model's other measured types; no model sees the type."""
    found = []
    for model, profile in zoo().items():
        for kind in measured_types(model):
            if len(measured_types(model)) < 2:
                continue
            nearest = nearest_type(model, kind, without=kind)
            ratio = speed_ratio(model, kind, nearest, without=kind)
            slower = (1.0 - profile.gpu_share) + profile.gpu_share / ratio
            predicted = one_gpu_speed(model, nearest) / slower
            found.append(ScalingError(model, kind, one_gpu_speed(model, kind), predicted))
    return found
