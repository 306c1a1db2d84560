"""Curves in Weights & Biases. Runs are kept offline in the run's folder, unless WANDB_MODE says otherwise."""

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import wandb
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from agents.loggers.protocol import flatten, is_finite
from agents.tags import HEADLINE, POLICY
from envs.evaluation.files import write_whole

STEP, IDENTIFIER = "iteration", "wandb_id"


def as_pixels(picture: Figure | npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return uint8[height, width, 3 or 4]; wandb itself draws only figures of pyplot."""
    if not isinstance(picture, Figure):
        return picture
    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


class WandbRun:
    """One run of Weights & Biases: curves over iterations, baselines as curves `<baseline>/<tag>`, settings, pictures.

    Without `WANDB_MODE=online` it needs no network and no account: `wandb sync <folder>/wandb/offline-run-*` uploads
    it later. `WANDB_PROJECT` names the project, `murmuration` by default. A resumed run keeps its identifier.

    Args:
        folder: of the run.
        note: receives the line that says how to upload.
    """

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        self._folder, self._note = folder, note
        self._settings: dict[str, Any] = {}
        self._run: Any = None

    def _opened(self) -> Any:
        if self._run is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            place = self._folder / IDENTIFIER
            identifier = place.read_text(encoding="utf-8").strip() if place.exists() else secrets.token_hex(4)
            write_whole(place, f"{identifier}\n")
            mode = os.environ.get("WANDB_MODE", "offline")
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "murmuration"),
                dir=str(self._folder),
                mode=mode,
                name=self._folder.name,
                id=identifier,
                resume="allow" if mode == "online" else None,  # an offline run is joined with the earlier one in sync
                config=self._settings,
                settings=wandb.Settings(silent=True, console="off"),
            )
            self._run.define_metric("*", step_metric=STEP)
            if mode == "offline":
                self._note(f"wandb sync {self._run.dir.removesuffix('/files')} uploads the curves")
        return self._run

    def continue_after(self, step: int, progress: Mapping[str, float]) -> None:
        """Nothing: points after this step are written again, and the later ones count."""

    def write(self, scalars: Mapping[str, float], step: int, line: str = POLICY) -> None:
        """Add points to the curves of one line."""
        finite = {tag: value for tag, value in scalars.items() if is_finite(value)}
        named = finite if line == POLICY else {f"{line}/{tag}": value for tag, value in finite.items()}
        if named:
            self._opened().log({STEP: step, **named})

    def draw_level(self, scalars: Mapping[str, float], last: int, line: str) -> None:
        """Draw the figures of a baseline from step 0 to the last step."""
        for step in (0, last):
            self.write(scalars, step, line)

    def describe(self, texts: Mapping[str, str], settings: Mapping[str, Any], metric: str = HEADLINE) -> None:
        """Keep the settings, with dots in their names; the texts stand in the run's folder."""
        self._settings = {**flatten(settings), "metric": metric}
        if self._run is not None:
            self._run.config.update(self._settings, allow_val_change=True)

    def show(self, pictures: Mapping[str, Figure | npt.NDArray[np.uint8]], step: int) -> None:
        """Show pictures."""
        images = {f"pictures/{name}": wandb.Image(as_pixels(picture)) for name, picture in pictures.items()}
        self._opened().log({STEP: step, **images})

    def flush(self) -> None:
        """Nothing: the service's own process writes."""

    def close(self) -> None:
        """End the run."""
        if self._run is not None:
            self._run.finish()
            self._run = None
