"""Statistical efficiency: how much progress a sample makes at each batch size, and which batch sizes are offered.

Pollux (Qiao et al., OSDI'21, section 3.1) defines the efficiency of a batch size m relative to an initial one m0 as

    efficiency_t(m) = (phi_t + m0) / (phi_t + m),

where phi_t, the gradient noise scale, is the variance of the gradient over its squared norm, in samples, and changes
during training. Here every model has one constant noise scale phi, fitted to the progress of whole training runs: an
average over training. A job of this project therefore gains the same from a large batch early and late, while in
Pollux's runs phi_t mostly grows, so that larger batches pay later.

Measured: `tables/noise.csv`, the noise scales of six applications, fitted to the progress at 6 to 8 batch sizes each
that the artifact of Pollux publishes. Batch sizes that were held out are predicted with an error of at most 5 %
(`experiments.performance.efficiency`). Assumed, and only where the setting says so: `ASSUMED_NOISE_SCALE`.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from envs.performance.model import PerformanceModel
from envs.performance.zoo import ModelProfile, architecture, batch_range, model_profile, zoo
from envs.types import PerformanceError, plain_type, without_constraints

EfficiencySetting = Literal["measured", "assumed", "every_sample"]
EFFICIENCY_SETTINGS: tuple[EfficiencySetting, ...] = ("measured", "assumed", "every_sample")

ASSUMED_NOISE_SCALE = 1.0
"""Noise scale of a model without a measurement under `assumed`, as a multiple of the largest batch of its range.

The least of the six measured ratios (YOLOv3: 511 to 512), so that the assumption is cautious: at the largest batch of
its range a model keeps about half of the progress that a sample makes at small batches.
"""


@dataclass(frozen=True, slots=True)
class StatisticalEfficiency:
    """Progress per sample relative to that at a reference batch size (Pollux, section 3.1).

    efficiency(M) = (phi + M0) / (phi + M), where phi is the gradient noise scale and M0 the reference batch size.
    At M = M0 it is 1. For M far below phi a larger batch loses almost no efficiency; for M far above phi the efficiency
    falls in proportion to 1 / M.
    """

    noise_scale: float  # phi, in samples: variance of the gradient over its squared norm; 0: progress is by steps
    reference_batch: int  # M0

    def __post_init__(self) -> None:
        if not self.noise_scale >= 0:
            raise PerformanceError(f"noise_scale is {self.noise_scale}; it must be a number of at least 0")
        if self.reference_batch < 1:
            raise PerformanceError(f"reference_batch is {self.reference_batch}; it must be at least 1")

    def at(self, batch_size: float) -> float:
        """Efficiency at a global batch size, at most 1 for batches of the reference size or more."""
        return (self.noise_scale + self.reference_batch) / (self.noise_scale + batch_size)


class NoiseScale(NamedTuple):
    """The measured noise scale of one model; a row of `tables/noise.csv`."""

    noise_scale: float  # phi, in samples
    initial_batch: int  # m0 of the source
    min_batch: int  # the global batch sizes at which progress was measured lie between these two
    max_batch: int


@cache
def noise_scales() -> dict[str, NoiseScale]:
    """Read the measured noise scales by zoo name."""
    text = (files("envs.performance") / "tables" / "noise.csv").read_text(encoding="utf-8")
    measured = {
        row["model"]: NoiseScale(
            float(row["noise_scale"]), int(row["initial_batch"]), int(row["min_batch"]), int(row["max_batch"])
        )
        for row in csv.DictReader(text.splitlines())
    }
    return {name: measured[architecture(name)] for name in zoo() if architecture(name) in measured}


@runtime_checkable
class MeasuredBatches(Protocol):
    """A performance model that knows at which batch sizes its throughputs were measured."""

    def measured_batches(self, model: str, gpu_type: str) -> tuple[float, float] | None:
        """Return the least and most samples per GPU at which throughput was measured; None: at one batch size only."""
        ...


class BatchSizes:
    """The batch sizes that jobs may choose, and the efficiency of each; `docs/world.md` has the rules.

    Args:
        performance: the performance model. If it has the method of `MeasuredBatches`, batch sizes at which throughputs
            were not measured are not offered.
        setting: "measured" and "assumed" as in `Scenario.statistical_efficiency`; with "every_sample" every sample
            counts alike, and the performance model alone limits the batch size.
        fixed: whether every job keeps its usual batch size, as with `Scenario.batch_sizes` "usual".
    """

    def __init__(self, performance: PerformanceModel, setting: EfficiencySetting, *, fixed: bool = False) -> None:
        self.performance, self.setting, self.fixed = performance, setting, fixed
        self._offered: dict[tuple[str, str, int], tuple[int, int] | None] = {}

    def efficiency(self, model: str, num_gpus: int, batch_size: int | None) -> float:
        """Return the progress of a sample relative to one at the usual batch size on the same number of GPUs.

        It is 1 for the usual batch size, for a batch size of None, and for models without a noise scale.

        Args:
            model: zoo name or alias, or a name that only another performance model knows.
            num_gpus: GPUs of the job.
            batch_size: global; None for the usual one.
        """
        if batch_size is None or self.setting == "every_sample":
            return 1.0
        noise, profile = self.noise_scale(model), _profile_of(model)
        if noise is None or profile is None:
            return 1.0
        return StatisticalEfficiency(noise, profile.usual_batch(num_gpus)).at(batch_size)

    def noise_scale(self, model: str) -> float | None:
        """Return the noise scale of a model in samples: measured, assumed, or None if it has none."""
        profile = _profile_of(model)
        if profile is None or self.setting == "every_sample":
            return None
        if profile.name in noise_scales():
            return noise_scales()[profile.name].noise_scale
        return ASSUMED_NOISE_SCALE * profile.max_batch if self.setting == "assumed" else None

    def offered(
        self, model: str, gpu_type: str, num_gpus: int, min_batch: int = 0, max_batch: int = 0
    ) -> tuple[int, int] | None:
        """Return both ends of the range of batch sizes that may be named; None if no size but the usual one may be.

        The range is the intersection of the job's own range, that of its model, and the ranges within which progress
        (not with `assumed`, for a model without a measurement) and throughput were measured. The most samples per GPU
        that were measured stand in for what a GPU's memory holds.

        Args:
            model: zoo name or alias, or a name that only another performance model knows.
            gpu_type: type of the job's GPUs.
            num_gpus: GPUs of the job.
            min_batch: the job's own lower end; 0 for none.
            max_batch: the job's own upper end; 0 for none.
        """
        if self.fixed:
            return None
        if self.setting == "every_sample":
            return batch_range(model, min_batch, max_batch)
        key = (model, gpu_type, num_gpus)
        if key not in self._offered:
            self._offered[key] = self._measured_range(*key)
        range_ = self._offered[key]
        if range_ is None:
            return None
        low, high = max(range_[0], min_batch), min(range_[1], max_batch or range_[1])
        return (low, high) if low <= high else None

    def check(self, model: str, gpu_types: Sequence[str], num_gpus: int, batch_size: int | None) -> None:
        """Assert that a placement may name a batch size, as far as the job's own range allows.

        Raises:
            PerformanceError: it may not; names the model, the batch size, what is offered, and the fix.
        """
        profile = _profile_of(model)
        if batch_size is None or (self.setting == "every_sample" and not self.fixed):
            return
        if profile is not None and batch_size == profile.usual_batch(num_gpus):
            return
        if self.fixed:
            raise PerformanceError(
                f"model {model} on {num_gpus} GPUs: batch size {batch_size} is not the usual one, and "
                "scenario.batch_sizes is usual; leave the batch size None, or set scenario.batch_sizes=chosen"
            )
        for gpu_type in gpu_types:
            span = self.offered(model, gpu_type, num_gpus)
            if span is None or not span[0] <= batch_size <= span[1]:
                offer = "the usual one" if span is None else f"the usual one or {span[0]} to {span[1]}"
                raise PerformanceError(
                    f"model {model} on {num_gpus} {gpu_type}: batch size {batch_size} is not offered, because progress "
                    f"or throughput was not measured there; use {offer}, or set scenario.statistical_efficiency="
                    "every_sample"
                )

    def _measured_range(self, model: str, gpu_type: str, num_gpus: int) -> tuple[int, int] | None:
        profile = _profile_of(model)
        if profile is None or self.noise_scale(model) is None:
            return None
        low, high = max(profile.min_batch, num_gpus), profile.max_batch
        if noise := noise_scales().get(profile.name):
            low, high = max(low, noise.min_batch), min(high, noise.max_batch)
        if isinstance(self.performance, MeasuredBatches):
            per_gpu = self.performance.measured_batches(without_constraints(model), plain_type(gpu_type))
            if per_gpu is None:
                return None
            low, high = max(low, math.ceil(per_gpu[0] * num_gpus)), min(high, math.floor(per_gpu[1] * num_gpus))
        return (low, high) if low <= high else None


def efficiency_notes(models: Sequence[str], setting: str) -> list[str]:
    """Return the notes that every result must carry: which noise scales are assumed, or that none is used.

    Args:
        models: names of the models of the jobs.
        setting: as for `BatchSizes`.
    """
    if setting == "every_sample":
        return ["every sample counts alike at every batch size: statistical efficiency is left out"]
    known = [profile.name for model in models if (profile := _profile_of(model))]
    assumed = sorted({name for name in known if name not in noise_scales()})
    if setting != "assumed" or not assumed:
        return []
    scale = f"{ASSUMED_NOISE_SCALE:g} times the largest batch size of the model's range"
    return [f"statistical efficiency assumed, not measured (noise scale {scale}): {', '.join(assumed)}"]


@cache
def _profile_of(model: str) -> ModelProfile | None:
    try:
        return model_profile(model)
    except PerformanceError:
        return None
