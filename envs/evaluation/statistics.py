"""How sure a comparison is: intervals over workloads where there are enough, else over blocks of jobs.

Schedulers are compared on the same jobs of the same workloads, so everything here is paired: a resample takes the same
workloads, or the same stretches of jobs, for every scheduler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.stats

from envs.types import FloatArray

MIN_WORKLOADS = 5  # fewer means say too little of their own spread for Student's t
Method = Literal["t over workloads", "moving-block bootstrap over jobs"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its confidence interval; NaN where there is nothing to estimate it from."""

    value: float
    low: float
    high: float


class MeanEstimator:
    """Means of one per-job metric over several workloads and schedulers, with paired confidence intervals.

    A scheduler's mean is the mean over workloads of its mean over jobs: every workload counts the same. Its ratio to a
    reference is the geometric mean over workloads of the ratios of means. Workloads without a single job to compare
    are left out.

    With at least `MIN_WORKLOADS` workloads the intervals are Student's t over workloads (of the logarithm, for ratios).
    With fewer they are percentiles of a circular moving-block bootstrap (Kunsch, 1989; Politis and Romano, 1992) over
    the jobs of each workload in order of submission: neighbours share a queue, so that single jobs are no independent
    draws. It tells how much the figure depends on these jobs, not how other traces would do.

    Args:
        values: for each workload float64[num_schedulers, num_jobs], jobs in order of submission.
        rng: of the bootstrap.
        level: of confidence.
        resamples: of the bootstrap.

    Raises:
        ValueError: the level is not between 0 and 1, or there are no resamples.
    """

    def __init__(
        self, values: Sequence[FloatArray], rng: np.random.Generator, level: float = 0.95, resamples: int = 2000
    ) -> None:
        if not 0 < level < 1:
            raise ValueError(f"confidence level is {level}; it must lie between 0 and 1")
        if resamples < 1:
            raise ValueError(f"resamples is {resamples}; at least one is needed")
        usable = [matrix for matrix in values if matrix.shape[1]]
        self.level = level
        self._means = np.array([matrix.mean(axis=1) for matrix in usable])  # [num_workloads, num_schedulers]
        self._replicates: FloatArray | None = None  # [resamples, num_workloads, num_schedulers]
        if usable and len(values) < MIN_WORKLOADS:
            self._replicates = np.stack([block_bootstrap_means(matrix, rng, resamples) for matrix in usable], axis=1)

    def mean(self, scheduler: int) -> Estimate:
        """The mean of the scheduler in this row of the matrices."""
        if not len(self._means):
            return Estimate(np.nan, np.nan, np.nan)
        means = self._means[:, scheduler]
        if self._replicates is None:
            return t_interval(means, self.level)
        return self._percentiles(float(means.mean()), self._replicates[:, :, scheduler].mean(axis=1))

    def ratio(self, scheduler: int, reference: int) -> Estimate:
        """The scheduler's mean over the reference's; below 1 the scheduler is better where less is better."""
        if not len(self._means):
            return Estimate(np.nan, np.nan, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):  # a mean delay of 0 has no ratio: NaN, as it should be
            logs = np.log(self._means[:, scheduler]) - np.log(self._means[:, reference])
            if self._replicates is None:
                found = t_interval(logs, self.level)
                return Estimate(*(float(np.exp(x)) for x in (found.value, found.low, found.high)))
            ratios = np.log(self._replicates[:, :, scheduler]) - np.log(self._replicates[:, :, reference])
            return self._percentiles(float(np.exp(logs.mean())), np.exp(ratios.mean(axis=1)))

    def _percentiles(self, value: float, replicates: FloatArray) -> Estimate:
        tail = (1 - self.level) / 2
        low, high = np.quantile(replicates, [tail, 1 - tail])
        return Estimate(value, float(low), float(high))


def method_for(num_workloads: int) -> Method:
    """Which intervals so many workloads get."""
    return "t over workloads" if num_workloads >= MIN_WORKLOADS else "moving-block bootstrap over jobs"


def t_interval(values: FloatArray, level: float = 0.95) -> Estimate:
    """Mean of independent values with Student's t interval; without bounds (NaN) for fewer than two values."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, np.nan, np.nan)
    error = float(scipy.stats.sem(values))
    if error == 0:
        return Estimate(mean, mean, mean)
    low, high = scipy.stats.t.interval(level, len(values) - 1, loc=mean, scale=error)
    return Estimate(mean, float(low), float(high))


def block_bootstrap_means(values: FloatArray, rng: np.random.Generator, resamples: int) -> FloatArray:
    """Means of resampled sequences, put together from random blocks of neighbours; the ends join to a circle.

    Args:
        values: float64[k, n]: k series over the same n jobs; one draw of blocks serves all of them.
        rng: of the draw.
        resamples: how many.

    Returns:
        float64[resamples, k].
    """
    n = values.shape[1]
    length = max(block_length(series) for series in values)
    blocks = -(-n // length)
    total = np.cumsum(np.concatenate([np.zeros((len(values), 1)), values, values[:, : length - 1]], axis=1), axis=1)
    sums = total[:, length : length + n] - total[:, :n]  # of the block that begins at each job
    means = np.empty((resamples, len(values)))
    for i in range(resamples):  # one by one: all starts at once would fill the memory for a long trace
        means[i] = sums[:, rng.integers(0, n, blocks)].mean(axis=1) / length
    return means


def block_length(values: FloatArray) -> int:
    """Jobs per block, from how far the series is correlated with itself.

    The automatic rule of Politis and White (2004), as corrected by Patton, Politis and White (2009), for the circular
    bootstrap: (2 G^2 / D)^(1/3) n^(1/3). At most the lesser of n/3 and 3 sqrt(n), so that there are blocks to choose
    from. Constant and very short series have blocks of 1.
    """
    n = len(values)
    deviation = values - values.mean()
    variance = float(deviation @ deviation) / n
    most = int(np.ceil(min(3 * np.sqrt(n), n / 3)))
    if n < 4 or variance <= 1e-24 * float(values @ values) / n:
        return 1
    run = max(5, int(np.ceil(np.sqrt(np.log10(n)))))  # so many lags must be negligible in a row
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
