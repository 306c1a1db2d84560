"""How runs ended: the objective of each, which sweepers minimise, and a file for each run of a multirun.

The files are there because launchers may play the runs in processes of other machines.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from envs.evaluation.files import write_whole

OUTCOMES = ".outcomes"  # subfolder of a multirun's folder


class FinishedRun(NamedTuple):
    """One run: its number in a multirun, the options that were typed for it, its folder, and how it ended."""

    number: int
    options: Sequence[str]
    folder: Path
    failure: str = ""  # what failed, or why it was refused
    refused: bool = False  # for a user's mistake


class MultirunFolder(Callback):
    """Hydra's callback that tells every run of a multirun, in whichever process, the folder of the whole multirun."""

    current: ClassVar[Path | None] = None  # None outside of a multirun
    _first_process: ClassVar[int | None] = None

    @classmethod
    def start(cls) -> None:
        """Begin a command in this process, which prints errors and the table at the end."""
        cls.current, cls._first_process = None, os.getpid()

    @classmethod
    def in_first_process(cls) -> bool:
        """Whether this process is the one that was started by the user."""
        return cls._first_process == os.getpid()

    def __init__(self) -> None:
        self.folder: Path | None = None  # launchers send it to other processes with the callback

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Note the folder, and remove what an earlier multirun left in it."""
        self.folder = MultirunFolder.current = Path(config.hydra.sweep.dir).absolute()
        shutil.rmtree(self.folder / OUTCOMES, ignore_errors=True)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Note the folder in the process of a run, and in the folder that the run has begun."""
        MultirunFolder.current = self.folder
        if self.folder:
            write_start(config.hydra.job.num, Path(config.hydra.runtime.output_dir), self.folder)


def write_start(number: int, folder: Path, multirun: Path) -> None:
    """Write that a run of a multirun has begun, and its folder."""
    (multirun / OUTCOMES).mkdir(parents=True, exist_ok=True)
    write_whole(multirun / OUTCOMES / f"{number}.started", str(folder.absolute()))


def lost_runs(multirun: Path) -> list[Path]:
    """Return the folders of runs that have begun and left no outcome, in order: their processes were ended."""
    files = sorted((multirun / OUTCOMES).glob("*.started"), key=lambda file: int(file.stem))
    return [Path(file.read_text(encoding="utf-8")) for file in files if not file.with_suffix(".json").exists()]


def write_outcome(run: FinishedRun, multirun: Path) -> None:
    """Write how a run of a multirun ended."""
    content: dict[str, object] = {
        "options": list(run.options),
        "folder": str(run.folder.absolute()),
        "failure": run.failure,
    }
    content["refused"] = run.refused
    (multirun / OUTCOMES).mkdir(parents=True, exist_ok=True)
    write_whole(multirun / OUTCOMES / f"{run.number}.json", json.dumps(content, indent=2) + "\n")


def read_outcomes(multirun: Path) -> list[FinishedRun]:
    """Return the finished runs of a multirun in order; a run that did not end is left out."""
    files = sorted((multirun / OUTCOMES).glob("*.json"), key=lambda file: int(file.stem))
    contents = [(int(file.stem), json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return [FinishedRun(number, **{**each, "folder": Path(each["folder"])}) for number, each in contents]


def objective_of(folder: Path) -> float | None:
    """Return what a sweeper minimises: the mean JCT in seconds of the run's first scheduler or of its best validation.

    The first scheduler is the policy where there is one. For policies that bid it is minus the best merit. None for
    runs without such a figure.
    """
    if rows := rows_with_figures(folder):
        figure = rows[0].get("mean_jct")
        return None if figure is None else float(figure)
    objective = _read_json(folder / "state.json").get("objective")
    if objective is not None:
        return float(objective)
    return None


def iterations_of(folder: Path) -> int:
    """Return the iterations of a training run so far; with several seeds, those of the seed that is least far."""
    places = [each for each in folder.glob("seed_*") if each.is_dir()] or [folder]
    found = [_read_json(place / "state.json").get("iteration") for place in places]
    return min(each if isinstance(each, int) else 0 for each in found)


def rows_with_figures(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of results.json that have figures; none without the file."""
    rows = _read_json(folder / "results.json").get("schedulers", [])
    return [row for row in rows if "mean_jct" in row]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
