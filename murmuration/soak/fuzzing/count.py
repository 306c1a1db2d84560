"""The counts of one fuzz, and the check of a single input."""

from collections.abc import Callable
from dataclasses import dataclass

from envs.types import MurmurationError
from murmuration.config.errors import RunFailedError
from murmuration.soak.worlds import end_if_hanging


@dataclass
class FuzzCount:
    """How the inputs of one fuzz ended.

    Attributes:
        name: of the fuzz.
        inputs: inputs that were read.
        changed: those of them that differ from an honest input.
        refused: those that were refused in one line.
    """

    name: str
    inputs: int = 0
    changed: int = 0
    refused: int = 0

    def check(self, seed: int, read: Callable[[], object], *, changed: bool = True) -> None:
        """Read one input and count how it ended. The process ends if that takes half an hour.

        Args:
            seed: from which the input is drawn again.
            read: reads it; it may refuse it by a `MurmurationError` of one line.
            changed: whether it differs from an honest one.

        Raises:
            RunFailedError: it ended in another error, or in an error of several lines.
        """
        self.inputs += 1
        self.changed += changed
        try:
            with end_if_hanging(f"{self.name}: input {seed}"):
                read()
        except MurmurationError as error:
            self.refused += 1
            if "\n" in str(error) or not str(error):
                raise RunFailedError(
                    f"{self.name}: input {seed}: refused in several lines or none: {error!r}"
                ) from error
        except RunFailedError:
            raise
        except Exception as error:
            raise RunFailedError(f"{self.name}: input {seed}: {type(error).__name__}: {error}") from error

    def __str__(self) -> str:
        counts = f"{self.inputs:,} inputs, {self.changed:,} of them changed"
        return f"{self.name}: {counts}: {self.refused:,} refused in one line"
