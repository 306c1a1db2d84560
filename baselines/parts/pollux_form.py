"""Estimator of throughputs: Pollux's form of the step time, fitted anew to all samples of a model."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from envs.types import BoolArray, EstimatedCurve, FloatArray, IntArray, KnownCurves, MurmurationError, ThroughputSamples

HEIGHT_SPREAD = 3.0  # of the logarithm of a throughput of which nothing is known
TYPE_SPREAD = 0.7  # of the logarithm of a GPU type's throughput relative to the others, if no other model is known
CURVE_ERROR = 0.05  # of the logarithm of a measured curve, in the fits to other models
LARGEST_NORM = 10.0  # Pollux's gamma is between 1 and this
STEP = 1e-6  # of the differences that give derivatives
# Mean and spread of the last seven parameters (`PolluxCells.logarithm`) before any model is known.
CENTRE = np.array([-2.0, 0.0, *np.log([0.1, 0.01, 0.3, 0.02]), -1.0])
WIDTH = np.array([1.5, 2.0, 1.5, 1.5, 1.5, 1.5, 1.5])


@dataclass(frozen=True)
class PolluxForm:
    """Pollux's throughput model (Qiao et al., OSDI'21, section 3.2), fitted online: a reconstruction, with changes.

    Pollux's are the time of a step, (T_grad^gamma + T_sync^gamma)^(1/gamma) with gamma from 1 to 10; T_grad =
    alpha_grad + beta_grad m for m samples per GPU; T_sync = 0 on one GPU, alpha_local + beta_local (K - 2) on K GPUs of
    one node, and alpha_node + beta_node (K - 2) on several; and the least-squares fit to all measurements of a job so
    far, on logarithms.

    Ours is the rest. Pollux has one GPU type, and knows the batch size of each step. Here each GPU type has a
    throughput of its own, and samples per GPU go down as K^-r, where r is fitted: 0 for weak scaling, 1 for strong.
    Times of T_sync are relative to T_grad on one GPU. Pollux begins with perfect scaling and knows no other model; here
    a normal prior, with the mean and the covariance of the fits to other models, regularises the fit. The spread is
    Laplace's approximation, and what the form leaves of other models' curves.

    Args:
        least_residual: what the form leaves at least, as a standard deviation of the logarithm.

    Raises:
        MurmurationError: `least_residual` is not positive.
    """

    least_residual: float = 0.02

    def __post_init__(self) -> None:
        if not self.least_residual > 0:
            raise MurmurationError(f"estimator.least_residual is {self.least_residual}; it must be positive")

    def fit(self, known: KnownCurves) -> "PolluxFit":
        """Return the fit for one model; see `envs.scheduling.ThroughputEstimator`.

        The form is fitted to each of the other curves, once in a process.
        """
        cells = PolluxCells.all_of(known.runs.shape, known.nodes)
        weak = weak_prior(len(known.runs))
        fits = [fit_curve(curve.tobytes(), curve.shape, known.nodes.tobytes()) for curve in known.curves]
        left = np.full(known.curves.shape, np.nan)
        for rest, curve, (parameters, height) in zip(left, known.curves, fits, strict=True):
            runs = curve > 0
            rest[runs] = np.log(curve[runs]) - height - cells.logarithm(parameters).reshape(curve.shape)[runs]
        counts = np.isfinite(left).sum(axis=0)
        residual = np.sqrt((np.nan_to_num(left) ** 2).sum(axis=0) / np.maximum(counts, 1))
        prior = prior_of([parameters for parameters, _ in fits], weak)
        return PolluxFit(cells, prior, np.hypot(residual, self.least_residual), known.runs)


class PolluxPrior(NamedTuple):
    """A normal belief about the parameters of the form.

    Attributes:
        mean: float64[num_gpu_types + 7], see `PolluxCells.logarithm`.
        factor: float64[num_gpu_types + 7, num_gpu_types + 7], times its transpose it is the covariance.
    """

    mean: FloatArray
    factor: FloatArray


class PolluxCells(NamedTuple):
    """Cells at which the form is evaluated.

    Attributes:
        gpu_types: int64[n].
        sizes: int64[n], GPUs; at least 1.
        nodes: int64[n].
        num_types: GPU types of the cluster.
    """

    gpu_types: IntArray
    sizes: IntArray
    nodes: IntArray
    num_types: int

    @classmethod
    def all_of(cls, shape: tuple[int, ...], nodes: IntArray) -> "PolluxCells":
        """Return all cells of a table of curves, in C order.

        Args:
            shape: GPU types, sizes, levels.
            nodes: int64[levels], the most nodes of a level.
        """
        gpu_types, sizes, levels = np.indices(shape).reshape(3, -1)
        sizes = np.maximum(sizes, 1)
        return cls(gpu_types, sizes, np.minimum(nodes[levels], sizes), shape[0])

    def take(self, which: IntArray) -> "PolluxCells":
        """Return some of the cells."""
        return PolluxCells(self.gpu_types[which], self.sizes[which], self.nodes[which], self.num_types)

    def logarithm(self, parameters: FloatArray) -> FloatArray:
        """Return float64[..., n], the logarithm of samples/s.

        Args:
            parameters: float64[..., num_gpu_types + 7]: the logarithm of samples/s on one GPU of each type; the share
                of alpha_grad in T_grad on one GPU, and r, both by their logit; the logarithms of alpha_local,
                beta_local, alpha_node and beta_node over T_grad on one GPU of the mean type; and the logit of
                (gamma - 1) / 9.
        """
        heights, form = (
            parameters[..., : self.num_types],
            np.moveaxis(parameters[..., self.num_types :], -1, 0)[..., None],
        )
        constant, shrinkage = _logistic(form[0]), _logistic(form[1])
        norm = 1.0 + (LARGEST_NORM - 1.0) * _logistic(form[6])
        doublings, more = np.log(self.sizes), np.maximum(self.sizes - 2, 0)
        gradient = np.log(constant + (1.0 - constant) * np.exp(-shrinkage * doublings)) - heights[..., self.gpu_types]
        local = np.exp(form[2]) + np.exp(form[3]) * more
        across = np.exp(form[4]) + np.exp(form[5]) * more
        syncing = np.log(np.where(self.nodes > 1, across, local)) - heights.mean(axis=-1, keepdims=True)
        syncing = np.where(self.sizes > 1, syncing, -np.inf)
        step = np.logaddexp(norm * gradient, norm * syncing) / norm
        return np.asarray((1.0 - shrinkage) * doublings - step)

    def slopes(self, mean: FloatArray, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms at a point, float64[n], and their derivatives along directions, float64[n, d].

        Args:
            mean: float64[p], the point.
            factor: float64[p, d], the directions.
        """
        values = self.logarithm(mean + STEP * np.vstack([np.zeros(len(mean)), factor.T]))
        return values[0], (values[1:] - values[0]).T / STEP


class PolluxFit:
    """Beliefs about one model, as `PolluxForm` forms them.

    Args:
        cells: all cells of the table.
        prior: of the parameters.
        residual: float64[num_gpu_types, sizes, levels], what the form leaves of a curve, as a standard deviation.
        runs: bool[num_gpu_types, sizes, levels], the cells in which the model runs; beliefs are 0 elsewhere.
    """

    def __init__(self, cells: PolluxCells, prior: PolluxPrior, residual: FloatArray, runs: BoolArray) -> None:
        self.cells, self.prior, self.residual = cells, prior, residual
        self._running = np.flatnonzero(runs)
        self._places = cells.take(self._running)

    def estimate(self, samples: ThroughputSamples) -> EstimatedCurve:
        """Return the beliefs after some samples."""
        which = np.ravel_multi_index(tuple(samples.cells.T), self.residual.shape)
        residual = self.residual.reshape(-1)
        error = np.hypot(samples.error, residual[which])
        at = most_likely(self.cells.take(which), np.log(samples.throughput), error, self.prior)
        factor = self.prior.factor
        _, slopes = self.cells.take(which).slopes(at, factor)
        slopes = slopes / error[:, None]
        precision = np.eye(len(at)) + slopes.T @ slopes
        logarithm, along = self._places.slopes(at, factor)
        variance = (along * np.linalg.solve(precision, along.T).T).sum(axis=1)
        throughput, spread = np.zeros(self.residual.shape), np.zeros(self.residual.shape)
        throughput.reshape(-1)[self._running] = np.exp(logarithm)
        spread.reshape(-1)[self._running] = np.hypot(np.sqrt(variance), residual[self._running])
        return EstimatedCurve(throughput, spread)


def most_likely(cells: PolluxCells, logarithm: FloatArray, error: FloatArray, prior: PolluxPrior) -> FloatArray:
    """Fit the form: float64[num_gpu_types + 7], the most likely parameters.

    The height is expected to be what the samples say under the expected form, so that units do not matter.

    Args:
        cells: of the samples.
        logarithm: float64[n], of samples/s.
        error: float64[n], its standard deviation.
        prior: of the parameters.
    """
    mean, factor = prior.mean.copy(), prior.factor
    mean[: cells.num_types] += np.average(logarithm - cells.logarithm(mean), weights=error**-2)

    def differences(point: FloatArray) -> FloatArray:
        return np.append(point, (cells.logarithm(mean + factor @ point) - logarithm) / error)

    def slopes(point: FloatArray) -> FloatArray:
        _, along = cells.slopes(mean + factor @ point, factor)
        return np.vstack([np.eye(len(point)), along / error[:, None]])

    start = np.zeros(len(mean))
    return mean + factor @ least_squares(differences, start, jac=slopes, method="lm", xtol=1e-6, ftol=1e-6).x


@lru_cache(maxsize=256)
def fit_curve(curve: bytes, shape: tuple[int, ...], nodes: bytes) -> tuple[FloatArray, float]:
    """Fit the form to a whole curve: its parameters, with heights of GPU types of mean 0, and the mean height.

    The height of a GPU type on which the curve does not run is what the weak prior expects.

    Args:
        curve: float64[num_gpu_types, sizes, levels], samples/s, as bytes.
        shape: of the curve.
        nodes: int64[levels], the most nodes of a level, as bytes.
    """
    table = np.frombuffer(curve).reshape(shape)
    which = np.flatnonzero(table)
    logarithm = np.log(table.reshape(-1)[which])
    cells = PolluxCells.all_of(shape, np.frombuffer(nodes, np.int64)).take(which)
    parameters = most_likely(cells, logarithm, np.full(len(which), CURVE_ERROR), weak_prior(shape[0]))
    height = float(parameters[: shape[0]].mean())
    parameters[: shape[0]] -= height
    return parameters, height


def weak_prior(num_types: int) -> PolluxPrior:
    """Return what is expected of a model if no other model is known."""
    mean = np.append(np.zeros(num_types), CENTRE)
    covariance = np.diag(np.append(np.full(num_types, TYPE_SPREAD), WIDTH) ** 2)
    covariance[:num_types, :num_types] += HEIGHT_SPREAD**2
    return PolluxPrior(mean, np.linalg.cholesky(covariance))


def prior_of(others: list[FloatArray], weak: PolluxPrior) -> PolluxPrior:
    """Return the mean and the covariance of the parameters of other models, to which `weak` adds as one more model.

    Args:
        others: float64[num_gpu_types + 7] each, with heights of GPU types of mean 0.
        weak: what is expected if there are none.
    """
    if not others:
        return weak
    num_types = len(weak.mean) - len(CENTRE)
    mean = np.mean(others, axis=0)
    rest = np.array(others) - mean
    covariance = (rest.T @ rest + weak.factor @ weak.factor.T) / len(others)
    covariance[:num_types, :num_types] += HEIGHT_SPREAD**2
    return PolluxPrior(mean, np.linalg.cholesky(covariance))


def _logistic(logit: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))
