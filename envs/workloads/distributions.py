"""What a synthetic job stream is drawn from: durations and arrivals, vectorised, with exact means."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from envs.types import FloatArray, Seconds, TraceError

HOUR = 3600.0


def _normal() -> Any:
    """SciPy's normal distribution; loaded when first drawn from, since it takes a fifth of a second."""
    from scipy import special

    return special


class Durations(Protocol):
    """A distribution of run times."""

    @property
    def mean(self) -> Seconds:
        """Expected duration."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """float64[size]: durations in seconds."""
        ...


@dataclass(frozen=True)
class LogNormal:
    """Log-normal run times, cut to [low, high] seconds: few jobs have most of the work, as in every public trace."""

    median: Seconds  # before the cut
    sigma: float  # standard deviation of the logarithm
    low: Seconds = 60.0
    high: Seconds = 30 * 86400.0

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf or not self.median > 0 or not 0 < self.sigma < math.inf:
            raise TraceError(
                f"durations: median {self.median}, sigma {self.sigma}, low {self.low}, high {self.high}; "
                "need 0 < low < high and a positive median and sigma"
            )
        logarithm = NormalDist(math.log(self.median), self.sigma)
        if logarithm.cdf(math.log(self.high)) - logarithm.cdf(math.log(self.low)) < 1e-9:
            raise TraceError(
                f"durations: [{self.low}, {self.high}] holds nothing of a log-normal of median {self.median}; widen it"
            )

    @property
    def _edges(self) -> tuple[float, float]:
        centre = math.log(self.median)
        low, high = ((math.log(edge) - centre) / self.sigma for edge in (self.low, self.high))
        return float(_normal().ndtr(low)), float(_normal().ndtr(high))

    @property
    def mean(self) -> Seconds:
        """Expected duration, of the cut distribution."""
        centre, (low, high) = math.log(self.median), self._edges
        edges = [(math.log(edge) - centre) / self.sigma - self.sigma for edge in (self.low, self.high)]
        shifted = _normal().ndtr(edges)
        return float(math.exp(centre + self.sigma**2 / 2) * (shifted[1] - shifted[0]) / (high - low))

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """float64[size]: durations in seconds."""
        low, high = self._edges
        normal: FloatArray = _normal().ndtri(low + (high - low) * rng.random(size))
        return np.clip(self.median * np.exp(self.sigma * normal), self.low, self.high)


@dataclass(frozen=True)
class Quantiles:
    """Run times by a table of measured quantiles; between two of them the logarithm is uniform."""

    levels: Sequence[float]  # ascending from 0 to 1
    seconds: Sequence[Seconds]  # the duration at each level, ascending

    def __post_init__(self) -> None:
        levels, seconds = list(self.levels), list(self.seconds)
        ascending = all(a < b for a, b in itertools.pairwise(levels))
        if len(levels) != len(seconds) or len(levels) < 2 or not ascending or levels[0] != 0 or levels[-1] != 1:
            raise TraceError(
                f"durations: quantile levels are {levels}; they must ascend from 0 to 1, one for each duration"
            )
        if seconds[0] <= 0 or any(a > b for a, b in itertools.pairwise(seconds)) or not math.isfinite(seconds[-1]):
            raise TraceError(f"durations: quantiles are {seconds} s; they must be positive, finite and ascending")

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        return np.asarray(self.levels, dtype=np.float64), np.log(np.asarray(self.seconds, dtype=np.float64))

    @property
    def mean(self) -> Seconds:
        """Expected duration."""
        levels, logs = self._table
        # Over a piece on which the logarithm is uniform from a to b, the mean is (e^b - e^a) / (b - a).
        step = np.diff(logs)
        piece = np.where(step > 1e-12, np.diff(np.exp(logs)) / np.maximum(step, 1e-12), np.exp(logs[:-1]))
        return float(np.diff(levels) @ piece)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """float64[size]: durations in seconds."""
        levels, logs = self._table
        return np.exp(np.interp(rng.random(size), levels, logs))


@dataclass(frozen=True)
class Arrivals:
    """When jobs are submitted: gaps of a given variability, bursts that share one second, a daily cycle.

    Gaps are hyperexponential with balanced means: two kinds of gap, short and long, chosen so that mean and
    coefficient of variation are as asked; with `cv` 1 and no bursts this is the Poisson process. A burst is a sweep
    of runs submitted at once. The daily cycle then bends time: the process runs fast in busy hours and slowly at
    night.
    """

    cv: float = 1.0  # standard deviation over mean of the gaps, bursts included, before the daily cycle
    burst: float = 0.0  # share of jobs that come in the same second as the job before
    daily: Sequence[float] = ()  # relative rates of the 24 hours of a day; flat if empty

    def __post_init__(self) -> None:
        if not 0 <= self.burst < 1:
            raise TraceError(f"arrivals: burst is {self.burst}; it must be a share of at least 0 and under 1")
        if not math.isfinite(self.cv) or self._gap_cv2 < 1 - 1e-9:
            least = math.sqrt(2 / (1 - self.burst) - 1)
            raise TraceError(
                f"arrivals: cv is {self.cv}; with burst {self.burst:g} it must be at least {least:.4g} and finite"
            )
        if (
            len(self.daily) not in (0, 24)
            or any(not 0 <= rate < math.inf for rate in self.daily)
            or (self.daily and not sum(self.daily) > 0)
        ):
            raise TraceError(
                f"arrivals: daily has {len(self.daily)} rates; give 24, not negative and not all 0, or none"
            )

    @property
    def _gap_cv2(self) -> float:
        """Squared variation of the gaps between bursts, such that bursts included it is `cv`."""
        return (self.cv**2 + 1) * (1 - self.burst) - 1

    def sample(self, rng: np.random.Generator, size: int, mean_gap: Seconds) -> FloatArray:
        """float64[size]: ascending submission times, the first at t = 0, with gaps of `mean_gap` seconds on average.

        With a daily cycle t = 0 falls on a uniformly drawn time of day.
        """
        gaps = rng.standard_exponential(size)
        square = max(self._gap_cv2, 1.0)
        short = 0.5 * (1 + math.sqrt((square - 1) / (square + 1)))
        # A gap is of the short kind with probability p and then has mean 1/2p, else 1/2(1-p): 1 on average.
        if square > 1:
            gaps /= np.where(rng.random(size) < short, 2 * short, 2 * (1 - short))
        if self.burst:
            gaps *= (rng.random(size) >= self.burst) / (1 - self.burst)
        gaps[0] = 0.0
        times = np.cumsum(gaps) * mean_gap
        return self._bend(times, 24 * HOUR * rng.random()) if self.daily else times

    def _bend(self, times: FloatArray, time_of_day: Seconds) -> FloatArray:
        """Operational time to wall-clock time: equal arrivals in operational time come at the daily rates."""
        rates = np.asarray(self.daily, dtype=np.float64) * (24 / sum(self.daily))
        clock = np.arange(25) * HOUR
        done = np.concatenate([[0.0], np.cumsum(rates)]) * HOUR  # operational seconds by each full hour
        day = 24 * HOUR
        operational = times + np.interp(time_of_day, clock, done)
        bent = operational // day * day + np.interp(operational % day, done, clock)
        return np.maximum.accumulate(bent - bent[0])
