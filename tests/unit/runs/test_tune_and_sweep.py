"""`tune.py` and `sweep.py` as a user runs them: what they print, which files they write, how they fail."""

import json
import sys

import pandas as pd
import pytest

import sweep
import tune

SMALL = ["task=none", "workload.num_jobs=6", "cluster=small_16"]
QUOTED = ",".join(f"'{option}'" for option in SMALL)
TUNE = [f"worlds=[[{QUOTED}],[{QUOTED},'workload.load=1.2']]", "workloads=1", "generations=1", "population=1"]


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """A script within this process: its exit code, its output, and its folder."""

    def main(script, *arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *arguments])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # so that monkeypatch undoes what the script sets
        code: object = 0
        try:
            script.main()
        except SystemExit as left:
            code = left.code
        wrote = capsys.readouterr()
        return code, wrote.out, wrote.err, tmp_path / wrote.out.strip().rpartition("run: ")[2]

    return main


def test_tuning_writes_its_result(run):
    code, out, err, folder = run(tune, "tuning=starling_unknown", *TUNE)
    assert code == 0, err
    kept = json.loads((folder / "tuned.json").read_text())
    assert kept["training"]["after"] <= kept["training"]["before"]
    assert kept["evaluations"] >= 8
    assert f"log ratio to las, validation: {kept['validation']['before']:+.4f} before" in out
    assert ("not worth taking over" in out) is not kept["worth_taking_over"]
    if kept["values"]:
        assert f"{kept['training']['after']:+.4f}  knee={kept['values']['knee']:.4g}" in out


def test_tuning_over_tasks_is_relative_to_the_present_values(run):
    code, out, err, folder = run(
        tune, "tuning=starling_tasks", "tasks=[calm-64]", "workloads=1", "validation_workloads=2", "generations=0"
    )
    assert code == 0, err
    found = json.loads((folder / "tuned.json").read_text())
    assert found["training"]["before"] == found["validation"]["before"] == 0.0
    assert found["training"]["after"] <= 0.0
    assert found["validation"]["change"] == found["validation"]["after"]
    assert "calm-64: " in out
    assert "over 2 validation workloads" in out
    assert ("not worth taking over" in out) is not found["worth_taking_over"]


def test_any_scheduler_can_be_tuned(run):
    """Any function that takes `changes`: here one of the user's own."""
    target = "tests.unit.runs.test_tune_and_sweep.patient"
    code, _, err, folder = run(
        tune,
        *TUNE,
        f"tuning.scheduler._target_={target}",
        "~tuning.scheduler.part",
        "tuning.reference=fifo",
        "~tuning.parameters",
        "+tuning.parameters.shortness={_target_:envs.evaluation.tuning.Parameter,low:0,high:2}",
    )
    assert code == 0, err
    assert set(json.loads((folder / "tuned.json").read_text())["values"]) <= {"shortness"}


def patient(changes):
    """Optimus with changes."""
    from baselines import Optimus

    return Optimus(**changes)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tuning=starlin"], "tuning=starlin: no such tuning, did you mean starling?"),
        (["tuning.parameters.knee.low=2"], "parameter: low is 2, high is 0.5; low must be less"),
        (["tuning.parameters.knee.lo=2"], "tuning.parameters.knee.lo: no such key, did you mean low?"),
        ([*TUNE, "tuning.reference=optimos"], "no such scheduler, did you mean optimus?"),
        (["worlds=[['workload.lod=1.2']]"], "takes no lod, did you mean load?"),
        (
            [*TUNE, "+tuning.parameters.kne={_target_:envs.evaluation.tuning.Parameter,low:0,high:2}"],
            "Starling: there is no 'kne' to tune",
        ),
    ],
)
def test_mistakes_in_tuning_are_one_line(run, arguments, said):
    code, _, err, _ = run(tune, *arguments)
    assert code == 2, err
    assert err.startswith("error: ")
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_sweep_writes_table_and_plot(run):
    code, out, err, folder = run(
        sweep, *SMALL, "workload.num_evaluation=2", "scheduler=[srtf,starling]", "loads=[1.0,0.5]"
    )
    assert code == 0, err
    assert (folder / "sweep.png").stat().st_size > 10_000
    table = pd.read_csv(folder / "sweep.csv")
    assert table["load"].tolist() == [0.5] * 4 + [1.0] * 4
    bounds = {"lower bound", "lower bound, any batch"}  # Starling chooses batch sizes
    assert set(table["scheduler"]) == {"srtf", "starling"} | bounds
    assert "by offered load" in out
    assert out.index("load 0.5 ...") < out.index("load 1 ...")


def test_a_sweep_takes_a_single_load(run):
    code, out, err, _ = run(sweep, *SMALL, "workload.num_evaluation=2", "scheduler=fifo", "loads=0.5")
    assert code == 0, err
    assert "load 0.5 ..." in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["loads=[0]"], "sweep: a load is 0; loads must be positive"),
        (["loads=[half]"], "loads is ['half']; it must be a number or a list of numbers"),
        (["loads=[]"], "sweep: loads are []; give at least one number, each once"),
        (["scheduler=startling"], "no such scheduler, did you mean starling?"),
    ],
)
def test_mistakes_in_sweeps_are_one_line(run, arguments, said):
    code, _, err, _ = run(sweep, *SMALL, "scheduler=fifo", *arguments)
    assert code == 2, err
    assert err.startswith("error: ")
    assert said in err
