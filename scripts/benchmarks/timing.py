"""CPU seconds, limits on time, and the machine that figures are measured on."""

import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType

REPORTED_PACKAGES = ("numpy", "numba", "ray", "torch")


class OutOfTimeError(Exception):
    """Something took longer than its limit."""


def cpu_seconds(work: Callable[[], object], repeats: int = 1, prepare: Callable[[], object] | None = None) -> float:
    """The least process CPU time of a call; the time of `prepare`, called before each repeat, is not counted."""
    best = float("inf")
    for _ in range(repeats):
        if prepare is not None:
            prepare()
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` when the block takes longer on the clock; compiled code is interrupted when it returns.

    This is not a limit on CPU time: with such a timer set, Linux counts a process's CPU time in steps of 4 ms.
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


def describe_machine() -> dict[str, str]:
    """Processor, load average, Python and the versions of the packages that matter."""
    versions = {name: version(name) for name in REPORTED_PACKAGES}
    load = ", ".join(f"{minutes:.1f}" for minutes in os.getloadavg())
    return {"processor": _processor(), "load average": load, "python": platform.python_version(), **versions}


def _processor() -> str:
    """The processor's name, if the operating system knows it, and the number of cores."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"
