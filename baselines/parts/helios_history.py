"""Predict run times as the QSSF service of Helios does: a rolling estimate merged with gradient boosting."""

from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from baselines.parts.quantile_boosting import FITTED_SHARE, LEAST_ROWS, apply_trees, fit_trees
from baselines.parts.run_time_history import FEATURES, RunTimeHistory
from envs.simulation import PooledHistory
from envs.simulation.pooled_history import LEVELS
from envs.types import FloatArray, JobFacts, MurmurationError

ROLLING = (
    "recent of group",
    "recent of similar name",
    "mean of user and GPUs",
    "mean of GPUs",
)  # the first that is known


class HeliosHistory:
    """Predictor of QSSF: Hu, Sun, Yan, Wen, Zhang, SC'21, section 4.2; a reconstruction with a spread.

    The rolling estimate of a job is that of the user's earlier jobs of its name, in which later ones count more; or of
    similar names; or the mean of the user's jobs of as many GPUs; or of all jobs of as many GPUs. The other estimate is
    by gradient-boosted trees, of the mean of the logarithm. Both logarithms are averaged.

    The paper clusters names by their edit distance; here names are similar if they differ in numbers alone. It gives
    its trees attributes of the job and the time of day; here they see the history of `RunTimeHistory`, since episodes
    begin at any time of day. It takes means of run times; here they are means of logarithms. And it predicts a single
    number: the distribution about it is that of the errors on the last quarter of the past jobs, which the trees did
    not see.

    Args:
        rolling: weight of the rolling estimate, from 0 to 1; the paper leaves it open.

    Raises:
        MurmurationError: the weight is out of range.
    """

    def __init__(self, rolling: float = 0.5) -> None:
        if not 0 <= rolling <= 1:
            raise MurmurationError(f"predictor.rolling is {rolling}; it must be a weight from 0 to 1")
        self.rolling = rolling
        self._pooled = PooledHistory()
        self._history = RunTimeHistory()
        self._trees: HistGradientBoostingRegressor | None = None
        self._errors = np.zeros(len(LEVELS))
        self._mean = 0.0

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """See `envs.scheduling.WorkPredictor.train`."""
        if sum(len(jobs.run_time) for jobs in episodes) < LEAST_ROWS:
            return self._pooled.train(episodes)
        features = self._history.replay(episodes)
        logarithm = np.log(np.concatenate([jobs.run_time for jobs in episodes]))
        seen = round(FITTED_SHARE * len(logarithm))
        self._mean = float(logarithm.mean())
        self._trees = fit_trees(features[:seen], logarithm[:seen])
        self._errors = np.quantile(logarithm[seen:] - self._merged(features[seen:]), LEVELS)
        return None

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """See `envs.scheduling.WorkPredictor.predict`."""
        if self._trees is None or not len(asked.run_time):
            return self._pooled.predict(asked, ended)
        found: FloatArray = np.exp(self._merged(self._history.describe(asked, ended))[:, None] + self._errors)
        return found

    def _merged(self, features: FloatArray) -> FloatArray:
        """float64[n]: the average of the logarithms of both estimates."""
        assert self._trees is not None, "trained"
        rolling = np.full(len(features), self._mean)
        for what in reversed(ROLLING):
            column = features[:, FEATURES.index(what)]
            rolling = np.where(np.isnan(column), rolling, column)
        return self.rolling * rolling + (1 - self.rolling) * apply_trees(self._trees, features)
