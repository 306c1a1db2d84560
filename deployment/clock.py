"""The clock of a bridge."""

import time
from collections.abc import Callable

from envs.types import Seconds


class SteadyClock:
    """Scaled time that never goes back and never jumps, whatever the clock on the wall does.

    Args:
        scale: scaled seconds in a second.
        began: when scaled time began, in seconds since 1970; None for now.
        wall: the clock on the wall.
        steady: a clock that nobody sets.
    """

    def __init__(
        self,
        scale: float,
        began: float | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scale, self._steady = scale, steady
        self._first, now = steady(), wall()
        self.began = now if began is None else began
        self._before = max(now - self.began, 0.0)

    def seconds(self) -> float:
        """Seconds of real time since the beginning."""
        return self._before + self._steady() - self._first

    def now(self) -> Seconds:
        """Scaled time."""
        return self.seconds() * self.scale

    def wall(self) -> float:
        """The present in seconds since 1970, on the clock that does not jump."""
        return self.began + self.seconds()
