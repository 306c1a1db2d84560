"""Failures of schedulers in a comparison: where they happened and why, in one line and as a trace."""

import traceback
from dataclasses import dataclass, field
from typing import Any

from envs.types import AllocationError, MurmurationError, Seconds


@dataclass(frozen=True)
class Failure:
    """A scheduler that raised an error, or whose allocation was refused, and therefore has no figures.

    Attributes:
        scheduler: its name in the comparison.
        episode: the index of the workload, from 0.
        workload: the name of the workload.
        time: simulated time of the failure; 0 also for an error in `reset`.
        message: the error in one line.
        error: the error itself.
    """

    scheduler: str
    episode: int
    workload: str
    time: Seconds
    message: str
    error: Exception = field(repr=False, compare=False)

    @classmethod
    def of(cls, error: Exception, scheduler: str, episode: int, workload: str, time: Seconds) -> "Failure":
        """Describe an error that ended an episode."""
        return cls(scheduler, episode, workload, time, message_of(error), error)

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
        return f"{self.scheduler} {self}\n\n{''.join(traceback.format_exception(self.error))}"


def message_of(error: Exception) -> str:
    """Return an error in one line; errors that are not the framework's own begin with their class."""
    if isinstance(error, AllocationError) and isinstance(error.__cause__, AllocationError):
        error = error.__cause__  # without the scheduler and the time, which the failure states itself
    text = " ".join(str(error).split())
    if isinstance(error, MurmurationError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
