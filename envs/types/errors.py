"""Exceptions for users' mistakes. Each message is one line: the thing, its value, the allowed values, the fix."""

import difflib
from collections.abc import Iterable


def as_line(text: str) -> str:
    """Return a text as one line for a terminal, which characters of a stranger's file do not control."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class MurmurationError(ValueError):
    """A mistake in the user's input; scripts print its message without a stack trace.

    The message may quote a file: it is shown as one line, without control characters.
    """

    def __str__(self) -> str:
        return as_line(super().__str__())


class TraceError(MurmurationError):
    """A trace file, or a row of it, that does not have the expected format."""


class ClusterError(MurmurationError):
    """A cluster that cannot exist or that cannot run the workload."""


class AllocationError(MurmurationError):
    """An allocation that does not fit; the message names the job, the node and the resource."""


class PreemptionError(AllocationError):
    """An allocation that takes GPUs from a running job, where jobs keep them until they end."""


class PerformanceError(MurmurationError):
    """An unknown model or GPU type, or figures that do not determine a throughput."""


class CheckpointError(MurmurationError):
    """A checkpoint that is missing, corrupt, or made for another network or cluster."""


class ImpossibleResultError(MurmurationError):
    """A result that cannot be: its event log contradicts it, or it is better than a lower bound."""


class ConservationError(AssertionError):
    """Submitted jobs differ from finished plus unfinished jobs. This is always a bug of the simulator."""


def did_you_mean(
    name: str, choices: Iterable[str], *, lead: str = "; ", quoted: bool = False, cutoff: float = 0.5
) -> str:
    """Return the end of a message about an unknown name, such as "; did you mean fifo?"; empty if none is similar.

    Args:
        name: as the user typed it; case does not matter.
        choices: the names that exist.
        lead: what joins the hint to the message.
        quoted: whether the suggested name stands in quotes.
        cutoff: least similarity, from 0 to 1 (`difflib.get_close_matches`).
    """
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    if not near:
        return ""
    found = by_lower[near[0]]
    return f"{lead}did you mean {found!r}?" if quoted else f"{lead}did you mean {found}?"
