"""A run folder says where its figures come from, and `evaluate.py run=` repeats it and compares every figure."""

import importlib
import json
import re
import shutil
import sys
from importlib.metadata import version

import pytest
import yaml
from omegaconf import OmegaConf

from envs.evaluation.files import file_hash
from envs.performance import IdealModel
from envs.simulation import WORLD_VERSION
from envs.workloads import TraceSource
from envs.workloads.readers import SwfTrace
from murmuration.config.errors import ChoiceError
from murmuration.config.provenance import changed_since, describe_clone, requirement_name, trace_hashes
from murmuration.config.recall import read_resumes, recall_parts
from murmuration.runs.repeat import leaves, report_differences
from tests.golden.playground import two_nodes
from tests.unit.runs.test_scripts import SMALL
from tests.unit.scripts.test_training_scripts import TINY

FOLDER = re.compile(r"^run: (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start a script within this process, in one working directory: (exit code, output, errors, run folder)."""
    here = tmp_path_factory.mktemp("runs")

    def main(capsys, script, *words):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(here)
            patch.setattr(sys, "argv", [f"scripts/{script}.py", *words])
            patch.setenv("HYDRA_FULL_ERROR", "0")
            code = 0
            try:
                importlib.import_module(script).main()
            except SystemExit as left:
                code = int(left.code or 0)
        wrote = capsys.readouterr()
        found = FOLDER.findall(wrote.out)
        return code, wrote.out, wrote.err, here / found[-1] if found else here

    return main


@pytest.fixture
def compared(start, capsys, tmp_path):
    """A copy of the folder of a comparison."""
    if not hasattr(start, "folder"):
        code, _, err, start.folder = start(capsys, "compare", *SMALL, "scheduler=[fifo,srtf]", "seed=5")
        assert code == 0, err
    return shutil.copytree(start.folder, tmp_path / "run")


def test_a_run_folder_says_where_its_figures_come_from(compared):
    found = json.loads((compared / "provenance.json").read_text())
    assert found["script"] == "compare"
    assert "cluster=small_16" in found["options"]
    assert (found["seed"], found["world_version"]) == (5, WORLD_VERSION)
    assert found["packages"]["numpy"] == version("numpy")
    assert "pytest" not in found["packages"]
    assert len(found["configuration"]) == 12
    assert found["traces"] == {}
    assert found["git"] is None or len(found["git"]["revision"]) == 40


def test_a_comparison_is_repeated_to_the_bit(start, compared, capsys):
    code, out, err, folder = start(capsys, "evaluate", f"run={compared}")
    assert code == 0, err
    assert "the same to the bit: all" in out
    assert (folder / "results.json").exists()


def test_a_figure_that_differs_is_named_and_the_script_fails(start, compared, capsys):
    text = (compared / "results.json").read_text()
    (compared / "results.json").write_text(text.replace('"makespan": ', '"makespan": 1', 1))
    found = json.loads((compared / "provenance.json").read_text())
    found["packages"]["numpy"] = "0.1"
    (compared / "provenance.json").write_text(json.dumps(found))
    code, out, err, _ = start(capsys, "evaluate", f"run={compared}")
    assert code == 1
    assert re.search(r"error: 1 of \d+ figures differ from .*results.json schedulers\[0\].makespan was 1\d+", err)
    assert len(err.strip().splitlines()) == 1
    assert f"changed since: packages.numpy was 0.1 and is {version('numpy')} now" in out


def test_a_strangers_run_is_repeated_with_classes_of_the_registry_only(start, compared, capsys, tmp_path):
    path = compared / ".hydra" / "config.yaml"
    content = yaml.safe_load(path.read_text())
    content["schedulers"]["fifo"] = {"_target_": "os.mkdir", "path": str(tmp_path / "executed")}
    path.write_text(yaml.safe_dump(content))
    code, _, err, _ = start(capsys, "evaluate", f"run={compared}")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "os.mkdir" in err
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("damaged", "content"),
    [("provenance.json", b"[]"), (".hydra/config.yaml", b"\xff\xfe{"), ("results.json", b"[]"), ("results.json", None)],
)
def test_a_damaged_folder_is_one_line(start, compared, capsys, damaged, content, monkeypatch):
    """The comparison itself is left out: only what is read from the folder matters."""
    monkeypatch.setattr("murmuration.runs.repeat.compare_and_report", lambda *_: None)
    (compared / damaged).unlink() if content is None else (compared / damaged).write_bytes(content)
    code, _, err, _ = start(capsys, "evaluate", f"run={compared}")
    assert code in (1, 2)
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("how", "known"),
    [("another value", True), ("another value", False), ("truncated at a line", False), ("of another run", True)],
)
def test_a_config_that_has_changed_is_refused(start, compared, capsys, how, known):
    """What it lacks would take the defaults of today, and another value would give another run."""
    path = compared / ".hydra" / "config.yaml"
    content = yaml.safe_load(path.read_text())
    if how == "truncated at a line":
        content = {key: content[key] for key in ("seed", "cluster")}
    elif how == "of another run":
        content = {"checkpoint": "x", "minutes": 3}
    else:
        content["seed"] = 6
    path.write_text(yaml.safe_dump(content))
    if not known:
        (compared / "provenance.json").write_text("{}")
    code, _, err, _ = start(capsys, "evaluate", f"run={compared}")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    if how == "another value":
        assert ("config.yaml: has changed since the run began" in err) == known
    else:
        assert "config.yaml: lacks " in err


def test_nothing_else_may_be_asked_of_a_repeated_run(start, compared, capsys):
    code, _, err, _ = start(capsys, "evaluate", f"run={compared}", "seed=3", "workload.load=2.0")
    assert code == 2
    assert "leave out seed, workload.load" in err
    found = json.loads((compared / "provenance.json").read_text())
    (compared / "provenance.json").write_text(json.dumps({**found, "script": "sweep"}))
    assert "only compare, evaluate and train can be repeated" in start(capsys, "evaluate", f"run={compared}")[2]


def test_a_training_run_is_repeated_and_resuming_leaves_no_other_folder(start, capsys):
    code, _, err, folder = start(capsys, "train", *TINY, "trainer.iterations=2", "trainer.validate_every=5")
    assert code == 0, err
    weights = folder / "checkpoints" / "best" / "weights.safetensors"
    found = json.loads((folder / "provenance.json").read_text())
    assert found["checkpoint"][str(weights.resolve())] == file_hash(weights)
    code, out, err, again = start(capsys, "evaluate", f"run={folder}")
    assert code == 0, err
    assert "figures of state.json" in out
    assert file_hash(again / "checkpoints" / "best" / "weights.safetensors") == file_hash(weights)
    code, out, err, kept = start(capsys, "train", f"resume={folder}", "trainer.iterations=3")
    assert (code, kept) == (0, folder), err
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    code, out, err, kept = start(capsys, "train", f"resume={folder}")  # with the option of the resume before
    resumes = json.loads((folder / "provenance.json").read_text())["resumes"]
    assert [(each["options"], each["after"]) for each in resumes] == [({"trainer.iterations": 3}, 2), ({}, 3)]
    assert json.loads((folder / "state.json").read_text())["iteration"] == 3
    code, out, err, _ = start(capsys, "evaluate", f"run={folder}")
    assert code == 0, err
    assert "figures of state.json" in out
    (folder / "state.json").unlink()
    shutil.rmtree(folder / "checkpoints" / "states" / "iteration_0000003")
    for path in (folder / "checkpoints" / "states").rglob("learner.pkl"):
        path.write_bytes(b"")
    code, _, err, _ = start(capsys, "train", f"resume={folder}")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "there is no other state" in err
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("option", ["trainer.method.lr=1e-5", "scheduler=srtf", "cluster=small_16"])
def test_an_option_that_a_resumed_run_would_ignore_is_refused(start, compared, capsys, option):
    before = (compared / "provenance.json").read_bytes()
    code, _, err, _ = start(capsys, "train", f"resume={compared}", option)
    assert (code, len(err.strip().splitlines())) == (2, 1)
    named = option.partition("=")[0].replace("scheduler", "schedulers.srtf")
    assert f"the run goes on as it began; leave out {named}; only elsewhere, episodes, evaluate, " in err
    assert (compared / "provenance.json").read_bytes() == before


def test_parts_of_a_resumed_run_are_played_with_the_options_of_their_time():
    began = OmegaConf.create({"trainer": {"iterations": 30}, "evaluate": False})
    resumes = [
        {"after": 7, "options": {"evaluate": True}},  # interrupted: the next part reaches the same figures
        {"after": 30, "options": {"trainer.iterations": 40}},
        {"after": 35, "options": {}},
    ]
    parts = [(part.trainer.iterations, part.evaluate) for part in recall_parts(began, {"resumes": resumes})]
    assert parts == [(30, True), (40, True)]
    assert recall_parts(began, {}) == [began]
    for wrong in (5, [5], [{"after": 1}], [{"after": 1, "options": {"trainer._target_": "os.system"}}]):
        with pytest.raises(ChoiceError, match="provenance.json: resumes"):
            read_resumes({"resumes": wrong})
    with pytest.raises(ChoiceError, match="resumes: trainer.iterations is 'x'; it must be a whole number"):
        read_resumes({"resumes": [{"after": 1, "options": {"trainer.iterations": "x"}}]})


def test_traces_enter_with_their_hashes(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,duration,num_gpus\n0,10,1\n")

    def hashes(where):
        return trace_hashes(TraceSource(two_nodes(), IdealModel(), SwfTrace(), path=str(where)))

    assert hashes(path) == hashes(tmp_path) == {str(path): file_hash(path)}
    assert hashes(tmp_path / "none") == {}


def test_small_parts(tmp_path):
    assert describe_clone(tmp_path) is None
    assert [requirement_name(line) for line in ("ray[rllib]==2.60.*", "numpy<3,>=2.2", "gymnasium")] == [
        "ray",
        "numpy",
        "gymnasium",
    ]
    assert dict(leaves({"a": [1, {"b": None}], "c": {}})) == {"a[0]": 1, "a[1].b": None}
    git = {"revision": "a" * 40, "dirty": False}
    now = {"git": {**git, "revision": "b" * 40}, "started": "later"}
    assert list(changed_since({"git": git, "started": "then"}, now)) == [
        "git.revision was aaaaaaaaaaaa and is bbbbbbbbbbbb now"
    ]
    with pytest.raises(ChoiceError, match="the earlier run was not finished"):
        report_differences(tmp_path, tmp_path)
