"""Learning curves of several runs in one table and one figure."""

import json
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

from agents.problems.gain import Gain
from agents.training import TrainingState
from envs.types import MurmurationError
from murmuration.config.describe import describe_curves
from murmuration.config.errors import ChoiceError
from murmuration.runs.curves import compare_runs, read_curves

OPTIONS = {"zero": "random", "one": "starling", "passed": "srtf"}
BASELINES = {"random": {"mean_jct": 110.0}, "srtf": {"mean_jct": 60.0}, "starling": {"mean_jct": 10.0}}


def validations(*jct: object) -> dict[str, dict[str, dict[str, object]]]:
    """Validations every five iterations, of one task."""
    return {str(5 * i): {"full-64": {"compared_cost": each}} for i, each in enumerate(jct)}


def state_of(seed: int, *jct: object) -> TrainingState:
    return TrainingState(seed, 10, validation=validations(*jct), baselines=BASELINES, cpu_time=[6.0] * 10)  # type: ignore[arg-type]


def gains_of(*gains: float) -> dict[str, dict[str, dict[str, float]]]:
    """Validations every five iterations, of one task, of a policy that bids."""
    return {str(5 * i): {"full-64": Gain(gain, 0.002, 0, 0, gain, 0, 0)._asdict()} for i, gain in enumerate(gains)}


def written(folder: Path, name: str, state: TrainingState) -> None:
    folder.mkdir(parents=True)
    (folder / name).write_text(json.dumps(asdict(state)))


def compare(runs: object, folder: Path, **options: str) -> None:
    compare_runs(describe_curves(OmegaConf.create({"runs": runs, **OPTIONS, **options})), folder)


def test_methods_are_compared_over_all_their_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, last in ((0, 30.0), (1, 50.0)):
        written(tmp_path / "run" / f"seed_{seed}", "state.json", state_of(seed, 110.0, 70.0, last))
    compare({"scorer": str(tmp_path / "run")}, tmp_path)
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    found = pd.read_csv(tmp_path / "curves.csv")
    assert found["progress"].tolist() == pytest.approx([0, 0.4, 0.8, 0, 0.4, 0.6])
    assert found["CPU-seconds"].tolist() == pytest.approx([0, 30, 60, 0, 30, 60])
    row = next(line for line in capsys.readouterr().out.splitlines() if "scorer" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == (
        ["full-64", "scorer", "2", "1.00", "0.70", "0.60", "0.80", "0.67", "60.00"]
    )


def test_a_run_of_bids_has_curves_of_its_own(tmp_path: Path) -> None:
    bids = TrainingState(0, 10, validation=gains_of(0.0, 0.01, 0.02), num_episodes=4, cpu_time=[6.0] * 10)
    written(tmp_path / "bids", "state.json", bids)
    assert list(read_curves(tmp_path / "bids")) == ["seed 0"]
    with pytest.raises(ChoiceError, match=r"runs\.bids: .* has no learning curve from nothing .*; give the folder"):
        compare({"bids": str(tmp_path / "bids")}, tmp_path)


def test_baselines_that_were_not_measured_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "run", "state.json", state_of(0, 110.0))
    with pytest.raises(ChoiceError, match="passed=sia: .* no such baseline; it has random, srtf, starling"):
        compare({"a": str(tmp_path / "run")}, tmp_path, passed="sia")


def test_seeds_with_other_validations_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "run" / "seed_0", "state.json", state_of(0, 110.0))
    written(tmp_path / "run" / "seed_1", "state.json", state_of(1, 110.0, 90.0))
    with pytest.raises(ChoiceError, match=r"runs\.a: seeds on full-64 were validated after different iterations"):
        compare({"a": str(tmp_path / "run")}, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"validation": 5},
        {"validation": {}},
        {"validation": {"a": {"t": {"compared_cost": 1.0}}}},
        {"validation": {"1": {"t": {"mean_jct": 1.0}}}},
        {"validation": validations("x")},
        {"validation": validations(float("nan"))},
        {"validation": {"1": {}}},
        {"baselines": {"random": 1.0}},
        {"cpu_time": "x"},
        {"cpu_time": [None]},
        {"other": 1},
    ],
)
def test_figures_that_are_no_curve_are_one_line(tmp_path: Path, changes: dict[str, object]) -> None:
    (tmp_path / "run").mkdir()
    state = asdict(state_of(0, 110.0, 90.0))
    (tmp_path / "run" / "state.json").write_text(json.dumps({**state, **changes}))
    with pytest.raises(MurmurationError, match=r"state\.json") as error:
        compare({"a": str(tmp_path / "run")}, tmp_path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    (tmp_path / "run" / "state.json").write_text("[" * 100_000)
    with pytest.raises(MurmurationError, match="is not a training state"):
        compare({"a": str(tmp_path / "run")}, tmp_path)


@pytest.mark.parametrize("runs", ["runs/a", [], {}, "???"])
def test_runs_without_names_are_refused(runs: object, tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match="runs is .*; give folders by name"):
        compare(runs, tmp_path)
