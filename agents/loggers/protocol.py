"""The protocol of loggers, several of them as one, and those that a run can choose by name."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from agents.tags import HEADLINE, POLICY
from envs.types import MurmurationError

# Class of each logger, imported when it is chosen: not everybody has all services installed.
LOGGER_CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "tensorboard": "agents.loggers.tensorboard.TensorBoardWriter",
        "csv": "agents.loggers.table.CurveTable",
        "wandb": "agents.loggers.wandb_run.WandbRun",
        "mlflow": "agents.loggers.mlflow_run.MlflowRun",
    }
)


class CurveLogger(Protocol):
    """Receives the curves of a training run. Tags are those of `agents.loggers.tensorboard.TensorBoardWriter`."""

    def continue_after(self, step: int, progress: Mapping[str, float]) -> None:
        """Continue a resumed run: points of the policy after this step, written before a crash, count no more.

        Args:
            step: the iteration from which it goes on.
            progress: what the run had cost until then, by the names of `agents.tags.AXES`.
        """

    def write(self, scalars: Mapping[str, float], step: int, line: str = POLICY) -> None:
        """Add points to the curves of one line: the policy, or its imitation; omit values that are not finite."""

    def draw_level(self, scalars: Mapping[str, float], last: int, line: str) -> None:
        """Show the figures of a baseline, from step 0 to the last step."""

    def describe(self, texts: Mapping[str, str], settings: Mapping[str, Any], metric: str = HEADLINE) -> None:
        """Keep texts (Markdown, by title) and settings (nested); `metric` is the tag by which runs are compared."""

    def show(self, pictures: Mapping[str, Figure | npt.NDArray[np.uint8]], step: int) -> None:
        """Show pictures by name: figures, or uint8[height, width, 3]."""

    def flush(self) -> None:
        """Write what is buffered."""

    def close(self) -> None:
        """Write what is buffered, and end."""


class Loggers:
    """Several loggers as one.

    Args:
        loggers: all that are told.
    """

    def __init__(self, loggers: Sequence[CurveLogger]) -> None:
        self.loggers = tuple(loggers)

    def continue_after(self, step: int, progress: Mapping[str, float]) -> None:
        """See `CurveLogger`."""
        for logger in self.loggers:
            logger.continue_after(step, progress)

    def write(self, scalars: Mapping[str, float], step: int, line: str = POLICY) -> None:
        """See `CurveLogger`."""
        for logger in self.loggers:
            logger.write(scalars, step, line)

    def draw_level(self, scalars: Mapping[str, float], last: int, line: str) -> None:
        """See `CurveLogger`."""
        for logger in self.loggers:
            logger.draw_level(scalars, last, line)

    def describe(self, texts: Mapping[str, str], settings: Mapping[str, Any], metric: str = HEADLINE) -> None:
        """See `CurveLogger`."""
        for logger in self.loggers:
            logger.describe(texts, settings, metric)

    def show(self, pictures: Mapping[str, Figure | npt.NDArray[np.uint8]], step: int) -> None:
        """See `CurveLogger`."""
        for logger in self.loggers:
            logger.show(pictures, step)

    def flush(self) -> None:
        """See `CurveLogger`."""
        for logger in self.loggers:
            logger.flush()

    def close(self) -> None:
        """See `CurveLogger`."""
        for logger in self.loggers:
            logger.close()


def open_loggers(names: Sequence[str], folder: Path, note: Callable[[str], None]) -> Loggers:
    """Open loggers by the names of `LOGGER_CLASSES`.

    Args:
        names: each once.
        folder: of the run.
        note: receives lines for the user.

    Raises:
        MurmurationError: there is no such logger, or what it needs is not installed.
    """
    if unknown := [name for name in names if name not in LOGGER_CLASSES]:
        raise MurmurationError(f"loggers: there is no {unknown[0]!r}; there are: {', '.join(LOGGER_CLASSES)}")
    found: list[CurveLogger] = []
    for name in dict.fromkeys(names):
        module, _, attribute = LOGGER_CLASSES[name].rpartition(".")
        try:
            found.append(getattr(import_module(module), attribute)(folder, note))
        except ImportError as error:
            raise MurmurationError(
                f"loggers: {name} needs a package that is not installed ({error.name}); pip install "
                f"'murmuration[{name}]', or leave {name} out"
            ) from error
    return Loggers(found)


def is_finite(value: float) -> bool:
    """Return whether a value can be a point of a curve."""
    return value == value and abs(value) != float("inf")


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, bool | int | float | str]:
    """Return nested settings with dots in their names; other values than plain ones become text, None is left out."""
    found: dict[str, bool | int | float | str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = value if isinstance(value, bool | int | float | str) else str(value)
    return found
