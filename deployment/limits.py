"""The most actions in a minute."""

from collections import deque

from envs.types import Seconds


class ActionLimit:
    """Allows so many actions in any minute.

    Args:
        per_minute: the most actions.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._taken: deque[Seconds] = deque()

    def take(self, now: Seconds) -> bool:
        """Count an action at a time of a steady clock; return whether it is within the limit."""
        while self._taken and self._taken[0] < now - 60.0:
            self._taken.popleft()
        allowed = len(self._taken) < self._per_minute
        if allowed:
            self._taken.append(now)
        return allowed
