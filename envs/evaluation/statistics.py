"""Confidence intervals of a comparison: over workloads if there are enough, else over blocks of jobs.

Schedulers are compared on the same jobs of the same workloads, so all intervals are paired: a resample has the same
workloads, or the same blocks of jobs, for every scheduler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit  # scipy.stats, which has the same, takes half a second to import

from envs.types import BoolArray, FloatArray

MIN_WORKLOADS = 5  # fewer means estimate their own variance too poorly for Student's t
IntervalMethod = Literal["t over workloads on a log scale", "moving-block bootstrap over jobs"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its confidence interval; NaN without data."""

    value: float
    low: float
    high: float


class MeanEstimator:
    """Means of one per-job metric over several workloads and schedulers, with paired confidence intervals.

    A scheduler's mean is the mean over workloads of its mean over jobs, so every workload has the same weight. Its
    ratio to a reference is the geometric mean over workloads of the ratios of means. Workloads without a compared job
    are left out.

    A scheduler that ran fewer workloads has NaN in the others. Its mean is over its own workloads, and a ratio is over
    the workloads that both schedulers ran.

    With at least `MIN_WORKLOADS` workloads the intervals are Student's t over workloads on a log scale: of the
    logarithm of the mean for means (`log_t_interval`), of the mean of the logarithms for ratios. None reaches below 0.
    With fewer they are percentiles of a circular moving-block bootstrap (Kunsch, 1989; Politis and Romano, 1992) over
    the jobs of each workload in order of submission, because jobs that share a queue are not independent draws. Such an
    interval shows how much the figure depends on these jobs, not the result on other traces.

    Args:
        values: for each workload float64[num_schedulers, num_jobs], jobs in order of submission; a row of NaN if the
            scheduler did not run the workload, which is allowed with at least `MIN_WORKLOADS` workloads.
        rng: random generator of the bootstrap.
        level: confidence level.
        resamples: number of bootstrap resamples.
        means: float64[num_workloads, num_schedulers], the exact means of `values` where those are rounded; NaN in
            workloads without a compared job. Computed from `values` if None.

    Raises:
        ValueError: the level is not between 0 and 1, or the number of resamples is not positive.
    """

    def __init__(
        self,
        values: Sequence[FloatArray],
        rng: np.random.Generator,
        level: float = 0.95,
        resamples: int = 2000,
        means: FloatArray | None = None,
    ) -> None:
        if not 0 < level < 1:
            raise ValueError(f"confidence level is {level}; it must be between 0 and 1")
        if resamples < 1:
            raise ValueError(f"resamples is {resamples}; it must be at least 1")
        usable = [matrix for matrix in values if matrix.shape[1]]
        self.level = level
        # [num_workloads, num_schedulers]
        self._means = np.array([matrix.mean(axis=1) for matrix in usable])
        if means is not None:
            self._means = means[[matrix.shape[1] > 0 for matrix in values]]
        self._replicates: FloatArray | None = None  # [resamples, num_workloads, num_schedulers]
        if usable and len(values) < MIN_WORKLOADS:
            self._replicates = np.stack([block_bootstrap_means(matrix, rng, resamples) for matrix in usable], axis=1)

    def mean(self, scheduler: int) -> Estimate:
        """Estimate the mean of the scheduler in this row of the matrices."""
        if not len(self._means):
            return Estimate(np.nan, np.nan, np.nan)
        means = self._means[self._ran(scheduler), scheduler]
        if self._replicates is None:
            return log_t_interval(means, self.level)
        return self._percentiles(float(means.mean()), self._replicates[:, :, scheduler].mean(axis=1))

    def ratio(self, scheduler: int, reference: int) -> Estimate:
        """Estimate the ratio of the scheduler's mean to the reference's; below 1 is better if less is better."""
        if not len(self._means):
            return Estimate(np.nan, np.nan, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):  # the ratio to a mean delay of 0 is NaN
            both = self._means[self._ran(scheduler) & self._ran(reference)]
            logs = np.log(both[:, scheduler]) - np.log(both[:, reference])
            if self._replicates is None:
                found = t_interval(logs, self.level)
                return Estimate(*(float(np.exp(x)) for x in (found.value, found.low, found.high)))
            ratios = np.log(self._replicates[:, :, scheduler]) - np.log(self._replicates[:, :, reference])
            return self._percentiles(float(np.exp(logs.mean())), np.exp(ratios.mean(axis=1)))

    def _ran(self, scheduler: int) -> BoolArray:
        """bool[num_workloads]: the workloads that a scheduler ran."""
        ran: BoolArray = ~np.isnan(self._means[:, scheduler])
        return ran

    def _percentiles(self, value: float, replicates: FloatArray) -> Estimate:
        tail = (1 - self.level) / 2
        low, high = np.quantile(replicates, [tail, 1 - tail])
        return Estimate(value, float(low), float(high))


def method_for(num_workloads: int) -> IntervalMethod:
    """Return the method for intervals over this number of workloads."""
    return "t over workloads on a log scale" if num_workloads >= MIN_WORKLOADS else "moving-block bootstrap over jobs"


def median_half_width(ratios: Sequence[Estimate]) -> float:
    """Return the median of half the width of intervals of ratios on a log scale; NaN if no ratio has an interval.

    0.1 stands for intervals from a ratio / 1.1 to the ratio * 1.1. Schedulers that differ by less are level.
    """
    widths = [np.sqrt(each.high / each.low) - 1 for each in ratios if each.low > 0 and np.isfinite(each.high)]
    return float(np.median(widths)) if widths else float("nan")


def t_interval(values: FloatArray, level: float = 0.95) -> Estimate:
    """Return the mean of independent values with Student's t interval; its bounds are NaN for fewer than two values."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, np.nan, np.nan)
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    if error == 0:
        return Estimate(mean, mean, mean)
    low, high = stdtrit(len(values) - 1, np.array([(1 - level) / 2, (1 + level) / 2])) * error + mean
    return Estimate(mean, float(low), float(high))


def log_t_interval(values: FloatArray, level: float = 0.95) -> Estimate:
    """Return the mean of independent values that are not negative, with an interval of positive numbers.

    It is Student's t interval of the logarithm of the mean, whose standard error is that of the mean divided by the
    mean (the delta method): mean * exp(+-t * error / mean). For a small relative error it is the plain t interval. For
    a few heavy-tailed values it reaches further up and less far down, never below 0, and covers the true mean more
    often. All values 0 give a point. The bounds are NaN for fewer than two values.

    Raises:
        ValueError: a value is negative.
    """
    if values.min() < 0:
        raise ValueError(f"interval on a log scale: a value is {values.min()}; none may be negative")
    plain = t_interval(values, level)
    if plain.value == 0 or not plain.high > plain.value:
        return plain
    factor = float(np.exp((plain.high - plain.value) / plain.value))
    return Estimate(plain.value, plain.value / factor, plain.value * factor)


def block_bootstrap_means(values: FloatArray, rng: np.random.Generator, resamples: int) -> FloatArray:
    """Return the means of sequences resampled in random blocks of consecutive values of the series, taken as a circle.

    Args:
        values: float64[k, n]: k series over the same n jobs; all series use the same blocks.
        rng: random generator of the blocks.
        resamples: number of resamples.

    Returns:
        float64[resamples, k].
    """
    n = values.shape[1]
    length = max(block_length(series) for series in values)
    blocks = -(-n // length)
    total = np.cumsum(np.concatenate([np.zeros((len(values), 1)), values, values[:, : length - 1]], axis=1), axis=1)
    sums = total[:, length : length + n] - total[:, :n]  # sums of the blocks that begin at each job
    means = np.empty((resamples, len(values)))
    for i in range(resamples):  # in a loop, as drawing all starts at once takes too much memory for a long trace
        means[i] = sums[:, rng.integers(0, n, blocks)].mean(axis=1) / length
    return means


def block_length(values: FloatArray) -> int:
    """Choose the number of jobs per block from the autocorrelation of the series.

    The automatic rule of Politis and White (2004), as corrected by Patton, Politis and White (2009), for the circular
    bootstrap: (2 G^2 / D)^(1/3) n^(1/3). The length is at most min(n/3, 3 sqrt(n)), so that there are several blocks.
    Constant and very short series, and those of unknown values (NaN), have blocks of 1.
    """
    n = len(values)
    deviation = values - values.mean()
    variance = float(deviation @ deviation) / n
    most = int(np.ceil(min(3 * np.sqrt(n), n / 3)))
    if n < 4 or not variance > 1e-24 * float(values @ values) / n:
        return 1
    run = max(5, int(np.ceil(np.sqrt(np.log10(n)))))  # number of consecutive lags that must be negligible
    lags = min(int(np.ceil(np.sqrt(n))) + run, n - 1)
    covariance = np.array([float(deviation[lag:] @ deviation[: n - lag]) / n for lag in range(lags + 1)])
    negligible = np.abs(covariance[1:] / variance) < 2 * np.sqrt(np.log10(n) / n)
    quiet = [lag for lag in range(len(negligible)) if negligible[lag : lag + run].all()]
    bandwidth = min(2 * max(quiet[0] if quiet else lags, 1), lags)
    lag = np.arange(1, bandwidth + 1)
    weight = np.clip(2 * (1 - lag / bandwidth), 0.0, 1.0)  # flat-top: 1 up to half the bandwidth, then down to 0
    spectrum = variance + 2 * float((weight * covariance[1 : bandwidth + 1]).sum())
    slope = 2 * float((weight * lag * covariance[1 : bandwidth + 1]).sum())
    if spectrum == 0:
        return 1
    best = (2 * slope**2 / (4 / 3 * spectrum**2)) ** (1 / 3) * n ** (1 / 3)
    return int(np.clip(np.ceil(best), 1, most))
