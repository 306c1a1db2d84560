"""A limit on time."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class OutOfTimeError(Exception):
    """Something took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` in what takes longer on the clock; compiled code hears of it when it comes back.

    Not a limit on CPU time: with such a timer set, Linux counts a process's CPU time in steps of 4 ms.
    """

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise OutOfTimeError(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
