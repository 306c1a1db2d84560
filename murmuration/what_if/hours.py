"""GPUs in use and in the queue over time."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from envs.types import FloatArray, Seconds
from envs.types.units import DAY
from murmuration.what_if.played import Fates


@dataclass(frozen=True)
class Grid:
    """Equal steps of time, in seconds of the trace."""

    start: Seconds
    step: Seconds
    count: int

    @property
    def times(self) -> FloatArray:
        """float64[count]: when steps begin."""
        return np.asarray(self.start + self.step * np.arange(self.count), np.float64)


def time_text(zero: datetime | None, seconds: Seconds) -> str:
    """Return a time of the trace as a date, or as a day and an hour if the trace has no dates.

    Args:
        zero: date and time of t = 0; None for none.
        seconds: of the trace.
    """
    if zero is not None:
        return f"{zero + timedelta(seconds=float(seconds)):%Y-%m-%d %H:%M}"
    return f"day {int(seconds // DAY)}, {int(seconds % DAY // 3600):02}:{int(seconds % 3600 // 60):02}"


def grid_over(start: Seconds, end: Seconds, step: Seconds) -> Grid:
    """Return steps that cover a span."""
    return Grid(start, step, max(int(np.ceil((end - start) / step)), 1))


def means_over(grid: Grid, begin: FloatArray, end: FloatArray, weight: FloatArray) -> FloatArray:
    """Return float64[count]: for each step the mean over time of the sum of weights of intervals that are open.

    Args:
        grid: the steps.
        begin: float64[n], when intervals begin; NaN for none.
        end: float64[n], when they end; NaN: after the grid.
        weight: float64[n].
    """
    last = grid.start + grid.step * grid.count
    known = ~np.isnan(begin)
    low = np.clip(begin[known], grid.start, last)
    high = np.clip(np.nan_to_num(end[known], nan=last), grid.start, last)
    held = np.zeros(grid.count + 1)
    for times, sign in ((low, 1.0), (high, -1.0)):  # the integral of a step function, by where its steps are
        place = (times - grid.start) / grid.step
        at = np.minimum(place.astype(np.int64), grid.count)
        size = sign * weight[known]
        rises = np.bincount(at, size * (at + 1 - place), minlength=grid.count + 2)
        held += rises[: grid.count + 1]
        after = np.cumsum(np.bincount(at + 1, size, minlength=grid.count + 2))
        held += after[: grid.count + 1]
    means: FloatArray = held[: grid.count]
    return means


def in_use(grid: Grid, fates: Fates) -> FloatArray:
    """float64[count]: mean GPUs in use."""
    if fates.held is not None:
        return means_over(grid, *fates.held.T)
    return means_over(grid, fates.start, fates.end, fates.gpus.astype(np.float64))


def in_queue(grid: Grid, fates: Fates) -> FloatArray:
    """float64[count]: mean GPUs that waiting jobs ask for."""
    if fates.queued is not None:
        return means_over(grid, *fates.queued.T)
    return means_over(grid, fates.enter, fates.start, fates.gpus.astype(np.float64))


def by_hour_of_day(grid: Grid, values: FloatArray, midnight: Seconds = 0.0) -> FloatArray:
    """float64[24]: means by hour of the day of values on a grid; NaN for hours that it does not have.

    Args:
        grid: of the values, in steps of at most an hour.
        values: float64[count].
        midnight: when a day begins.
    """
    hours = ((grid.times + grid.step / 2 - midnight) // 3600.0 % 24).astype(np.int64)
    with np.errstate(invalid="ignore"):
        means: FloatArray = np.bincount(hours, values, minlength=24) / np.bincount(hours, minlength=24)
    return means
