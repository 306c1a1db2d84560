"""Where independent episodes are played: one after another in this process, or by workers of a cluster."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from envs.types import MurmurationError

_Result = TypeVar("_Result")


class LostCallError(MurmurationError):
    """A call that ended its process, or whose machine was lost, each time that it was made."""


class Spread(Protocol):
    """Calls a function many times, wherever there is room. `murmuration.runs.spreading` has one for Ray."""

    def __call__(
        self, function: Callable[..., _Result], shared: Sequence[Any], calls: Sequence[Sequence[Any]]
    ) -> Iterator[_Result | LostCallError]:
        """Yield `function(*shared, *call)` for each call, in their order; an error in place of a call that was lost.

        Args:
            function: must not depend on anything but its arguments; it can be sent to another process.
            shared: the first arguments of all calls, which are sent once.
            calls: further arguments of each call.

        Raises:
            Exception: what the function raised.
        """
        ...


def one_after_another(
    function: Callable[..., _Result], shared: Sequence[Any], calls: Sequence[Sequence[Any]]
) -> Iterator[_Result]:
    """Make the calls in this process; see `Spread`."""
    return (function(*shared, *call) for call in calls)
