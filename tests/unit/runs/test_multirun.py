"""What a multirun ends with, and what a run returns to a sweeper."""

import importlib
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf

from murmuration.config.descriptions import TrainingRun
from murmuration.config.errors import ChoiceError, short_errors
from murmuration.config.outcomes import (
    OUTCOMES,
    FinishedRun,
    MultirunFolder,
    lost_runs,
    objective_of,
    read_outcomes,
    rows_with_figures,
    write_outcome,
)
from murmuration.runs.multirun import draw_multirun, numbers_of, over_seeds, summarise_multirun
from murmuration.runs.policies import load_policies, seed_folders
from murmuration.runs.seeds import train_seeds
from tests.unit.runs.test_scripts import SMALL, here, run

__all__ = ["here"]  # a fixture
ELSEWHERE = """
import os
import traceback
from pathlib import Path

from hydra._internal.core_plugins.basic_launcher import BasicLauncher

ERRORS = "errors of a child.txt"

class Elsewhere(BasicLauncher):
    def launch(self, job_overrides, initial_job_idx):
        for index, overrides in enumerate(job_overrides):
            child = os.fork()
            if not child:
                try:
                    super().launch([overrides], initial_job_idx + index)
                except BaseException:
                    Path(ERRORS).write_text(traceback.format_exc())
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
        return []
"""
BROKEN = """
import os
import signal

class Broken:
    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        raise RuntimeError("no idea")

class Killed(Broken):
    def schedule(self, view):
        os.kill(os.getpid(), signal.SIGKILL)
"""
ERRORS = "errors of a child.txt"


def run_with(folder, **schedulers):
    """A folder with results: mean JCT and ratio by scheduler."""
    folder.mkdir()
    rows = [{"scheduler": name, "mean_jct": jct, "mean_jct_ratio": ratio} for name, (jct, ratio) in schedulers.items()]
    rows.append({"scheduler": "sia", "inapplicable": "too slow"})
    (folder / "results.json").write_text(json.dumps({"schedulers": rows}))
    return folder


def test_the_table_is_over_all_runs(tmp_path, capsys):
    runs = [
        FinishedRun(
            seed,
            ["task=a", f"++seed={seed}"],
            run_with(tmp_path / str(seed), policy=(jct, jct / 100), fifo=(100, 1)),
        )
        for seed, jct in enumerate((80.0, 50.0, 90.0, 60.0))
    ]
    table = summarise_multirun(runs, tmp_path)
    assert table["seed"].unique().tolist() == ["0", "1", "2", "3"]
    assert table["scheduler"].tolist() == ["policy", "fifo"] * 4
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines()]
    policy = ["policy", "4", "70.0", "50.0", "90.0", "0.700"]  # IQM of 50, 60, 80, 90
    assert lines.index(policy) < lines.index(["fifo", "4", "100", "100", "100", "1.00"])
    assert (tmp_path / "multirun.csv").read_text().count("\n") == 9
    assert (tmp_path / "multirun.png").stat().st_size > 1000


def test_runs_that_differ_in_seed_alone_are_one_row_and_one_point(tmp_path, capsys):
    """Two loads with two seeds each, of which one training has no test rows."""
    runs: list[FinishedRun] = []
    jct = iter((10.0, 20.0, 30.0, 50.0))
    for load in (0.5, 1.5):
        for seed in (0, 1):
            folder = run_with(tmp_path / f"{load}-{seed}", policy=(next(jct), 0.5))
            runs.append(FinishedRun(len(runs), ["task=a", f"workload.load={load}", f"++seed={seed}"], folder))
    groups = over_seeds(summarise_multirun(runs, tmp_path))
    assert groups["settings"].tolist() == ["workload.load=0.5", "workload.load=1.5"]
    assert groups[["runs", "jct", "least", "greatest", "ratio"]].to_numpy().tolist() == [
        [2, 15.0, 10.0, 20.0, 0.5],
        [2, 40.0, 30.0, 50.0, 0.5],
    ]
    assert numbers_of(groups["settings"].tolist()) == ("workload.load", [0.5, 1.5])
    assert numbers_of(["a=1 b=2", "a=1 b=3"]) == numbers_of(["a=x", "a=y"]) == ("", [0.0, 1.0])
    bars: Any = draw_multirun(groups).axes[0].containers[0]
    line = bars.lines[0]
    assert np.array(line.get_xydata()).tolist() == [[0.5, 15.0], [1.5, 40.0]]


def test_training_without_test_rows_shows_its_best_validation(tmp_path, capsys):
    runs = []
    for number, objective in enumerate((7.0, 9.0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "state.json").write_text(json.dumps({"best_iteration": 0, "objective": objective}))
        runs.append(FinishedRun(number, [f"trainer.method.lr={number}"], folder))
    assert summarise_multirun(runs, tmp_path)["mean_jct"].tolist() == [7.0, 9.0]
    assert ["trainer.method.lr=1", "best", "validation", "1", "9.00", "9.00", "9.00", "-"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


def test_the_objective_is_the_first_schedulers_mean_jct(tmp_path):
    folder = run_with(tmp_path / "a", policy=(80.0, 0.8), fifo=(100.0, 1.0))
    assert objective_of(folder) == 80.0
    assert [row["scheduler"] for row in rows_with_figures(folder)] == ["policy", "fifo"]
    assert objective_of(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "state", "objective"),
    [
        ("state.json", {"best_iteration": 5, "objective": 7.0}, 7.0),
        ("state.json", {"best_iteration": -1, "objective": None}, None),
        ("state.json", {"best_iteration": 0, "objective": -3.0}, -3.0),
    ],
)
def test_the_objective_of_training_is_its_best_validation(tmp_path, name, state, objective):
    (tmp_path / name).write_text(json.dumps(state))
    assert objective_of(tmp_path) == objective


def test_every_seed_is_trained_in_its_own_folder(tmp_path, monkeypatch):
    calls: list[Any] = []
    given: list[Any] = []

    def train(run, folder, listener, measured=None):
        calls.append((run.problem.seed, folder))
        given.append(dict(measured or {}))
        return SimpleNamespace(best_iteration=0, baselines={f"of_{run.problem.seed}": {}})

    listener: Any = SimpleNamespace(note=calls.append)
    monkeypatch.setattr("murmuration.runs.seeds.train_seed", train)
    seeds: list[Any] = [SimpleNamespace(problem=SimpleNamespace(seed=seed)) for seed in (3, 4)]
    assert train_seeds(TrainingRun(seeds=seeds, processes=1), tmp_path, listener)
    assert calls[1::2] == [(3, tmp_path / "seed_3"), (4, tmp_path / "seed_4")]
    assert calls[0] == "training seed 3, the last one is 4"
    assert given == [{}, {"of_3": {}}], "baselines are measured by the first training seed"
    calls.clear()
    assert train_seeds(TrainingRun(seeds=seeds[:1]), tmp_path, listener)
    assert calls == [(3, tmp_path)]


def test_folders_of_training_seeds_are_in_numerical_order(tmp_path):
    for name in ("seed_10", "seed_2", "seed_x"):
        (tmp_path / name).mkdir()
    assert [folder.name for folder in seed_folders(tmp_path)] == ["seed_2", "seed_10"]


def test_more_seeds_than_were_trained_are_refused(tmp_path):
    (tmp_path / "seed_0").mkdir()
    with pytest.raises(ChoiceError, match="seeds=3: .* has 1 training seeds; train them with seeds=3"):
        load_policies(tmp_path, seeds=3)


def test_outcomes_are_in_the_order_of_the_runs(tmp_path):
    runs = {i: FinishedRun(i, [f"seed={i}"], tmp_path / str(i), "" if i else "fifo failed") for i in (10, 9, 0)}
    for finished in runs.values():
        write_outcome(finished, tmp_path)
    assert read_outcomes(tmp_path) == [runs[0], runs[9], runs[10]]
    about = {"sweep": {"dir": str(tmp_path)}, "job": {"num": 3}, "runtime": {"output_dir": str(tmp_path / "3")}}
    config = OmegaConf.create({"hydra": about})
    callback = MultirunFolder()
    callback.on_multirun_start(config)
    assert MultirunFolder.current == tmp_path
    assert not (tmp_path / OUTCOMES).exists()  # of the earlier multirun
    assert read_outcomes(tmp_path) == []
    MultirunFolder.start()
    assert MultirunFolder.current is None
    callback.on_job_start(config)  # in another process
    assert MultirunFolder.current == tmp_path
    assert lost_runs(tmp_path) == [tmp_path / "3"]
    write_outcome(FinishedRun(3, [], tmp_path / "3"), tmp_path)
    assert lost_runs(tmp_path) == []
    MultirunFolder().on_job_start(config)  # a single run
    assert MultirunFolder.current is None


def test_another_process_gets_a_mistake_without_its_causes():
    error = ChoiceError("resume=x: no such folder")
    error.__cause__ = OSError(2, "gone")
    with pytest.raises(ChoiceError, match="^resume=x: no such folder$") as raised, short_errors():
        raise error
    assert raised.value.__cause__ is None
    with pytest.raises(ZeroDivisionError), short_errors():
        raise ZeroDivisionError


@pytest.fixture
def elsewhere(here, tmp_path, monkeypatch):
    """`compare --multirun`; a launcher plays each run in a process of its own, as those for Slurm do."""
    (tmp_path / "hydra_plugins").mkdir()
    (tmp_path / "hydra_plugins" / "elsewhere.py").write_text(ELSEWHERE)
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("hydra_plugins.elsewhere", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    Plugins.instance().register(importlib.import_module("hydra_plugins.elsewhere").Elsewhere)
    launcher = "hydra.launcher._target_=hydra_plugins.elsewhere.Elsewhere"

    def main(*options):
        return here("-m", launcher, *SMALL, "scheduler=fifo", *options)

    return main


def test_runs_of_other_processes_are_in_the_table_and_in_the_exit_status(elsewhere, tmp_path):
    """A scheduler fails in each."""
    done = elsewhere("+own._target_=broken.Broken", "seed=4,5")
    assert not (tmp_path / ERRORS).exists(), (tmp_path / ERRORS).read_text()
    assert done.code == 1, done.err
    assert "2 runs" in done.out
    (folder,) = (tmp_path / "runs" / "compare").iterdir()
    rows = [line.split(",")[:4] for line in (folder / "multirun.csv").read_text().splitlines()[1:]]
    assert rows == [["0", "", "4", "fifo"], ["1", "", "5", "fifo"]]
    lines = [line for line in done.err.splitlines() if line.startswith(f"error: {os.path.relpath(folder, tmp_path)}/")]
    assert [line.partition(": 1 of 2 schedulers failed: own ")[0][-2:] for line in lines] == ["/0", "/1"]


def test_a_run_whose_process_is_killed_is_named_and_in_the_exit_status(elsewhere, tmp_path):
    done = elsewhere("+own._target_=broken.Killed", "seed=4,5")
    assert done.code == 1, done.err
    (folder,) = (tmp_path / "runs" / "compare").iterdir()
    name = os.path.relpath(folder, tmp_path)
    said = "its process was ended without a result; play this run again"
    assert done.err.splitlines() == [f"error: {name}/{number}: {said}" for number in (0, 1)]


@pytest.mark.exhaustive  # runs in other processes: `elsewhere`
def test_runs_of_submitit_are_in_the_table(tmp_path):
    needed = "hydra_plugins.hydra_submitit_launcher"
    pytest.importorskip(needed, reason="needs submitit: pip install -c constraints.txt -e '.[slurm]'")
    launcher = ["hydra/launcher=submitit_local", "hydra.launcher.timeout_min=10"]
    done = run(tmp_path, "compare", "-m", *launcher, *SMALL, "scheduler=[fifo,srtf]", "seed=0,1")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["2", "runs"] in lines
    assert [line[:2] for line in lines if line[:1] in (["fifo"], ["srtf"])] == [["srtf", "2"], ["fifo", "2"]]
    (folder,) = (tmp_path / "runs" / "compare").iterdir()
    assert len((folder / "multirun.csv").read_text().splitlines()) == 5
    wrong = run(tmp_path, "compare", "-m", *launcher, *SMALL, "scheduler=fifo", "scenario.restart_delay=-1,0")
    assert wrong.returncode == 2
    assert wrong.stderr.splitlines()[-1] == "error: scenario.restart_delay is -1 s; it must be finite and not negative"


def test_a_refused_run_is_a_row_and_the_others_are_summarised(here, tmp_path):
    done = here("-m", *SMALL, "scheduler=fifo", "workload.load=0.8,-1,0.9")
    assert done.code == 2
    assert done.err == "error: workload.load is -1; it must be above 0 and finite\n"
    lines = [line.split() for line in done.out.splitlines()]
    assert ["3", "runs"] in lines
    assert ["workload.load=-1", "refused"] in lines
    assert [line[:3] for line in lines if line[1:2] == ["fifo"]] == [
        ["workload.load=0.8", "fifo", "1"],
        ["workload.load=0.9", "fifo", "1"],
    ]
    (folder,) = (tmp_path / "runs" / "compare").iterdir()
    rows = [line.split(",") for line in (folder / "multirun.csv").read_text().splitlines()[1:]]
    assert [[row[0], row[1], row[3]] for row in rows] == [
        ["0", "workload.load=0.8", "fifo"],
        ["1", "workload.load=-1", ""],
        ["2", "workload.load=0.9", "fifo"],
    ]
    assert not (folder / "1").exists()


def test_where_all_runs_are_refused_each_is_a_row(here):
    done = here("-m", *SMALL, "scheduler=fifo", "workload.load=-1,-2")
    assert done.code == 2
    assert len(done.err.splitlines()) == 2
    assert done.out.count("refused") == 2
