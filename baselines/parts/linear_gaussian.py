"""Estimator of throughputs: the curves of other models span a linear space, in which samples place a model."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from envs.simulation.mean_curve import additive_fit
from envs.types import BoolArray, EstimatedCurve, FloatArray, KnownCurves, MurmurationError, ThroughputSamples

HEIGHT_SPREAD = 3.0  # of the logarithm of a throughput of which nothing is known
LEAST_RESIDUAL = 0.02  # of the logarithm of a sample: what no direction of the space can express


@dataclass(frozen=True)
class LinearGaussian:
    """Bayesian linear regression of the logarithm of a model's throughputs on directions in which models differ.

    The logarithm is the mean shape of the other models' curves, plus a height, plus a normal combination of directions:
    the principal components of the other curves, each as wide as they spread along it, and, for what no other model
    shows, one direction for each GPU type, one for each doubling of GPUs, and one for each doubling of nodes. Samples
    have normal errors. The posterior is exact, and is that of a Gaussian process whose covariance is measured on the
    other models.

    All samples of jobs of one model place the same curve.

    Args:
        type_spread: standard deviation of the direction of a GPU type.
        scaling_spread: of that for each doubling of GPUs.
        nodes_spread: of that for each doubling of nodes.
        directions: whether the principal components of other models are used; without, a model differs from their mean
            shape by the other three kinds of directions alone.

    Raises:
        MurmurationError: a spread is negative, or `directions` is neither "others" nor "none".
    """

    type_spread: float = 0.2
    scaling_spread: float = 0.08
    nodes_spread: float = 0.13
    directions: Literal["others", "none"] = "others"

    def __post_init__(self) -> None:
        for name in ("type_spread", "scaling_spread", "nodes_spread"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"estimator.{name} is {getattr(self, name)}; it must not be negative")
        if self.directions not in ("others", "none"):
            raise MurmurationError(f"estimator.directions is {self.directions!r}; it must be others or none")

    def fit(self, known: KnownCurves) -> "LinearFit":
        """Return the fit for one model; see `envs.scheduling.ThroughputEstimator`."""
        shape, rest = additive_fit(known)
        num_types = len(known.runs)
        gpu_type, size, level = np.indices(known.runs.shape).reshape(3, -1)
        doublings = np.log2(np.maximum(size, 1))
        nodes = np.log2(np.minimum(known.nodes[level], np.maximum(size, 1)))
        rows = [HEIGHT_SPREAD * np.ones(doublings.shape)]
        rows += [self.type_spread * (gpu_type == each) for each in range(num_types)]
        rows += [self.scaling_spread * doublings, self.nodes_spread * nodes]
        if self.directions == "others" and len(rest) > 1:
            filled = np.where(np.isfinite(rest), rest, 0.0).reshape(len(rest), -1)
            _, values, components = np.linalg.svd(filled, full_matrices=False)
            rows += list(components * (values / np.sqrt(len(rest) - 1))[:, None])
        features = np.stack(rows, axis=1)
        return LinearFit(shape, features, known.runs)


class LinearFit:
    """Beliefs about one model, as `LinearGaussian` forms them.

    Args:
        shape: float64[num_gpu_types, sizes, levels], the mean logarithm.
        features: float64[num_gpu_types * sizes * levels, d], directions times their spreads.
        runs: bool[num_gpu_types, sizes, levels], the cells in which the model runs; beliefs are about these, and 0
            elsewhere.
    """

    def __init__(self, shape: FloatArray, features: FloatArray, runs: BoolArray) -> None:
        self.shape, self.features = shape, features
        self._running = np.flatnonzero(runs)
        self._directions = np.ascontiguousarray(features[self._running].T)
        self._mean = shape.reshape(-1)[self._running]
        self._variance = (self._directions**2).sum(axis=0) + LEAST_RESIDUAL**2

    def estimate(self, samples: ThroughputSamples) -> EstimatedCurve:
        """Return the beliefs after some samples; they are 0 in cells in which the model does not run."""
        _, sizes, levels = self.shape.shape
        cells = samples.cells @ (sizes * levels, levels, 1)
        seen = self.features[cells]
        covariance = seen @ seen.T
        covariance.flat[:: len(cells) + 1] += samples.error**2 + LEAST_RESIDUAL**2
        # Whitened samples are independent, so the variance that they explain in a cell is a sum of squares: as many
        # terms as samples, where the posterior's covariance has as many rows as directions.
        whiten = np.linalg.inv(np.linalg.cholesky(covariance))
        residual = whiten @ (np.log(samples.throughput) - self.shape.reshape(-1)[cells])
        explained = whiten @ (seen @ self._directions)
        left = self._variance - (explained * explained).sum(axis=0)
        throughput, spread = np.zeros(self.shape.shape), np.zeros(self.shape.shape)
        throughput.reshape(-1)[self._running] = np.exp(self._mean + residual @ explained)
        spread.reshape(-1)[self._running] = np.sqrt(np.maximum(left, LEAST_RESIDUAL**2))
        return EstimatedCurve(throughput, spread)
