"""One figure of a report, and what can be wrong with a run as a whole."""

from dataclasses import dataclass

from envs.types import MurmurationError


class CountError(MurmurationError):
    """Two engines that should have done the same work did not."""


class FaultError(MurmurationError):
    """Something that was to be measured broke."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    part: str
    size: str  # servers/jobs, or what else it was measured on
    what: str
    value: float
    unit: str
    target: str = ""
    met: bool | None = None  # None without a target
