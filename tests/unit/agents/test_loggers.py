"""Loggers: the same points reach all of them, a resume leaves none behind, and what is missing is said in one line."""

import csv
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from agents.loggers import CurveLogger, Loggers, open_loggers
from agents.loggers.table import CurveTable
from agents.tags import HEADLINE, POLICY
from agents.training import Trainer, TrainingSettings
from envs.types import MurmurationError
from tests.unit.agents.worlds import QUICK_PPO, small_world


class Remembering:
    """A logger of a user's own."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str, int]] = []
        self.calls: list[str] = []

    def continue_after(self, step: int, progress: Any) -> None:
        self.calls.append(f"continue after {step}")

    def write(self, scalars: Any, step: int, line: str = POLICY) -> None:
        self.points += [(line, tag, step) for tag in scalars]

    def draw_level(self, scalars: Any, last: int, line: str) -> None:
        self.points += [(line, tag, step) for tag in scalars for step in (0, last)]

    def describe(self, texts: Any, settings: Any, metric: str = HEADLINE) -> None:
        self.calls.append("describe")

    def show(self, pictures: Any, step: int) -> None:
        self.calls.append("show")

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")


class Silent:
    """A listener that only keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def phase(self, name: str, total: int) -> None: ...

    def step(self, done: int, figures: Any) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


def rows_of(path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_points(folder) -> set[tuple[str, str, int]]:
    return {(row["line"], row["tag"], int(row["step"])) for row in rows_of(folder / "curves.csv")}


def test_a_training_run_tells_all_loggers_the_same(tmp_path):
    own, table = Remembering(), CurveTable(tmp_path, print)
    settings = TrainingSettings(QUICK_PPO, iterations=2, validate_every=1, num_validation=2)
    problem = small_world(num_jobs=4).problem()
    Trainer(problem, settings, {}, tmp_path, 0, Silent(), loggers=Loggers([own, table])).run()
    assert set(own.points) >= read_points(tmp_path)
    steps = {step for line, tag, step in read_points(tmp_path) if (line, tag) == (POLICY, HEADLINE)}
    assert steps == {0, 1, 2}
    assert own.calls[-1] == "close"


def test_a_resumed_table_forgets_points_of_the_policy_after_its_state(tmp_path):
    first = CurveTable(tmp_path, print)
    for step in range(5):
        first.write({"a": float(step), "b": float("nan")}, step)
    first.draw_level({"a": 9.5}, 10, "fifo")
    first.close()
    again = CurveTable(tmp_path, print)
    again.continue_after(2, {})
    again.write({"a": 30.0}, 3)
    again.close()
    assert [(row["line"], row["step"], float(row["value"])) for row in rows_of(tmp_path / "curves.csv")] == [
        (POLICY, "0", 0.0), (POLICY, "1", 1.0), (POLICY, "2", 2.0),
        ("fifo", "0", 9.5), ("fifo", "10", 9.5), (POLICY, "3", 30.0),
    ]  # fmt: skip


def test_a_table_that_cannot_be_written_is_said_once(tmp_path):
    notes: list[str] = []
    table = CurveTable(tmp_path / "missing", notes.append)
    table.write({"a": 1.0}, 0)
    table.flush()
    table.close()
    assert len(notes) == 1
    assert "no curves from here on" in notes[0]


def test_unknown_and_missing_loggers_are_refused_in_one_line(tmp_path, monkeypatch):
    with pytest.raises(MurmurationError, match="loggers: there is no 'tensorbord'; there are: tensorboard, csv"):
        open_loggers(["tensorbord"], tmp_path, print)
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    monkeypatch.delitem(__import__("sys").modules, "agents.loggers.wandb_run", raising=False)
    with pytest.raises(MurmurationError, match=r"wandb needs a package that is not installed .*murmuration\[wandb\]"):
        open_loggers(["wandb"], tmp_path, print)


def use(logger: CurveLogger) -> None:
    figure = Figure()
    figure.subplots().plot([0, 1])
    logger.describe({"configuration": "a: 1"}, {"trainer": {"lr": 0.1, "name": None}})
    logger.draw_level({"validation/jct": 5.0}, 4, "srtf")
    for step in range(3):
        logger.write({"validation/jct": 9.0 - step, "broken": float("inf")}, step)
    logger.show({"curve": figure, "cluster": np.zeros((4, 6, 3), np.uint8)}, 2)
    logger.flush()
    logger.close()


def test_wandb_keeps_an_offline_run_that_a_resume_goes_on_with(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    notes: list[str] = []
    use(open_loggers(["wandb"], tmp_path, notes.append))
    identifier = (tmp_path / "wandb_id").read_text()
    assert list(tmp_path.glob(f"wandb/offline-run-*-{identifier.strip()}/*.wandb"))
    assert any("wandb sync" in note for note in notes)
    again = open_loggers(["wandb"], tmp_path, notes.append)
    again.continue_after(1, {})
    again.write({"validation/jct": 1.0}, 2)
    again.close()
    assert (tmp_path / "wandb_id").read_text() == identifier


def test_mlflow_keeps_curves_settings_and_pictures_in_files(tmp_path, monkeypatch):
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    use(open_loggers(["mlflow"], tmp_path, print))
    client = tracking.MlflowClient((tmp_path / "mlruns").as_uri())
    run = (tmp_path / "mlflow_id").read_text().strip()
    assert [(point.step, point.value) for point in client.get_metric_history(run, "validation/jct")] == [
        (0, 9.0), (1, 8.0), (2, 7.0),
    ]  # fmt: skip
    assert {point.step for point in client.get_metric_history(run, "srtf/validation/jct")} == {0, 4}
    assert client.get_run(run).data.params == {"trainer.lr": "0.1"}
    assert len(client.list_artifacts(run, "pictures")) == 2
