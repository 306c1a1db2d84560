"""Fit the performance model to a handful of profiled iterations.

The objective is the mean squared logarithmic error (its root is the RMSLE, Rubick's objective) over all measured times:
the iteration, and the parts forward, compute and optimizer if the profiler gives them. We add two things. A prior pulls
each figure weakly towards a value that the hardware suggests, because seven points cannot determine every figure
(without an offload point three of the seven parameters have no effect). The loss is robust (soft L1), so that one
wrong measurement does not distort the fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
from scipy import optimize

from envs.performance.rubick.iteration import (
    POINT,
    Figures,
    Forward,
    Hardware,
    Links,
    ModelShape,
    PerfParams,
    Points,
    iteration_time,
)
from envs.types import BoolArray, FloatArray, PerformanceError

Times: TypeAlias = Sequence[float] | FloatArray  # ms
TIME_PARTS = ("forward", "compute", "optimizer", "total")
ROBUST_SCALE = 0.1  # log error above which a measurement counts as an outlier
PART_WEIGHT = 0.2  # of a part relative to an iteration; low because profilers divide overlapping work arbitrarily
PRIOR_WEIGHT = 0.02  # of one standard deviation of the prior against a log error of 1

# The prior of a model's figures before any measurement, and their uncertainty (standard deviation of the logarithm).
# Bandwidths: what an all-reduce gets of an A800's NVLink (400 GB/s in all) and of a 100 Gbit/s card.
PRIOR_PARAMS = PerfParams(k_bwd=2.0, k_sync=2.0, k_opt=0.03, k_opt_off=6.0, k_const=15.0, k_off=2.0, k_swap=2.0)
PRIOR_LINKS = Links(intra=80.0, inter=13.0, pcie=8.0)
FLOPS = 52e12  # of a forward pass in half precision on an A800 at these models' batch sizes: a sixth of the peak
SPREAD = (0.4, 0.7, 1.5, 0.6, 1.0, 0.7, 0.7, 1.5, 0.7, 0.4, 0.7, 0.4, 0.7)
LOWER_BOUNDS = (1.0, 1.0, 1e-6, 1e-3, 1e-2, 1.0, 1.0, 1e-2, 1e-3, 0.3, 5.0, 1.0, 0.3)
UPPER_BOUNDS = (4.0, 50.0, 1.0, 100.0, 500.0, 50.0, 50.0, 1e3, 1e4, 5.0, 400.0, 50.0, 64.0)


@dataclass(frozen=True, slots=True)
class Profile:
    """Measured iterations and their times in ms. A part that was not measured is 0.0."""

    rows: Points  # POINT[num_points]
    total: FloatArray  # float64[num_points]: the iteration
    forward: FloatArray
    compute: FloatArray
    optimizer: FloatArray

    def __post_init__(self) -> None:
        for name in TIME_PARTS:
            values = getattr(self, name)
            if values.shape != self.rows.shape:
                raise PerformanceError(f"profile: {name} has {values.size} values for {self.rows.size} points")
            bad = np.flatnonzero(~np.isfinite(values) | (values < 0) | ((values == 0) & (name == "total")))
            if bad.size:
                raise PerformanceError(
                    f"profile: point {bad[0]}, {name} is {values[bad[0]]}; it must be a positive finite time in ms, "
                    "0 for a part that was not measured; correct or remove the point"
                )

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(
        cls,
        rows: Points,
        total: Times,
        *,
        forward: Times | None = None,
        compute: Times | None = None,
        optimizer: Times | None = None,
    ) -> "Profile":
        """Build a profile from iteration times, and from the parts that were measured."""
        parts = (np.zeros(len(rows)) if part is None else part for part in (forward, compute, optimizer))
        return cls(rows, *(np.asarray(values, dtype=np.float64) for values in (total, *parts)))

    def take(self, keep: Sequence[bool] | BoolArray) -> "Profile":
        """Return the points where `keep` is true."""
        mask = np.asarray(keep, dtype=np.bool_)
        return Profile(self.rows[mask], *(getattr(self, name)[mask] for name in ("total", *TIME_PARTS[:3])))

    def __add__(self, other: "Profile") -> "Profile":
        joined = [np.concatenate([getattr(self, n), getattr(other, n)]) for n in ("rows", "total", *TIME_PARTS[:3])]
        return Profile(*joined)


@dataclass(frozen=True, slots=True)
class FitReport:
    """The result of a fit, and its errors."""

    figures: Figures
    num_points: int
    num_measured: int  # measurements: iterations and parts
    rmsle: float  # of the iterations
    largest_error: float  # of an iteration, relative
    from_prior: tuple[str, ...]  # figures that affect no measurement; they keep the prior's values
    at_bound: tuple[str, ...]  # figures at an end of their range

    def summary(self) -> str:
        """Return the report in one line."""
        text = (
            f"{self.num_points} points, {self.num_measured} measurements: RMSLE {self.rmsle:.3f}, "
            f"largest error {self.largest_error:.1%}"
        )
        text += f"; from the prior: {', '.join(self.from_prior)}" if self.from_prior else ""
        return text + (f"; at a bound: {', '.join(self.at_bound)}" if self.at_bound else "")


def prior_figures(shape: ModelShape) -> Figures:
    """Return the figures assumed before any measurement; the forward time is derived from the floating-point work.

    A forward pass takes two operations for each parameter and token of a sample.
    """
    work = 2.0 * shape.parameters * shape.sequence
    return Figures(PRIOR_PARAMS, Forward(fixed=3.0, per_sample=1e3 * work / FLOPS, model_parallel=1.2), PRIOR_LINKS)


def fit_figures(
    shape: ModelShape, profile: Profile, *, prior: Figures | None = None, hardware: Hardware | None = None
) -> FitReport:
    """Fit a model's figures to profiled points.

    Args:
        shape: the model.
        profile: at least one point.
        prior: start of the search and centre of the prior; `prior_figures` if None.
        hardware: the node on which the points were measured.

    Raises:
        PerformanceError: no points.
    """
    if not len(profile):
        raise PerformanceError(f"model {shape.name}: no profiled points to fit on; give at least one")
    lower, upper = np.log(LOWER_BOUNDS), np.log(UPPER_BOUNDS)
    centre = np.clip(np.log(pack_figures(prior or prior_figures(shape))), lower + 1e-9, upper - 1e-9)
    measured = [(name, getattr(profile, name) > 0) for name in TIME_PARTS]
    target = np.concatenate([np.log(getattr(profile, name)[mask]) for name, mask in measured])
    weight = np.concatenate([np.full(mask.sum(), 1.0 if name == "total" else PART_WEIGHT) for name, mask in measured])

    def log_errors(values: FloatArray) -> FloatArray:
        parts = iteration_time(shape, unpack_figures(np.exp(values)), profile.rows, hardware)
        return np.asarray(np.concatenate([np.log(getattr(parts, name)[mask]) for name, mask in measured]) - target)

    def residuals(values: FloatArray) -> FloatArray:
        error = log_errors(values)
        # Soft L1 is applied to the residual itself so that the prior stays quadratic.
        robust = ROBUST_SCALE * np.sqrt(2.0 * (np.sqrt(1.0 + (error / ROBUST_SCALE) ** 2) - 1.0))
        pull = PRIOR_WEIGHT * np.sqrt(target.size / centre.size) * (values - centre) / np.array(SPREAD)
        return np.concatenate([weight * np.copysign(robust, error), pull])

    found = optimize.least_squares(residuals, centre, bounds=(lower, upper), x_scale=np.array(SPREAD), max_nfev=200)
    return _report(shape, profile, found.x, np.asarray(found.jac)[: target.size], hardware)


def figure_names() -> tuple[str, ...]:
    """Return the names of the fitted figures, in the order of `pack_figures`."""
    return tuple(field.name for part in (PerfParams, Forward, Links) for field in fields(part))


def pack_figures(figures: Figures) -> FloatArray:
    """Convert figures to float64[13]."""
    parts = (figures.params, figures.forward, figures.links)
    return np.array([getattr(part, field.name) for part in parts for field in fields(part)], dtype=np.float64)


def unpack_figures(values: FloatArray) -> Figures:
    """Convert float64[13] to figures, the inverse of `pack_figures`."""
    v = [float(value) for value in values]
    return Figures(PerfParams(*v[:7]), Forward(*v[7:10]), Links(*v[10:]))


def blend(figures: Sequence[Figures], shape: ModelShape) -> Figures:
    """Return a model's prior: geometric means of other models' figures; the forward time follows from its own work."""
    own = prior_figures(shape).forward
    mean = unpack_figures(
        np.exp(np.mean([np.log(np.maximum(pack_figures(one), LOWER_BOUNDS)) for one in figures], axis=0))
    )
    return Figures(mean.params, Forward(mean.forward.fixed, own.per_sample, mean.forward.model_parallel), mean.links)


def _report(
    shape: ModelShape, profile: Profile, values: FloatArray, slopes: FloatArray, hardware: Hardware | None
) -> FitReport:
    figures, names = unpack_figures(np.exp(values)), figure_names()
    predicted = iteration_time(shape, figures, profile.rows, hardware).total
    untouched = np.abs(slopes).max(axis=0) < 1e-6
    near = np.minimum(values - np.log(LOWER_BOUNDS), np.log(UPPER_BOUNDS) - values) < 1e-3
    return FitReport(
        figures=figures,
        num_points=len(profile),
        num_measured=sum(int((getattr(profile, name) > 0).sum()) for name in TIME_PARTS),
        rmsle=float(np.sqrt(np.mean(np.log(predicted / profile.total) ** 2))),
        largest_error=float(np.abs(predicted / profile.total - 1.0).max()),
        from_prior=tuple(name for name, flag in zip(names, untouched, strict=True) if flag),
        at_bound=tuple(name for name, flag in zip(names, near & ~untouched, strict=True) if flag),
    )


def empty_profile() -> Profile:
    """Return a profile without points."""
    return Profile.of(np.zeros(0, dtype=POINT), [])
