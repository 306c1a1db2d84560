"""Beliefs about what jobs keep of their throughput beside each other, in one episode."""

from dataclasses import dataclass

import numpy as np

from envs.performance import plain_model
from envs.simulation.world.throughput import ThroughputTable
from envs.types import BoolArray, FloatArray, IntArray

PairCell = tuple[int, int, int]  # GPU type, model, the model beside it
LEAST_KEPT = 0.01  # of its throughput, as believed; what is measured never falls so low
LEAST_REST = 1e-6  # variance of what no other pair tells, so that pairs which were seen can always be told apart


@dataclass(frozen=True)
class PairPrior:
    """The belief about all pairs before one of them was seen.

    The logarithm of the fraction that model m keeps beside model n on GPUs of type t is
    `mean[t] + loss[m] + harm[n] + together[m, n] + rest[m, n, t]`, the last four normal with mean 0; loss and harm of
    one model may be correlated. The form is ours: two-way random effects. Means and variances are moments over the
    pairs of all models, so that the prior tells how much models differ and not which one loses most.

    Attributes:
        mean: float64[num_gpu_types].
        loss, harm, together, rest: variances.
        both: covariance of loss and harm of a model.
    """

    mean: FloatArray
    loss: float
    harm: float
    both: float
    together: float
    rest: float

    @classmethod
    def of(cls, factors: FloatArray) -> "PairPrior":
        """Return the prior that fits the pairs of all models.

        Args:
            factors: float64[num_gpu_types, num_models, num_models], see `ThroughputTable.pair_factors`.
        """
        fits = factors > 0
        logs = np.log(np.where(fits, factors, 1.0))
        mean = logs.sum(axis=(1, 2)) / np.maximum(fits.sum(axis=(1, 2)), 1)
        off = np.where(fits, logs - mean[:, None, None], 0.0)
        apart = ~np.eye(factors.shape[1], dtype=bool)
        loss = max(_within(off, fits, 2), 0.0)
        harm = max(_within(off, fits, 1), 0.0)
        lost, harmed = ((off * apart).sum(axis=axis) for axis in (2, 1))
        count = ((fits & apart).sum(axis=2) * (fits & apart).sum(axis=1)).sum()
        most = float(np.sqrt(loss * harm))
        both = float(np.clip((lost * harmed).sum() / max(int(count), 1), -most, most))
        together = max(_within(off, fits, 0) - loss - harm, 0.0)
        total = float((off**2).sum() / max(int(fits.sum()), 1))
        return cls(mean, loss, harm, both, together, max(total - loss - harm - together, LEAST_REST))

    def covariance(self, some: IntArray, others: IntArray) -> FloatArray:
        """Return the covariance of logarithms: float64[len(some), len(others)].

        Args:
            some, others: int64[n, 3], the fields of a `PairCell`.
        """
        gpu_type, model, beside = some.T[:, :, None]
        its_type, its_model, its_beside = others.T[:, None, :]
        loses, harms = model == its_model, beside == its_beside
        crossed = (model == its_beside).astype(np.float64) + (beside == its_model)
        alike = self.together + self.rest * (gpu_type == its_type)
        found: FloatArray = self.loss * loses + self.harm * harms + self.both * crossed + alike * (loses & harms)
        return found


def _within(off: FloatArray, fits: BoolArray, axis: int) -> float:
    """Return the mean product of two different values that differ along one axis only."""
    products = off.sum(axis=axis) ** 2 - (off**2).sum(axis=axis)
    count = fits.sum(axis=axis)
    return float(products.sum() / max(int((count * (count - 1)).sum()), 1))


class PairBeliefs:
    """Samples of running pairs, and the belief about all pairs that follows: the median of a Gaussian posterior.

    Which models fit into the memory of a GPU together is known.

    Args:
        prior: what is believed of pairs that nothing is known of.
        truth: the table of the episode; of its factors, no view shows more than where they are 0.
        error: standard deviation of the logarithm of a sample.
    """

    def __init__(self, prior: PairPrior, truth: ThroughputTable, error: float) -> None:
        names = [plain_model(name) for name in truth.models]
        known = sorted(set(names))
        self._rows: IntArray = np.array([known.index(name) for name in names], np.int64)
        first = np.array([names.index(name) for name in known])
        self._truth = truth.pair_factors[:, first[:, None], first]
        self._prior, self._error = prior, error
        self._samples: dict[PairCell, list[float]] = {}
        self._factors: FloatArray | None = None  # those after the last sample

    def copy(self) -> "PairBeliefs":
        """Return beliefs that equal these and learn on their own."""
        copied = object.__new__(PairBeliefs)
        vars(copied).update(vars(self))
        copied._samples = {pair: list(logs) for pair, logs in self._samples.items()}
        return copied

    def add(self, gpu_type: int, model: int, other: int, error: float) -> None:
        """Add what a job has shown beside another one.

        Args:
            gpu_type: of the GPUs that they share.
            model, other: of the job and of the other one, as rows of the episode's table.
            error: of the sample, as a logarithm.
        """
        pair = gpu_type, int(self._rows[model]), int(self._rows[other])
        self._factors = None
        self._samples.setdefault(pair, []).append(float(np.log(self._truth[pair])) + error)

    def factors(self) -> FloatArray:
        """float64[num_gpu_types, num_models, num_models]: what is kept beside another job, by the table's models."""
        if self._factors is None:
            self._factors = self._believe()
        return self._factors

    def _believe(self) -> FloatArray:
        shape = self._truth.shape
        logs = np.broadcast_to(self._prior.mean[:, None, None], shape).copy()
        if self._samples:
            pairs = np.array(list(self._samples))
            seen = np.array([sum(each) / len(each) for each in self._samples.values()])
            noise = np.array([self._error**2 / len(each) for each in self._samples.values()])
            every = np.argwhere(np.ones(shape, bool))
            surprise = np.linalg.solve(
                self._prior.covariance(pairs, pairs) + np.diag(noise), seen - self._prior.mean[pairs[:, 0]]
            )
            logs += (self._prior.covariance(every, pairs) @ surprise).reshape(shape)
        kept = np.where(self._truth > 0, np.clip(np.exp(logs), LEAST_KEPT, 1.0), 0.0)
        found: FloatArray = np.ascontiguousarray(kept[:, self._rows[:, None], self._rows])
        return found
