"""The protocol by which training reports its progress."""

from collections.abc import Mapping
from typing import Protocol


class TrainingListener(Protocol):
    """Receives reports on the progress of training."""

    def phase(self, name: str, total: int) -> None:
        """Report that a new phase with `total` steps begins."""
        ...

    def step(self, done: int, figures: Mapping[str, float]) -> None:
        """Report that the phase has completed `done` steps."""
        ...

    def note(self, text: str) -> None:
        """Report a message of one line."""
        ...
