"""Curves as one CSV file with a row for each point, for any program that reads tables."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from agents.loggers.protocol import is_finite
from agents.tags import HEADLINE, POLICY
from envs.evaluation.files import write_whole

NAME, COLUMNS = "curves.csv", ("line", "tag", "step", "value")


class CurveTable:
    """Keeps all points, and writes them to `curves.csv`: columns line, tag, step and value. Pictures are left out.

    Without room on the disk a run goes on without them, and says so once.

    Args:
        folder: of the run.
        note: receives one line if the operating system does not let the file be written.
    """

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        self._path, self._note = folder / NAME, note
        self._points: dict[tuple[str, str, int], float] = {}
        self._broken = False

    def continue_after(self, step: int, progress: Mapping[str, float]) -> None:
        """Read the points of the interrupted run, without those of the policy after this step."""
        if not self._path.exists():
            return
        with self._path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["line"] != POLICY or int(row["step"]) <= step:
                    self._points[row["line"], row["tag"], int(row["step"])] = float(row["value"])

    def write(self, scalars: Mapping[str, float], step: int, line: str = POLICY) -> None:
        """Add points; a later one of the same line, tag and step takes the place of an earlier one."""
        for tag, value in scalars.items():
            if is_finite(value):
                self._points[line, tag, step] = float(value)

    def draw_level(self, scalars: Mapping[str, float], last: int, line: str) -> None:
        """Keep the figures of a baseline at step 0 and at the last step."""
        for step in (0, last):
            self.write(scalars, step, line)

    def describe(self, texts: Mapping[str, str], settings: Mapping[str, Any], metric: str = HEADLINE) -> None:
        """Leave out texts and settings: they stand in `.hydra/config.yaml` of the run."""

    def show(self, pictures: Mapping[str, Figure | npt.NDArray[np.uint8]], step: int) -> None:
        """Leave out pictures."""

    def flush(self) -> None:
        """Write the file as a whole."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows((*key, repr(value)) for key, value in self._points.items())
        try:
            if not self._broken:
                write_whole(self._path, text.getvalue())
        except OSError as error:
            self._broken = True
            self._note(f"{self._path}: no curves from here on, as they cannot be written ({error.strerror})")

    def close(self) -> None:
        """Write the file."""
        self.flush()
