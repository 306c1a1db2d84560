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
from launch.curves import compare_runs, read_curves
from launch.errors import ChoiceError


def gains_of(*gains: float) -> dict[str, dict[str, dict[str, float]]]:
    """Validations every five iterations, of one task."""
    return {str(5 * i): {"full-64": Gain(gain, 0.002, 0, 0, gain, 0, 0)._asdict()} for i, gain in enumerate(gains)}


def gain_of(value: object) -> dict[str, object]:
    """The figures of a validation, all of them one value."""
    return dict.fromkeys(Gain._fields, value)


def written(folder: Path, name: str, state: TrainingState) -> None:
    folder.mkdir(parents=True)
    (folder / name).write_text(json.dumps(asdict(state)))


def test_runs_are_read_with_all_their_seeds(tmp_path: Path) -> None:
    for seed, gain in ((0, 0.01), (1, 0.03)):
        bids = TrainingState(seed, 10, validation=gains_of(0.0, gain, 2 * gain), num_episodes=4, cpu_time=[6.0] * 10)
        written(tmp_path / "bids" / f"seed_{seed}", "state.json", bids)
    assert list(read_curves(tmp_path / "bids")) == ["seed 0", "seed 1"]
    compare_runs(OmegaConf.create({"runs": {"evolution": str(tmp_path / "bids")}}), tmp_path)
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    found = pd.read_csv(tmp_path / "curves.csv")
    last = found[found.method == "evolution"].sort_values("iteration").groupby("curve").last()
    assert last["gain"].tolist() == pytest.approx([2.0, 6.0])
    assert last["error"].tolist() == pytest.approx([0.2, 0.2])
    assert last["episodes"].tolist() == [40, 40]
    assert last["CPU-minutes"].tolist() == pytest.approx([1.0, 1.0])


def test_a_run_without_a_market_has_no_curve_to_compare(tmp_path: Path) -> None:
    written(tmp_path / "run", "state.json", TrainingState(0, validation={"0": {"full-64": {"mean_jct": 3.0}}}))
    with pytest.raises(ChoiceError, match=r"runs\.ppo: .*run has no learning curves; give the folder"):
        compare_runs(OmegaConf.create({"runs": {"ppo": str(tmp_path / "run")}}), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"validation": 5},
        {"validation": {"a": {"t": gain_of(0.0)}}},
        {"validation": {"1": {"t": {"merit": 0.0}}}},
        {"validation": {"1": {"t": gain_of("x")}}},
        {"validation": {"1": {"t": gain_of(0.0)}, "2": {}}},
        {"validation": {"1": {"t": gain_of(float("nan"))}}},
        {"num_episodes": "x" * 1000},
        {"cpu_time": "x"},
        {"cpu_time": [None]},
        {"other": 1},
    ],
)
def test_figures_that_are_no_curve_are_one_line(tmp_path: Path, changes: dict[str, object]) -> None:
    (tmp_path / "run").mkdir()
    state = {**asdict(TrainingState(0, 10, validation=gains_of(0.0, 0.1), num_episodes=4, cpu_time=[6.0] * 10))}
    (tmp_path / "run" / "state.json").write_text(json.dumps({**state, **changes}))
    with pytest.raises(MurmurationError, match=r"state\.json") as error:
        compare_runs(OmegaConf.create({"runs": {"a": str(tmp_path / "run")}}), tmp_path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    (tmp_path / "run" / "state.json").write_text("[" * 100_000)
    with pytest.raises(MurmurationError, match="is not a training state"):
        compare_runs(OmegaConf.create({"runs": {"a": str(tmp_path / "run")}}), tmp_path)


@pytest.mark.parametrize("runs", ["runs/a", [], {}, "???"])
def test_runs_without_names_are_refused(runs: object, tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match="runs is .*; give folders by name"):
        compare_runs(OmegaConf.create({"runs": runs}), tmp_path)
