"""Estimator of throughputs: a job's fingerprint is completed to a whole row, and matched to a reference model."""

from dataclasses import dataclass

import numpy as np

from envs.simulation.mean_curve import additive_fit
from envs.types import BoolArray, EstimatedCurve, FloatArray, IntArray, KnownCurves, MurmurationError, ThroughputSamples

LEAST_RESIDUAL = 0.02  # of the logarithm: what a belief leaves at least
SWEEPS = 20  # of alternating least squares
LEAST_NORM = 1e-9  # a completed row below it says nothing about which reference is near


@dataclass(frozen=True)
class MatrixCompletion:
    """The throughput estimator of Gavel (Narayanan et al., OSDI'20, and its published code): a reconstruction.

    Gavel profiles a new job in a few columns of a matrix whose rows are reference models, completes its row by low-rank
    matrix factorisation, and takes the throughputs of the reference model at the smallest cosine distance. Its code
    has rank 10 and a ridge of 0.01. A job of which nothing was profiled gets a reference drawn at random.

    Gavel's columns are what a job runs beside, and its entries are throughputs over those alone. Here a column is a
    cell, and an entry is the logarithm of a throughput, less the mean shape of all models and the height of the model;
    the height is a further factor of the row, without ridge. The references are factorised once, and a job's row is
    the ridge regression on their factors, in which samples weigh as their errors say. As long as samples show a height
    alone, the mean shape takes the place of a random reference. As in Gavel's code, measurements stay as they are:
    cells that were measured have the belief that combines prediction and measurements.

    Gavel states no spread. Here it is the root mean square that the same cells of each reference model would leave if
    this model were the new job.

    Args:
        rank: of the factorisation, at most the number of reference models.
        ridge: weight of the squared factors against squared errors.
        matched: whether the job gets the curve of a reference, as in Gavel; if not, the completed row.

    Raises:
        MurmurationError: `rank` is below 1, or `ridge` is not positive.
    """

    rank: int = 10
    ridge: float = 0.01
    matched: bool = True

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise MurmurationError(f"estimator.rank is {self.rank}; it must be at least 1")
        if not self.ridge > 0:
            raise MurmurationError(f"estimator.ridge is {self.ridge}; it must be positive")

    def fit(self, known: KnownCurves) -> "CompletionFit":
        """Return the fit for one model; see `envs.scheduling.ThroughputEstimator`."""
        shape, rest = additive_fit(known)
        references = rest.reshape(len(rest), shape.size)
        columns = factorise(references, min(self.rank, max(len(rest), 1)), self.ridge)
        completed = np.where(
            np.isfinite(references), references, _ridge_rows(references, columns, self.ridge) @ columns.T
        )
        return CompletionFit(self, shape, completed, columns, known.runs)


class CompletionFit:
    """Beliefs about one model, as `MatrixCompletion` forms them.

    Args:
        options: of the estimator.
        shape: float64[num_gpu_types, sizes, levels], the mean logarithm.
        references: float64[num_references, cells], rows of the other models less shape and height, completed.
        columns: float64[cells, rank], factors of the cells.
        runs: bool[num_gpu_types, sizes, levels], the cells in which the model runs; beliefs are 0 elsewhere.
    """

    def __init__(
        self, options: MatrixCompletion, shape: FloatArray, references: FloatArray, columns: FloatArray, runs: BoolArray
    ) -> None:
        self.options, self.shape, self.references, self.columns = options, shape, references, columns
        self._running = np.flatnonzero(runs)

    def estimate(self, samples: ThroughputSamples) -> EstimatedCurve:
        """Return the beliefs after some samples."""
        cells = np.ravel_multi_index(tuple(samples.cells.T), self.shape.shape)
        variance = samples.error**2 + LEAST_RESIDUAL**2
        rest = np.log(samples.throughput) - self.shape.reshape(-1)[cells]
        # The references are the first rows: each is predicted from its values in the same cells, without itself.
        fingerprints = np.vstack([self.references[:, cells], rest])
        rows = self._predict(fingerprints, cells, variance)
        left = self.references - rows[:-1]
        spread = np.sqrt((left**2).mean(axis=0) + LEAST_RESIDUAL**2) if len(left) else np.zeros(self.shape.size)
        precision = 1.0 / (variance + spread[cells] ** 2)
        height = float(precision @ (rest - rows[-1][cells]) / precision.sum())
        mean = self.shape.reshape(-1) + rows[-1] + height
        spread = np.hypot(spread, precision.sum() ** -0.5)
        _keep_measurements(mean, spread, samples, cells)
        throughput, shown = np.zeros(self.shape.shape), np.zeros(self.shape.shape)
        throughput.reshape(-1)[self._running] = np.exp(mean[self._running])
        shown.reshape(-1)[self._running] = spread[self._running]
        return EstimatedCurve(throughput, shown)

    def _predict(self, fingerprints: FloatArray, cells: IntArray, variance: FloatArray) -> FloatArray:
        """Predict whole rows from fingerprints.

        Args:
            fingerprints: float64[num_references + 1, n].
            cells: int64[n].
            variance: float64[n], of the errors of samples; the smallest one has weight 1.

        Returns:
            float64[num_references + 1, cells]: each row but the last one less its own height.
        """
        weights = variance.min() / variance
        centred = fingerprints - (fingerprints @ weights / weights.sum())[:, None]
        seen = self.columns[cells] - weights @ self.columns[cells] / weights.sum()  # the height is free: no ridge
        square = (seen * weights[:, None]).T @ seen + self.options.ridge * np.eye(seen.shape[1])
        factors = np.linalg.solve(square, (seen * weights[:, None]).T @ centred.T).T
        rows = factors @ self.columns.T
        if not self.options.matched or not len(self.references):
            return np.asarray(rows)
        return self._match(rows)

    def _match(self, rows: FloatArray) -> FloatArray:
        """Replace each completed row by the reference at the smallest cosine distance, but none by itself."""
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        lengths = np.linalg.norm(self.references, axis=1)
        cosine = rows @ self.references.T / np.maximum(norms * lengths, LEAST_NORM)
        np.fill_diagonal(cosine, -np.inf)
        found = (norms > LEAST_NORM) & np.isfinite(cosine.max(axis=1, keepdims=True))
        return np.where(found, self.references[cosine.argmax(axis=1)], 0.0)


def factorise(references: FloatArray, rank: int, ridge: float) -> FloatArray:
    """Factorise rows of which some entries are NaN by alternating least squares.

    Returns:
        float64[cells, rank], the factors of the columns.
    """
    filled = np.nan_to_num(references)
    if not len(filled):
        return np.zeros((filled.shape[1], rank))
    _, values, components = np.linalg.svd(filled, full_matrices=False)
    columns: FloatArray = (components[:rank] * np.sqrt(values[:rank])[:, None]).T
    for _ in range(SWEEPS):
        rows = _ridge_rows(references, columns, ridge)
        columns = _ridge_rows(references.T, rows, ridge)
    return columns


def _ridge_rows(entries: FloatArray, factors: FloatArray, ridge: float) -> FloatArray:
    """Return float64[rows, rank]: ridge regressions of rows float64[rows, n] with NaN on factors float64[n, rank]."""
    there = np.isfinite(entries).astype(np.float64)
    squares = np.einsum("rn,na,nb->rab", there, factors, factors, optimize=True) + ridge * np.eye(factors.shape[1])
    return np.asarray(np.linalg.solve(squares, (np.nan_to_num(entries) @ factors)[..., None])[..., 0])


def _keep_measurements(mean: FloatArray, spread: FloatArray, samples: ThroughputSamples, cells: IntArray) -> None:
    """Combine the beliefs about measured cells, float64[cells] each, with the measurements, in place."""
    for cell, throughput, error, stated in zip(cells, samples.throughput, samples.error, samples.stated, strict=True):
        if not stated:
            prior, noise = spread[cell] ** 2, error**2 + LEAST_RESIDUAL**2
            mean[cell] = (mean[cell] * noise + np.log(throughput) * prior) / (prior + noise)
            spread[cell] = np.sqrt(prior * noise / (prior + noise))
