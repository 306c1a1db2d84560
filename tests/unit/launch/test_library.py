"""The library: the same figures as the commands, errors of one line, and no state of Hydra left behind."""

import json
from pathlib import Path

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra

from baselines import Fifo
from envs.types import MurmurationError
from launch.choices import CHECKPOINTS, find_shipped
from launch.library import TrainedPolicy, compare, divide_schedulers, load, make_task, train
from launch.provenance import PROVENANCE, SAVED

WORDS = ("cluster=small_16", "workload.num_jobs=12", "workload.num_evaluation=1", "workload.max_gpus=8")


@pytest.fixture(scope="module")
def task():
    return make_task("none", *WORDS)


def test_a_task_is_that_of_the_command_line(task):
    assert task.options == ["task=none", *WORDS]
    assert task.setup.cluster.num_gpus == 16
    assert [len(workload) for workload in task.workloads()] == [12]
    assert task.problem.workload.values["num_jobs"] == 12


def test_schedulers_by_name_and_objects_are_compared_on_the_same_jobs(task, tmp_path, capsys):
    found = compare(["fifo", Fifo()], task, folder=tmp_path / "report")
    assert found.schedulers == ["Fifo", "fifo"]
    assert found.ratio("mean_jct", "Fifo").value == 1.0
    assert "mean JCT" in capsys.readouterr().out
    assert repr(found).splitlines()[0] == "mean JCT, ratio to fifo:"
    assert len(repr(found).splitlines()) == 3
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert [row["scheduler"] for row in results["schedulers"]] == ["Fifo", "fifo"]


def test_a_quiet_comparison_prints_nothing(task, capsys):
    assert compare({"a": Fifo(), "b": Fifo()}, task, reference="b", quiet=True).reference == "b"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: make_task("full64"), "task=full64: no such task, did you mean full-64?"),
        (lambda: make_task("none", "workload.lod=1"), "takes no lod, did you mean load?"),
        (lambda: make_task("none", "workload load"), "is no override; write key=value"),
        (lambda: compare(["fifoo"], "none"), "scheduler=fifoo: no such scheduler, did you mean fifo?"),
        (lambda: compare([Fifo(), Fifo()], "none"), "two are called Fifo; give a mapping"),
        (
            lambda: compare([3], "none"),  # type: ignore[list-item]
            "int is no scheduler; give a name, or an object with reset and schedule",
        ),
        (lambda: train("none", "group_po"), "method=group_po: no such method, did you mean group_ppo?"),
        (lambda: train("none", minutes=0), "trainer.minutes is 0.0; it must be above 0"),
        (lambda: load("nowhere").scheduler(), "nowhere contains no policy.json"),
    ],
)
def test_a_mistake_is_one_line(call, said, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MurmurationError, match=said.replace("?", r"\?")) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_program_that_uses_hydra_itself_finds_its_state_unchanged(tmp_path):
    (tmp_path / "own.yaml").write_text("seed: 3\n")
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(tmp_path)):
        before = GlobalHydra.instance().hydra
        make_task("none", *WORDS)
        assert GlobalHydra.instance().hydra is before
        assert hydra.compose("own").seed == 3
    make_task("none", *WORDS)
    assert not GlobalHydra.instance().is_initialized()


def test_names_of_shipped_checkpoints_are_found_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bids-64", "checkpoints/bids-64"):
        assert find_shipped(name) == CHECKPOINTS / "bids-64"
    for other in ("", "bids-65", "elsewhere/bids-64", "../bids-64", "checkpoints"):
        assert str(find_shipped(other)) == str(Path(other))
    (tmp_path / "bids-64").mkdir()  # a folder of the user comes first
    assert str(find_shipped("bids-64")) == "bids-64"


def test_schedulers_are_divided_into_names_and_objects():
    own = Fifo()
    assert divide_schedulers("fast") == (["fast"], {})
    assert divide_schedulers(own) == ([], {"Fifo": own})
    assert divide_schedulers(["srtf", own]) == (["srtf"], {"Fifo": own})


def test_training_leaves_a_folder_like_that_of_the_command(tmp_path, task):
    pytest.importorskip("ray")
    few = ("trainer.iterations=500", "trainer.num_validation=1", "trainer.method.num_workloads=1")
    trained = train(task, "group_ppo", *few, minutes=1e-6, folder=tmp_path / "run")
    assert trained == TrainedPolicy(tmp_path / "run")
    provenance = json.loads((tmp_path / "run" / PROVENANCE).read_text())
    assert provenance["command"].startswith("murmuration train task=none trainer=group_ppo cluster=small_16")
    assert "trainer.minutes" in " ".join(provenance["options"])
    assert "num_jobs: 12" in (tmp_path / "run" / SAVED).read_text()
    state = json.loads((tmp_path / "run" / "state.json").read_text())
    assert state["iteration"] == 1, "the clock ends training after the iteration that passes it"
    assert set(state["validation"]) == {"0", "1"}
    assert compare([trained.scheduler(), "fifo"], task, quiet=True).schedulers == ["OptionScheduler", "fifo"]
    with pytest.raises(MurmurationError, match="holds files; choose another folder"):
        train(task, folder=tmp_path / "run")
