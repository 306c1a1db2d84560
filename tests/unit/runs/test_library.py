"""The library: the same figures as the commands, errors of one line, and no state of Hydra left behind."""

import json
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
import pytest
from hydra.core.global_hydra import GlobalHydra

import murmuration
from baselines import Fifo
from envs.cluster import build_cluster
from envs.types import JobSpec, MurmurationError
from envs.workloads import Workload
from murmuration.config.choices import CHECKPOINTS, find_shipped
from murmuration.config.errors import ChoiceError
from murmuration.config.provenance import PROVENANCE, SAVED
from murmuration.library import TrainedPolicy, compare, divide_schedulers, load, make_task, train

WORDS = ("cluster=small_16", "workload.num_jobs=12", "workload.num_evaluation=1", "workload.max_gpus=8")


@pytest.fixture(scope="module")
def task():
    return make_task("none", *WORDS)


def test_a_task_is_that_of_the_command_line(task):
    assert task.options == ["task=none", *WORDS]
    assert task.setup.cluster.num_gpus == 16
    assert [len(workload) for workload in task.workloads()] == [12]
    assert task.problem.workload.values["num_jobs"] == 12
    assert repr(task).startswith("none cluster=small_16")
    assert repr(task).endswith(": 16 V100; 12 jobs a workload")
    assert "16 V100" in task._repr_html_()


def test_the_package_lists_its_names():
    assert {"compare", "load", "make_task", "train"} <= set(dir(murmuration))


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
        (lambda: load("bids-6"), "'bids-6': no such folder, did you mean bids-64?; the project ships: anywhere, "),
        (lambda: load("."), ". contains no policy.json"),
        (lambda: load("bids-64", "own.Network"), "trusted is 'own.Network'; it must be a list"),
        (lambda: compare({"a": "fifo"}, "none"), "a is 'fifo'; give an object with reset and schedule"),
        (lambda: compare({"": Fifo()}, "none"), "'' is no name"),
    ],
)
def test_a_mistake_is_one_line(call, said, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MurmurationError, match=said.replace("?", r"\?")) as caught:
        call()
    assert "\n" not in str(caught.value)


class Failing(Fifo):
    """Raises an error."""

    def schedule(self, view):
        raise ZeroDivisionError("no idea")


class Forgetful(Fifo):
    """Returns nothing."""

    def schedule(self, view):
        return None


@pytest.mark.parametrize(("own", "said"), [(Failing(), "ZeroDivisionError: no idea"), (Forgetful(), "NoneType")])
def test_a_scheduler_that_fails_is_a_warning_and_a_line_also_where_nothing_is_printed(task, own, said):
    with pytest.warns(RuntimeWarning, match=rf"{type(own).__name__} failed in episode 0 .*{said}") as caught:
        found = compare([own, "fifo"], task, quiet=True)
    assert caught[0].filename == __file__, "the line of the user"
    assert said in str(found)
    assert said in str(found.failures[type(own).__name__])


@pytest.fixture(scope="module")
def found(task):
    return compare(["fifo", "srtf"], task, quiet=True)


WRONG: tuple[Any, ...] = (None, "", "a" * 5000, 3, ["x", None], {}, object(), b"x", "a\0b", float("nan"))
# Each with the values that it takes or means something else by.
CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "task": (lambda task, found, given: make_task(given), (None,)),
    "option": (lambda task, found, given: make_task("none", given), ()),
    "schedulers": (lambda task, found, given: compare(given, task, quiet=True), ()),
    "names": (lambda task, found, given: compare({str(given): given}, task, quiet=True), ()),
    "compared task": (lambda task, found, given: compare(["fifo"], given, quiet=True), ()),
    "split": (lambda task, found, given: compare(["fifo"], task, split=given, quiet=True), (None,)),
    "reference": (lambda task, found, given: compare(["fifo"], task, reference=given, quiet=True), ("",)),
    "episodes": (lambda task, found, given: compare(["fifo"], task, episodes=given, quiet=True), (None, 3)),
    "folder": (lambda task, found, given: compare(["none"], task, folder=given), ()),
    "path": (lambda task, found, given: load(given), ()),
    "trusted": (lambda task, found, given: load("bids-64", given), ()),
    "training task": (lambda task, found, given: train(given, minutes=1), ()),
    "method": (lambda task, found, given: train(task, given, minutes=1), ()),
    "training option": (lambda task, found, given: train(task, "group_ppo", given, "no.such=1"), ()),
    "minutes": (lambda task, found, given: train(task, "group_ppo", "no.such=1", minutes=given), ()),
    "baselines": (lambda task, found, given: train(task, "group_ppo", "no.such=1", baselines=given), ()),
    "training folder": (lambda task, found, given: train(task, "group_ppo", "no.such=1", folder=given), ()),
    "workloads": (lambda task, found, given: task.workloads(given), (None,)),
    "metric": (lambda task, found, given: found.ratio(given, "fifo"), ()),
    "scheduler": (lambda task, found, given: found.ratio("mean_jct", given), ()),
    "to": (lambda task, found, given: found.ratio("mean_jct", "fifo", given), (None, "", {})),
    "estimate": (lambda task, found, given: found.estimate("mean_jct", given), ()),
    "decision_ms": (lambda task, found, given: found.decision_ms(given), ()),
    "bound_ratio": (lambda task, found, given: found.bound_ratio(given), ()),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_one_line(name, task, found, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    call, taken = CALLS[name]
    for given in (each for each in WRONG if each not in taken):
        with pytest.raises(MurmurationError) as caught:
            call(task, found, given)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1500


def test_a_name_of_a_comparison_is_corrected(found):
    with pytest.raises(
        MurmurationError, match=r"'jct' has no estimate, did you mean mean_jct\?; choose one of mean_jct, "
    ):
        found.ratio("jct", "fifo")
    with pytest.raises(
        MurmurationError, match=r"'srft' has no figures here, did you mean srtf\?; choose one of fifo, srtf"
    ):
        found.ratio("mean_jct", "srft")


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


JOBS = [
    {"id": "a", "submit_time": "2026-03-01 10:00", "duration": 3600, "num_gpus": 2, "user": "ann", "time_limit": 7200},
    {"id": "b", "submit_time": "2026-03-01 10:05", "duration": 600, "num_gpus": 4, "user": "bob", "time_limit": 900},
]


def test_clusters_and_jobs_of_a_program_make_a_task(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(JOBS)
    frame["submit_time"] = pd.to_datetime(frame["submit_time"])
    nodes = [{"gpu_type": "V100", "num_nodes": 2, "num_gpus": 2, "cpu_cores": 7}]
    task = make_task("none", "performance=ideal", "scenario=replay", cluster=nodes, workload=frame)
    assert [node.cpu_cores for node in task.setup.cluster.nodes] == [7.0, 7.0]
    (workload,) = task.workloads()
    assert workload.ids == ("a", "b")
    assert workload.recorded
    assert str(workload.recorded.zero) == "2026-03-01 00:00:00"
    comparison = compare("fifo", task, folder="out", frames="csv", quiet=True)
    jobs = pd.read_csv("out/jobs.csv")
    assert jobs["id"].tolist() == comparison.jobs("fifo")["id"].tolist() == ["a", "b"]
    assert jobs["start_time"].tolist() == [36000.0, 39600.0], "the second job needs all four GPUs"
    assert {"arrive", "start", "finish"} <= set(pd.read_csv("out/events.csv")["event"])


def test_a_cluster_and_a_workload_are_the_same_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    groups = [{"gpu_type": "V100", "num_nodes": 1, "num_gpus": 8}, {"gpu_type": "P100", "num_nodes": 2, "num_gpus": 4}]
    cluster = build_cluster("mixed", [groups[0], groups[1] | {"pools": ["a", "b"], "memory": 99.0}])
    before = make_task("shared-16").workloads()[0]
    task = make_task(cluster=cluster, workload=before)
    assert task.setup.cluster.nodes == cluster.nodes
    (after,) = task.workloads()
    for column in ("submit_time", "work", "num_gpus", "min_gpus", "max_gpus"):
        assert after.jobs[column].tolist() == pytest.approx(before.jobs[column].tolist()), column
    names = [[each.models[row] for row in each.jobs["model"]] for each in (before, after)]
    assert names[0] == names[1]
    (path,) = (tmp_path / "runs" / "jobs").iterdir()
    again = make_task(cluster={"name": "mixed", "groups": groups}, workload=path)
    assert again.setup.cluster.gpus_by_type == {"V100": 8, "P100": 8}
    assert len(again.workloads()[0]) == len(before)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cluster": 3}, "cluster is 3; give a name"),
        ({"cluster": [3]}, "cluster is"),
        ({"workload": 3}, "workload is 3; give a name"),
        ({"workload": [{"x": 1}], "cluster": "small_16"}, "has no column 'submit_time'"),
    ],
)
def test_what_is_no_cluster_and_no_jobs_is_refused(given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ChoiceError, match=said):
        make_task(**given).workloads()


def test_a_workload_with_more_than_rows_say_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ChoiceError, match="workload: its jobs have begin times; give rows"):
        make_task(cluster="small_16", workload=Workload.of([JobSpec(0, 0.0, 1, 10.0, "resnet50", begin_time=5.0)]))
