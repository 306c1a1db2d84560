"""What a multirun ends with, and what a run returns to a sweeper."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from launch.errors import ChoiceError
from launch.multirun import summarise_multirun
from launch.objective import FinishedRun, objective_of, rows_with_figures
from launch.policies import load_policies, seed_folders
from launch.training import train_seeds


def run_with(folder, **schedulers):
    """A folder with results: mean JCT and ratio by scheduler."""
    folder.mkdir()
    rows = [{"scheduler": name, "mean_jct": jct, "mean_jct_ratio": ratio} for name, (jct, ratio) in schedulers.items()]
    rows.append({"scheduler": "sia", "inapplicable": "too slow"})
    (folder / "results.json").write_text(json.dumps({"schedulers": rows}))
    return folder


def test_the_table_is_over_all_runs(tmp_path, capsys):
    runs = [
        FinishedRun(["task=a", f"seed={seed}"], run_with(tmp_path / str(seed), policy=(jct, jct / 100), fifo=(100, 1)))
        for seed, jct in enumerate((80.0, 50.0, 90.0, 60.0))
    ]
    table = summarise_multirun(runs, tmp_path)
    assert table["options"].unique().tolist() == ["seed=0", "seed=1", "seed=2", "seed=3"]
    assert table["scheduler"].tolist() == ["policy", "fifo"] * 4
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines()]
    assert ["1", "seed=1", "50.0"] in lines
    assert ["policy", "4", "0.700", "0.500", "0.900"] in lines  # IQM of 0.5, 0.6, 0.8, 0.9
    assert lines.index(["policy", "4", "0.700", "0.500", "0.900"]) < lines.index(["fifo", "4", "1.00", "1.00", "1.00"])
    assert (tmp_path / "multirun.csv").read_text().count("\n") == 9


def test_the_objective_is_the_first_schedulers_mean_jct(tmp_path):
    folder = run_with(tmp_path / "a", policy=(80.0, 0.8), fifo=(100.0, 1.0))
    assert objective_of(folder) == 80.0
    assert [row["scheduler"] for row in rows_with_figures(folder)] == ["policy", "fifo"]
    assert objective_of(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "state", "objective"),
    [
        ("state.json", {"best_iteration": 5, "validation": {"0": {"mean_jct": 9.0}, "5": {"mean_jct": 7.0}}}, 7.0),
        ("state.json", {"best_iteration": -1, "validation": {}}, None),
        ("evolution.json", {"best_iteration": 0, "validation": {"0": {"a": [0, 0, 0, 0, 3.0, 0, 0]}}}, -3.0),
    ],
)
def test_the_objective_of_training_is_its_best_validation(tmp_path, name, state, objective):
    (tmp_path / name).write_text(json.dumps(state))
    assert objective_of(tmp_path) == objective


def test_every_seed_is_trained_in_its_own_folder(tmp_path, monkeypatch):
    calls: list[Any] = []

    def train(cfg, folder, listener):
        calls.append((cfg.seed, folder))
        return True

    listener = SimpleNamespace(note=calls.append)
    monkeypatch.setattr("launch.training.train_seed", train)
    assert train_seeds(OmegaConf.create({"seed": 3, "seeds": 2}), tmp_path, listener)
    assert calls[1::2] == [(3, tmp_path / "seed_3"), (4, tmp_path / "seed_4")]
    assert calls[0] == "training seed 3, the last one is 4"
    calls.clear()
    assert train_seeds(OmegaConf.create({"seed": 3, "seeds": 1}), tmp_path, listener)
    assert calls == [(3, tmp_path)]
    with pytest.raises(ChoiceError, match="seeds is 0; it must be a whole number of at least 1"):
        train_seeds(OmegaConf.create({"seed": 3, "seeds": 0}), tmp_path, listener)


def test_folders_of_training_seeds_are_in_numerical_order(tmp_path):
    for name in ("seed_10", "seed_2", "seed_x"):
        (tmp_path / name).mkdir()
    assert [folder.name for folder in seed_folders(tmp_path)] == ["seed_2", "seed_10"]


def test_more_seeds_than_were_trained_are_refused(tmp_path):
    (tmp_path / "seed_0").mkdir()
    with pytest.raises(ChoiceError, match="seeds=3: .* has 1 training seeds; train them with seeds=3"):
        load_policies(tmp_path, seeds=3)
