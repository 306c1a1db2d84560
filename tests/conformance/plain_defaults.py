"""The default estimator and predictor in plain Python, which the reference engine asks in their place."""

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from envs.types import NUM_OUTCOMES, EstimatedCurve, FloatArray, JobFacts, KnownCurves, ThroughputSamples


class PlainMeanCurve:
    """The mean shape of all other models' curves, at the height that samples show; see `envs.simulation.MeanCurve`."""

    def fit(self, known: KnownCurves) -> "PlainMeanCurve":
        """Find the shape and what curves deviate from it, by alternating means of the logarithms."""
        logs = np.ma.log(np.ma.masked_equal(known.curves, 0.0))
        shape, found = np.zeros(known.runs.shape), PlainMeanCurve()
        for _ in range(100):
            heights = (logs - shape).mean(axis=(1, 2, 3))[:, None, None, None]
            shape = np.ma.filled((logs - heights).mean(axis=0), 0.0)
        rest = logs - shape - heights
        found.shape = shape
        found.variance = np.ma.filled((rest**2).sum(axis=0), 0.0) / np.maximum(rest.count(axis=0) - 1, 1)
        return found

    shape: FloatArray
    variance: FloatArray

    def estimate(self, samples: ThroughputSamples) -> EstimatedCurve:
        """Weigh each sample by the inverse of its variance."""
        total = height = 0.0
        for cell, throughput, error, _ in zip(*samples, strict=True):
            weight = 1.0 / (error**2 + self.variance[tuple(cell)] + 1e-6)
            height += weight * (math.log(throughput) - self.shape[tuple(cell)])
            total += weight
        return EstimatedCurve(np.exp(self.shape + height / total), np.sqrt(self.variance + 1.0 / total))


class PlainPooledHistory:
    """The product-limit estimate of run times; see `envs.simulation.PooledHistory`.

    Fractions are exact. Where exactly as many jobs as a level asks for have ended, the other one may take the next run
    time because of rounding; this happened in two of 900 random worlds.
    """

    past: Sequence[float] = ()

    def train(self, episodes: Sequence[JobFacts]) -> None:
        """Keep the run times of past episodes."""
        self.past = [seconds for jobs in episodes for seconds in jobs.run_time.tolist()]

    def predict(self, asked: JobFacts, ended: JobFacts) -> FloatArray:
        """Read off the times at which so many of the jobs have ended."""
        levels = [Fraction(2 * k + 1, 2 * NUM_OUTCOMES) for k in range(NUM_OUTCOMES)]
        ends, running = sorted([*self.past, *ended.run_time.tolist()]), asked.run_time.tolist()
        if ends:
            outcomes = [
                next((end for end, gone in _gone(ends, running) if gone >= level), ends[-1]) for level in levels
            ]
        else:
            outcomes = [3600.0 * math.exp(1.5 * NormalDist().inv_cdf(float(level))) for level in levels]
        return np.array([outcomes] * len(running)).reshape(len(running), NUM_OUTCOMES)


def _gone(ends: list[float], running: list[float]) -> list[tuple[float, Fraction]]:
    """The fraction of jobs that end by each end."""
    left, found = Fraction(1), []
    for end in sorted(set(ends)):
        at_risk = sum(other >= end for other in [*ends, *running])
        left *= 1 - Fraction(ends.count(end), at_risk)
        found.append((end, 1 - left))
    return found
