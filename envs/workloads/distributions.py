"""Distributions of durations and arrivals for synthetic job streams, vectorised, with exact means."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from envs.types import FloatArray, Seconds, TraceError
from envs.types.units import DAY, HOUR


def _normal() -> Any:
    """SciPy's special functions, loaded at the first draw because the import takes a fifth of a second."""
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
    """Log-normal run times, truncated to [low, high] seconds: few jobs have most of the work, as in public traces."""

    median: Seconds  # before truncation
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
                f"durations: a log-normal of median {self.median} has no mass in [{self.low}, {self.high}]; widen it"
            )

    @property
    def _edges(self) -> tuple[float, float]:
        centre = math.log(self.median)
        low, high = ((math.log(edge) - centre) / self.sigma for edge in (self.low, self.high))
        return float(_normal().ndtr(low)), float(_normal().ndtr(high))

    @property
    def mean(self) -> Seconds:
        """Expected duration of the truncated distribution."""
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
    """Run times given by a table of measured quantiles. Between two quantiles the logarithm is uniform."""

    levels: Sequence[float]  # ascending from 0 to 1
    seconds: Sequence[Seconds]  # the duration at each level, ascending

    def __post_init__(self) -> None:
        levels, seconds = list(self.levels), list(self.seconds)
        ascending = all(a < b for a, b in itertools.pairwise(levels))
        if len(levels) != len(seconds) or len(levels) < 2 or not ascending or levels[0] != 0 or levels[-1] != 1:
            raise TraceError(
                f"durations: quantile levels are {levels}; they must ascend from 0 to 1, one level for each duration"
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
        # The mean over a piece whose logarithm is uniform from a to b is (e^b - e^a) / (b - a).
        step = np.diff(logs)
        piece = np.where(step > 1e-12, np.diff(np.exp(logs)) / np.maximum(step, 1e-12), np.exp(logs[:-1]))
        return float(np.diff(levels) @ piece)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """float64[size]: durations in seconds."""
        levels, logs = self._table
        return np.exp(np.interp(rng.random(size), levels, logs))


class ArrivalProcess(Protocol):
    """A random sequence of submission times."""

    def sample(self, rng: np.random.Generator, size: int, mean_gap: Seconds) -> FloatArray:
        """float64[size]: ascending submission times that begin at t = 0, with gaps of `mean_gap` seconds on average."""
        ...


@dataclass(frozen=True)
class Arrivals:
    """Submission times: gaps of a given variability, bursts within one second, and a daily cycle.

    Gaps are hyperexponential with balanced means: a gap is either short or long, and both means are chosen so that the
    gaps have the given mean and coefficient of variation. With `cv` 1 and no bursts this is a Poisson process. A burst
    models a sweep of runs that is submitted at once. The daily cycle warps time: jobs arrive faster in busy hours and
    more slowly at night.
    """

    cv: float = 1.0  # standard deviation / mean of the gaps, bursts included, before the daily cycle
    burst: float = 0.0  # share of jobs that are submitted in the same second as the previous job
    daily: Sequence[float] = ()  # relative arrival rates of the 24 hours of a day; constant if empty

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
            or any(not 0 <= weight < math.inf for weight in self.daily)
            or (self.daily and not sum(self.daily) > 0)
        ):
            raise TraceError(
                f"arrivals: daily has {len(self.daily)} rates; give 24 that are not negative and not all 0, or none"
            )

    @property
    def _gap_cv2(self) -> float:
        """Squared coefficient of variation of the gaps between bursts that makes it `cv` over all gaps."""
        return (self.cv**2 + 1) * (1 - self.burst) - 1

    def sample(self, rng: np.random.Generator, size: int, mean_gap: Seconds) -> FloatArray:
        """float64[size]: ascending submission times that begin at t = 0, with gaps of `mean_gap` seconds on average.

        With a daily cycle, the time of day at t = 0 is drawn uniformly.
        """
        gaps = rng.standard_exponential(size)
        square = max(self._gap_cv2, 1.0)
        short = 0.5 * (1 + math.sqrt((square - 1) / (square + 1)))
        # A gap is short with probability p and then has mean 1/2p, else it is long with mean 1/2(1-p): 1 on average.
        if square > 1:
            gaps /= np.where(rng.random(size) < short, 2 * short, 2 * (1 - short))
        if self.burst:
            gaps *= (rng.random(size) >= self.burst) / (1 - self.burst)
        gaps[0] = 0.0
        times = np.cumsum(gaps) * mean_gap
        return self._bend(times, DAY * rng.random()) if self.daily else times

    def _bend(self, times: FloatArray, time_of_day: Seconds) -> FloatArray:
        """Convert operational time, in which arrivals are uniform, to wall-clock time with the daily cycle."""
        intensity = np.asarray(self.daily, dtype=np.float64) * (24 / sum(self.daily))
        clock = np.arange(25) * HOUR
        done = np.concatenate([[0.0], np.cumsum(intensity)]) * HOUR  # operational seconds up to each full hour

        operational = times + np.interp(time_of_day, clock, done)
        bent = operational // DAY * DAY + np.interp(operational % DAY, done, clock)
        return np.maximum.accumulate(bent - bent[0])


@dataclass(frozen=True)
class AllAtOnce:
    """All jobs at t = 0, as in the static traces of Gavel (OSDI'20)."""

    def sample(self, rng: np.random.Generator, size: int, mean_gap: Seconds) -> FloatArray:
        """float64[size]: zeros, whatever the gap."""
        return np.zeros(size)


@dataclass(frozen=True)
class MarkovModulated:
    """Submission times in busy and quiet periods: a Markov-modulated Poisson process with two states.

    Periods have exponential lengths, and within a period jobs arrive as a Poisson process. `busy_share` of the time is
    busy; jobs then arrive `intensity` times as often as on average. In quiet periods they arrive
    (1 - busy_share * intensity) / (1 - busy_share) times as often, so that the mean gap is the given one. Unlike
    independent gaps of the same variability (`Arrivals`), short gaps follow each other, so that queues build up.
    See Fischer and Meier-Hellstern, Performance Evaluation 18 (1993), for the process and the moments of its gaps.

    Args:
        busy_share: share of the time in busy periods.
        intensity: arrivals per second in busy periods, relative to the mean.
        busy_jobs: mean number of jobs of a busy period, which sets its mean length.

    Raises:
        TraceError: a value is out of range, or quiet periods would have a negative number of jobs.
    """

    busy_share: float = 0.2
    intensity: float = 4.0
    busy_jobs: float = 40.0

    def __post_init__(self) -> None:
        if not 0 < self.busy_share < 1 or not 1 < self.intensity <= 1 / self.busy_share:
            raise TraceError(
                f"arrivals: busy_share is {self.busy_share} and intensity {self.intensity}; busy_share must be between "
                "0 and 1, and intensity above 1 and at most 1 / busy_share"
            )
        if not 0 < self.busy_jobs < math.inf:
            raise TraceError(f"arrivals: busy_jobs is {self.busy_jobs}; it must be positive and finite")

    @property
    def cv(self) -> float:
        """Standard deviation / mean of the gaps (Fischer and Meier-Hellstern 1993)."""
        high, low = self.intensity, self._quiet
        ending = self.intensity / self.busy_jobs  # busy periods that end, per mean gap of busy time
        starting = ending * self.busy_share / (1 - self.busy_share)
        both = starting + ending
        excess = 2 * starting * ending * (high - low) ** 2
        return math.sqrt(1 + excess / (both**2 * (high * low + high * starting + low * ending)))

    @property
    def _quiet(self) -> float:
        return (1 - self.busy_share * self.intensity) / (1 - self.busy_share)

    def sample(self, rng: np.random.Generator, size: int, mean_gap: Seconds) -> FloatArray:
        """float64[size]: ascending submission times that begin at t = 0, with gaps of `mean_gap` seconds on average.

        The state at t = 0 is busy for `busy_share` of the draws.
        """
        arrivals = np.cumsum(rng.standard_exponential(size))  # in operational time: one arrival per unit on average
        busy_first = bool(rng.random() < self.busy_share)
        busy_length = self.busy_jobs / self.intensity
        means = np.array([busy_length, busy_length * (1 - self.busy_share) / self.busy_share])
        intensities = np.array([self.intensity, self._quiet])
        states = np.array([0, 1] if busy_first else [1, 0])
        clock, done = [np.zeros(1)], [np.zeros(1)]
        while done[-1][-1] < arrivals[-1]:  # periods in blocks, until they hold all arrivals
            which = np.tile(states, 16)
            lengths = rng.standard_exponential(len(which)) * means[which]
            clock.append(clock[-1][-1] + np.cumsum(lengths))
            done.append(done[-1][-1] + np.cumsum(lengths * intensities[which]))
        times = np.interp(arrivals, np.concatenate(done), np.concatenate(clock))
        return np.maximum.accumulate((times - times[0]) * mean_gap)
