"""The simplest estimator: every model has the mean curve of all others, at the height that samples show."""

from dataclasses import dataclass

import numpy as np

from envs.types import EstimatedCurve, FloatArray, KnownCurves, ThroughputSamples

FITS = 30  # alternating means; the additive fit converges long before
LEAST_VARIANCE = 1e-6  # of the logarithm of a sample, so that an exact one has a finite weight


@dataclass(frozen=True)
class MeanCurve:
    """Estimator that knows the mean logarithm of the other models' curves, and fits its height alone to samples.

    It is the prior alone: it learns nothing of a model's shape.
    """

    def fit(self, known: KnownCurves) -> "HeightFit":
        """Return the fit for one model; see `envs.scheduling.ThroughputEstimator`."""
        return HeightFit(*shape_of_others(known))


class HeightFit:
    """Beliefs about one model, as `MeanCurve` forms them.

    Args:
        shape: float64[num_gpu_types, sizes, levels], mean of the logarithms of other curves of mean 0.
        spread: float64[num_gpu_types, sizes, levels], their standard deviation.
    """

    def __init__(self, shape: FloatArray, spread: FloatArray) -> None:
        self.shape, self.spread = shape, spread

    def estimate(self, samples: ThroughputSamples) -> EstimatedCurve:
        """Return the beliefs after some samples."""
        cells = tuple(samples.cells.T)
        precision = 1.0 / (samples.error**2 + self.spread[cells] ** 2 + LEAST_VARIANCE)
        height = float(precision @ (np.log(samples.throughput) - self.shape[cells]) / precision.sum())
        return EstimatedCurve(np.exp(self.shape + height), np.hypot(self.spread, precision.sum() ** -0.5))


def shape_of_others(known: KnownCurves) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the logarithms of other curves, each less its height.

    Returns:
        Two float64[num_gpu_types, sizes, levels]; 0 in cells in which no other model runs.
    """
    mean, rest = additive_fit(known)
    counts = np.isfinite(rest).sum(axis=0)
    variance = np.where(np.isfinite(rest), rest**2, 0.0).sum(axis=0) / np.maximum(counts - 1, 1)
    return mean, np.sqrt(variance)


def additive_fit(known: KnownCurves) -> tuple[FloatArray, FloatArray]:
    """Fit logarithm = height of the curve + shape of the cell to curves that do not run in all cells.

    Least squares, by alternating means.

    Returns:
        The shape float64[num_gpu_types, sizes, levels], and what is left of each curve, float64[num_curves,
        num_gpu_types, sizes, levels]; NaN in cells in which it does not run.
    """
    runs = known.curves > 0
    logarithms = np.log(np.where(runs, known.curves, 1.0))
    per_cell, per_curve = np.maximum(runs.sum(axis=0), 1), np.maximum(runs.sum(axis=(1, 2, 3)), 1)
    shape = np.zeros(known.runs.shape)
    height = np.zeros(len(runs))
    for _ in range(FITS):
        height = np.where(runs, logarithms - shape, 0.0).sum(axis=(1, 2, 3)) / per_curve
        shape = np.where(runs, logarithms - height[:, None, None, None], 0.0).sum(axis=0) / per_cell
    return shape, np.where(runs, logarithms - shape - height[:, None, None, None], np.nan)
