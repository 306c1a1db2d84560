"""Curves in MLflow. Runs are kept in a folder of files, unless MLFLOW_TRACKING_URI names a server."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from agents.loggers.protocol import flatten, is_finite
from agents.tags import HEADLINE, POLICY
from envs.evaluation.files import write_whole

IDENTIFIER, EXPERIMENT, FILES = "mlflow_id", "murmuration", "mlruns"
LONGEST, AT_ONCE = 6000, 100  # characters of a parameter; points and parameters of one request


class MlflowRun:
    """One run of MLflow: curves over iterations, baselines as curves `<baseline>/<tag>`, settings, pictures, texts.

    Without `MLFLOW_TRACKING_URI` it needs no server: `mlflow ui --backend-store-uri <folder>/mlruns` shows it.
    `MLFLOW_EXPERIMENT_NAME` names the experiment, `murmuration` by default. A resumed run goes on in the same run.

    Args:
        folder: of the run.
        note: receives the line that says where the curves are.
    """

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        self._folder, self._note = folder, note
        self._client: MlflowClient | None = None
        self._run = ""

    def _opened(self) -> MlflowClient:
        if self._client is None:
            address = os.environ.get("MLFLOW_TRACKING_URI", "")
            if not address:
                os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # newer releases ask for this word
                address = (self._folder.resolve() / FILES).as_uri()
                self._note(f"mlflow ui --backend-store-uri {self._folder / FILES} shows the curves")
            self._client = MlflowClient(address)
            self._run = self._find_run(self._client)
        return self._client

    def _find_run(self, client: MlflowClient) -> str:
        """Return the identifier of this folder's run; begin one if there is none."""
        place = self._folder / IDENTIFIER
        if place.exists():
            return place.read_text(encoding="utf-8").strip()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = client.get_experiment_by_name(name)
        number = known.experiment_id if known else client.create_experiment(name)
        run = str(client.create_run(number, run_name=self._folder.name).info.run_id)
        write_whole(place, f"{run}\n")
        return run

    def continue_after(self, step: int, progress: Mapping[str, float]) -> None:
        """Nothing: points after this step are written again."""

    def write(self, scalars: Mapping[str, float], step: int, line: str = POLICY) -> None:
        """Add points to the curves of one line."""
        prefix = "" if line == POLICY else f"{line}/"
        points = [Metric(f"{prefix}{tag}", float(value), 0, step) for tag, value in scalars.items() if is_finite(value)]
        for first in range(0, len(points), AT_ONCE):
            self._opened().log_batch(self._run, metrics=points[first : first + AT_ONCE])

    def draw_level(self, scalars: Mapping[str, float], last: int, line: str) -> None:
        """Draw the figures of a baseline from step 0 to the last step."""
        for step in (0, last):
            self.write(scalars, step, line)

    def describe(self, texts: Mapping[str, str], settings: Mapping[str, Any], metric: str = HEADLINE) -> None:
        """Keep settings as parameters, and texts as files."""
        client = self._opened()
        params = [Param(name, str(value)[:LONGEST]) for name, value in flatten(settings).items()]
        for first in range(0, len(params), AT_ONCE):
            client.log_batch(self._run, params=params[first : first + AT_ONCE])
        client.set_tag(self._run, "metric", metric)
        for title, text in texts.items():
            client.log_text(self._run, text, f"{title}.md")

    def show(self, pictures: Mapping[str, Figure | npt.NDArray[np.uint8]], step: int) -> None:
        """Keep pictures as files."""
        client = self._opened()
        for name, picture in pictures.items():
            place = f"pictures/{name}_{step}.png"
            if isinstance(picture, Figure):
                client.log_figure(self._run, picture, place)
            else:
                client.log_image(self._run, picture, place)

    def flush(self) -> None:
        """Nothing: every request is written at once."""

    def close(self) -> None:
        """End the run."""
        if self._client is not None:
            self._client.set_terminated(self._run)
            self._client = None
