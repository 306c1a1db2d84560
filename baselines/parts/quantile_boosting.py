"""Predict run times by gradient boosting of their quantiles."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.special import ndtri
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import ThreadpoolController

from baselines.parts.run_time_history import RunTimeHistory
from envs.simulation import PooledHistory
from envs.simulation.pooled_history import NORMAL_QUANTILES
from envs.types import FloatArray, JobFacts, Seconds

FITTED_LEVELS = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
MOST_ROWS = 20_000  # that a fit sees, the latest ones
LEAST_ROWS = 100  # below which all jobs are pooled
FITTED_SHARE = 0.75  # of the past jobs, the first ones; the others correct the fits
TREES, LEAVES, LEAF_ROWS, SHRINKAGE = 60, 15, 40, 0.1


class QuantileBoosting:
    """Predictor by gradient-boosted trees, one ensemble for each of seven quantiles of the logarithm.

    The loss is that of quantile regression (Koenker and Bassett, Econometrica 1978), the trees are scikit-learn's. They
    see the number of GPUs, and what earlier jobs of the same size, model, user, name and sweep took (`RunTimeHistory`);
    in training, what was known of each job at its submission. The trees are fitted on the first three quarters of the
    past jobs; each quantile is then shifted so that the right share of the others is below it, as in conformalized
    quantile regression (Romano, Patterson, Candes, NeurIPS 2019). Between the quantiles, normal scores and logarithms
    are interpolated linearly. Fits are deterministic and on one thread; they see the latest 20,000 jobs.

    Args:
        gap: seconds between jobs without names that belong together.
    """

    def __init__(self, gap: Seconds = 60.0) -> None:
        self.gap = gap
        self._pooled = PooledHistory()
        self._history = RunTimeHistory(gap)
        self._fits: list[HistGradientBoostingRegressor] = []
        self._shifts: FloatArray = np.zeros(len(FITTED_LEVELS))

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """See `envs.scheduling.WorkPredictor.train`."""
        if sum(len(jobs.run_time) for jobs in episodes) < LEAST_ROWS:
            return self._pooled.train(episodes)
        features = self._history.replay(episodes)
        logarithm = np.log(np.concatenate([jobs.run_time for jobs in episodes]))
        seen = round(FITTED_SHARE * len(logarithm))
        self._fits = [fit_trees(features[:seen], logarithm[:seen], level) for level in FITTED_LEVELS]
        beyond = [logarithm[seen:] - apply_trees(fit, features[seen:]) for fit in self._fits]
        self._shifts = np.array([np.quantile(*each) for each in zip(beyond, FITTED_LEVELS, strict=True)])
        return None

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """See `envs.scheduling.WorkPredictor.predict`."""
        if not (self._fits and len(asked.run_time)):
            return self._pooled.predict(asked, ended)
        features = self._history.describe(asked, ended)
        quantiles = np.sort(np.stack([apply_trees(fit, features) for fit in self._fits], axis=1) + self._shifts, axis=1)
        scores = ndtri(FITTED_LEVELS)
        found: FloatArray = np.exp(np.stack([np.interp(NORMAL_QUANTILES, scores, row) for row in quantiles]))
        return found


def fit_trees(features: FloatArray, values: FloatArray, level: float | None = None) -> HistGradientBoostingRegressor:
    """Fit boosted trees on the last `MOST_ROWS` rows.

    Args:
        features: float64[n, any]; NaN is a value like others.
        values: float64[n].
        level: of the quantile; None: the mean.
    """
    trees = HistGradientBoostingRegressor(
        loss="squared_error" if level is None else "quantile",
        quantile=level,
        max_iter=TREES,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=LEAF_ROWS,
        learning_rate=SHRINKAGE,
        early_stopping=False,
        random_state=0,
    )
    shown = features[-MOST_ROWS:]
    shown = np.where(np.isnan(shown).all(axis=0), 0.0, shown)  # scikit-learn takes no column without numbers
    with _threads().limit(limits=1, user_api="openmp"):
        return trees.fit(shown, values[-MOST_ROWS:])


def apply_trees(trees: HistGradientBoostingRegressor, features: FloatArray) -> FloatArray:
    """float64[n]: what fitted trees say."""
    with _threads().limit(limits=1, user_api="openmp"):
        found: FloatArray = trees.predict(features)
    return found


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()
