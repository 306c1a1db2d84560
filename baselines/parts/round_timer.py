"""Rounds of a scheduler's own length, independent of the rounds of the scenario."""

import math

from envs.types import MurmurationError, Seconds

ROUNDING = 1e-6  # seconds by which a round may begin early


class RoundTimer:
    """When the next round of a scheduler is due.

    Args:
        scheduler: its name, for error messages.
        round_length: seconds from one round to the next; 0 makes every call a round.
    """

    def __init__(self, scheduler: str, round_length: Seconds) -> None:
        if not (round_length >= 0 and math.isfinite(round_length)):
            raise MurmurationError(f"{scheduler}: round_length is {round_length} s; it must be finite and not negative")
        self.round_length = round_length
        self._began: Seconds = -math.inf

    def begin(self, time: Seconds) -> bool:
        """Return whether a round begins at this instant; if so, the next is due `round_length` later."""
        if time - self._began < self.round_length - ROUNDING:
            return False
        self._began = time
        return True

    def forget(self) -> None:
        """Begin an episode."""
        self._began = -math.inf
