"""Failures of schedulers in a comparison: where they happened and why, in one line and as a trace."""

import contextlib
import pickle
import traceback
from dataclasses import dataclass, field
from typing import Any

from envs.types import AllocationError, MurmurationError, Seconds

LONGEST = 1000  # characters of a message; the trace has all of them


@dataclass(frozen=True)
class Failure:
    """A scheduler that raised an error, or whose allocation was refused, and therefore has no figures.

    Attributes:
        scheduler: its name in the comparison.
        episode: the index of the workload, from 0.
        workload: the name of the workload.
        time: simulated time of the failure; 0 also for an error in `reset`.
        message: the error in one line.
        error: the error itself; if it comes from another process and cannot be sent, one with the same message.
        details: the trace of the error.
    """

    scheduler: str
    episode: int
    workload: str
    time: Seconds
    message: str
    error: BaseException = field(repr=False, compare=False)
    details: str = field(default="", repr=False, compare=False)

    @classmethod
    def of(cls, error: BaseException, scheduler: str, episode: int, workload: str, time: Seconds) -> "Failure":
        """Describe an error that ended an episode."""
        return cls(scheduler, episode, workload, time, message_of(error), error, trace_of(error))

    def __str__(self) -> str:
        return f"failed in episode {self.episode} ({self.workload}) at t = {self.time:g} s: {self.message}"

    def row(self) -> dict[str, Any]:
        """Return the row of `Comparison.rows`."""
        return {
            "scheduler": self.scheduler,
            "failed": self.message,
            "episode": self.episode,
            "workload": self.workload,
            "time": self.time,
        }

    def trace(self) -> str:
        """Return the failure in one line, and the trace of the error below it."""
        return f"{self.scheduler} {self}\n\n{self.details}"


def message_of(error: BaseException) -> str:
    """Return an error in one line; errors that are not the framework's own begin with their class."""
    if isinstance(error, AllocationError) and isinstance(error.__cause__, AllocationError):
        error = error.__cause__  # without the scheduler and the time, which the failure states itself
    text = ""
    with contextlib.suppress(Exception):  # a scheduler's own error may fail to say what it is
        text = " ".join(str(error).split())
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ..."
    if isinstance(error, MurmurationError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def trace_of(error: BaseException) -> str:
    """Return the trace of an error, as Python prints it."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # an error with parts that cannot be printed
        return "".join(traceback.format_tb(error.__traceback__))


def portable(error: BaseException) -> BaseException:
    """Return an error that can be sent to another process: itself, or one with its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(message_of(error))
    return error
