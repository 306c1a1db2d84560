"""Differences between variants of a training run, paired by training seed, and how many seeds they need."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from envs.evaluation.aggregate import interquartile_means, stratified_bootstrap
from envs.evaluation.statistics import Estimate, t_interval
from envs.types import FloatArray

LEVEL = 0.95  # of intervals
POWER = 0.8  # the probability that the interval of a difference excludes 0


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """By how much one variant differs from another over pairs, as logarithms of ratios: 0.02 is 2 %.

    Attributes:
        pairs: their number.
        mean: with Student's t interval over pairs; NaN bounds for fewer than two pairs.
        deviation: standard deviation of a pair; NaN for fewer than two.
    """

    pairs: int
    mean: Estimate
    deviation: float

    @classmethod
    def of(cls, ratios: FloatArray) -> "PairedDifference":
        """Return the difference that float64[pairs], positive ratios of costs, show."""
        logs = np.log(ratios)
        deviation = float(np.std(logs, ddof=1)) if len(logs) > 1 else float("nan")
        return cls(len(logs), t_interval(logs, LEVEL), deviation)

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / math.sqrt(self.pairs)

    def pairs_for_error(self, error: float) -> float:
        """Return how many pairs have this standard error; NaN if the deviation is unknown."""
        return math.nan if math.isnan(self.deviation) else max(1.0, math.ceil((self.deviation / error) ** 2))

    def pairs_to_see(self, difference: float) -> float:
        """Return how many pairs show a true difference of this size with probability `POWER` (normal law)."""
        return self.pairs_for_error(difference / float(ndtri(0.5 + LEVEL / 2) + ndtri(POWER)))


def paired_ratio(costs: FloatArray, reference: FloatArray) -> Estimate:
    """Return the interquartile mean of the ratios of paired costs, with a bootstrap interval over seeds and workloads.

    Args:
        costs: float64[seeds, workloads] of a variant.
        reference: the same of another one, with the same seeds and workloads.
    """
    return stratified_bootstrap(
        [[costs / reference]],
        lambda drawn: interquartile_means(drawn[0][0].reshape(len(drawn[0][0]), -1)),
        np.random.default_rng(0),
        level=LEVEL,
    )
