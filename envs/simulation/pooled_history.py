"""The simplest predictor: any job runs as long as some job of the past did."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from envs.types import NUM_OUTCOMES, FloatArray, JobFacts

LEVELS: FloatArray = (np.arange(NUM_OUTCOMES) + 0.5) / NUM_OUTCOMES  # of equally likely outcomes
NORMAL_QUANTILES: FloatArray = np.array([NormalDist().inv_cdf(level) for level in LEVELS])
MEDIAN_WITHOUT_HISTORY = 3600.0  # seconds
SPREAD_WITHOUT_HISTORY = 1.5  # standard deviation of the logarithm


class PooledHistory:
    """Predictor that pools all jobs, those of past episodes and those of this one, whatever their attributes.

    The distribution is the product-limit estimate (Kaplan and Meier, "Nonparametric estimation from incomplete
    observations", JASA 1958): jobs in the system count as observed for as long as they have run. Before any job has
    ended, run times are log-normal with a median of an hour and a spread of 1.5, a choice of ours.
    """

    def __init__(self) -> None:
        self._past: FloatArray = np.zeros(0)

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """See `envs.scheduling.WorkPredictor.train`."""
        self._past = np.concatenate([np.zeros(0), *(jobs.run_time for jobs in episodes)])

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """See `envs.scheduling.WorkPredictor.predict`."""
        outcomes = product_limit(np.concatenate([self._past, ended.run_time]), asked.run_time)
        return np.tile(outcomes, (len(asked.run_time), 1))


def product_limit(ended: FloatArray, running: FloatArray) -> FloatArray:
    """Return equally likely run times by the product-limit estimate: float64[NUM_OUTCOMES], ascending.

    Quantiles beyond the last observed end are that end: the estimate says nothing of them.

    Args:
        ended: float64[any], run times of ended jobs.
        running: float64[any], run times so far of others.
    """
    if not len(ended):
        return log_normal(np.log(MEDIAN_WITHOUT_HISTORY), SPREAD_WITHOUT_HISTORY)
    ends = np.sort(ended)
    at_risk = len(ends) - np.arange(len(ends)) + (len(running) - np.searchsorted(np.sort(running), ends))
    survival = np.cumprod(1 - 1 / at_risk)
    place = np.minimum(np.searchsorted(1 - survival, LEVELS), len(ends) - 1)
    outcomes: FloatArray = ends[place]
    return outcomes


def log_normal(mean: FloatArray | float, spread: FloatArray | float) -> FloatArray:
    """Return equally likely values of log-normal distributions: float64[..., NUM_OUTCOMES], ascending.

    Args:
        mean: float64[...], means of the logarithms.
        spread: float64[...], their standard deviations.
    """
    return np.exp(np.asarray(mean)[..., None] + np.asarray(spread)[..., None] * NORMAL_QUANTILES)
