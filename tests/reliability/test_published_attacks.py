"""Attacks that once worked, each through every script that reads the file: refused in one line, and nothing is done."""

import importlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from agents.policies import BiddingCheckpoint
from envs.types import CheckpointError
from murmuration.config.arguments import compose_options
from murmuration.config.choices import CONF, open_configs
from murmuration.config.describe import describe_comparison
from murmuration.config.errors import ChoiceError
from murmuration.config.plain import read_configuration, read_unfilled
from murmuration.config.provenance import PROVENANCE, SAVED, hash_config, resolve_config
from murmuration.config.recall import find_again
from murmuration.config.registry import check_recalled, project_targets
from murmuration.runs.policies import seed_folders
from tests.reliability.mutation import TASKS, as_yaml
from tests.unit.runs.test_scripts import SMALL
from tests.unit.runs.test_scripts import run as run_script

COMMAND = "__import__('os').system('touch owned')"
NAMED_BY_REFERENCE = f'${{${{cluster.name}}:"{{_target_: sympy.sympify, a: \\"{COMMAND}\\"}}"}}'
VALUES = ("${oc.env:HOME}", "${oc.create:'{_target_: this.s}'}")
DOORS = {
    "checkpoint": ("evaluate", "checkpoint={}"),
    "run": ("evaluate", "run={}"),
    "film": ("film", "checkpoint={}"),
    "resume": ("train", "resume={}"),
}


@pytest.fixture
def script(tmp_path, monkeypatch, capsys):
    """A script within this process: its exit code and the lines that it wrote to stderr."""

    def main(name, *words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        code: object = 0
        try:
            importlib.import_module(name).main()
        except SystemExit as left:
            code = left.code
        return code, capsys.readouterr().err.splitlines()

    return main


@pytest.fixture(scope="module")
def composed():
    """The text of a plain configuration."""
    with open_configs():
        return as_yaml(OmegaConf.to_container(resolve_config(compose_options("train", SMALL[:2], "[fifo]"))))


@pytest.fixture
def run(tmp_path, composed):
    """The folder of a run with a shipped policy; its configuration is plain."""
    folder = tmp_path / "run"
    shutil.copytree(CONF.parent / "checkpoints" / "bids-mix", folder / "checkpoints" / "best")
    (folder / PROVENANCE).write_text(json.dumps({"script": "compare"}))
    (folder / SAVED).parent.mkdir()
    (folder / SAVED).write_text(composed)
    return folder


def change(run, /, **changes):
    """Change top-level keys of a run's configuration."""
    content = read_unfilled(run / SAVED)
    (run / SAVED).write_text(as_yaml({**content, **changes}))
    return content


@pytest.mark.parametrize(("through", "door"), [*(("reference", door) for door in DOORS), ("target", "checkpoint")])
def test_a_run_folder_runs_no_code(script, run, tmp_path, door, through):
    content = read_unfilled(run / SAVED)
    failures = NAMED_BY_REFERENCE if through == "reference" else {"_target_": "sympy.sympify", "a": COMMAND}
    cluster = {**content["cluster"], "name": "oc.create"}
    change(run, cluster=cluster, scenario={**content["scenario"], "failures": failures})
    name, words = DOORS[door]
    code, err = script(name, words.format(run))
    assert (code, len(err)) == (2, 1)
    assert err[0].startswith(f"error: {run / SAVED}: scenario.failures")
    assert "may hold no ${...}" in err[0] if through == "reference" else "no class of this project" in err[0]
    assert not (tmp_path / "owned").exists()


def test_an_attack_on_a_script_of_its_own(run, tmp_path):
    """The same in a process of its own."""
    content = read_unfilled(run / SAVED)
    cluster = {**content["cluster"], "name": "oc.create"}
    change(run, cluster=cluster, scenario={**content["scenario"], "failures": NAMED_BY_REFERENCE})
    done = run_script(tmp_path, "evaluate", f"checkpoint={run}", "scheduler=fifo")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("value", [*VALUES, [{"_target_": "this.s"}], "???"])
def test_a_policy_alone_imports_nothing_and_reads_no_environment(script, tmp_path, monkeypatch, value):
    monkeypatch.setenv("HOME", "/home/of-the-user")
    sys.modules.pop("this", None)
    policy = tmp_path / "policy"
    shutil.copytree(CONF.parent / "checkpoints" / "bids-64", policy)
    content = json.loads((policy / "policy.json").read_text())
    content["market"]["options"]["plans"] = value
    (policy / "policy.json").write_text(json.dumps(content))
    for name in ("evaluate", "film"):
        code, err = script(name, f"checkpoint={policy}", "task=none", "cluster=small_16", "scheduler=fifo")
        assert (code, len(err)) == (2, 1)
        assert "policy.json is not a policy description (market.options.plans is " in err[0]
        assert "of-the-user" not in err[0]
    assert "this" not in sys.modules


@pytest.mark.parametrize("key", ["[trust]", "trust[0]", ".trust", "trust.0", "ray.address", "${oc.env:HOME}", "a b"])
def test_a_key_that_stands_for_another_one_is_refused(script, run, key):
    """OmegaConf reads `[trust]` as `trust`; the policy of such a folder could name any class."""
    change(run, **{key: ["stranger.Net"]})
    code, err = script("evaluate", f"run={run}")
    assert (code, len(err)) == (2, 1)
    assert str(run / SAVED) in err[0]


@pytest.mark.parametrize("key", ["trust", "ray", "run", "resume"])
def test_what_a_command_line_decides_is_not_recalled(script, run, monkeypatch, key):
    seen = []

    def describe(cfg):
        seen.append(cfg)
        return describe_comparison(cfg)

    monkeypatch.setattr("murmuration.config.describe.describe_comparison", describe)
    monkeypatch.setattr("murmuration.runs.repeat.compare_and_report", lambda *_: None)
    change(run, **{key: ["stranger.Net"]}, record=True, results="/nowhere")
    code, err = script("evaluate", f"run={run}")
    assert (code, len(err)) == (2, 1)  # it has no figures
    assert "was not finished" in err[0]
    assert seen[0].get(key) == {"trust": [], "ray": {"address": None}, "run": str(run), "resume": None}[key]
    assert seen[0].record is False


@pytest.mark.parametrize("entry", TASKS)
def test_a_further_task_sets_plain_values_only(entry):
    with pytest.raises(ChoiceError, match="config.yaml: tasks"):
        check_recalled({"tasks": ["rigid-64", entry]}, project_targets(CONF), Path("config.yaml"))


def test_further_tasks_of_the_projects_experiments_are_recalled():
    with open_configs():
        names = [path.stem for path in sorted((CONF / "experiment").glob("bidding*.yaml"))]
        tasks = [entry for name in names for entry in compose_options("train", [f"experiment={name}"], "[]").tasks]
    assert len(tasks) > 10
    more = "shared-16 +failures@scenario.failures=rsc1 workload.days=[1,2.5] ++workload.path=a/b-c.csv"
    check_recalled({"tasks": [*map(str, tasks), more]}, project_targets(CONF), Path("config.yaml"))


@pytest.mark.parametrize("known", [{"${oc.env:HOME}/policy.json": "0"}, ["a"], "text", 5])
def test_the_place_of_a_policy_is_a_path(known):
    with pytest.raises(ChoiceError, match="provenance.json: checkpoint is "):
        find_again(OmegaConf.create({"checkpoint": "no/such/folder"}), {"checkpoint": known})


def test_a_pipe_and_a_huge_file_are_not_read(run):
    (run / SAVED).unlink()
    os.mkfifo(run / SAVED)
    with pytest.raises(ChoiceError, match="it is no file"):
        read_configuration(run / SAVED)
    (run / SAVED).unlink()
    (run / SAVED).write_bytes(b"a" * 300_000)
    with pytest.raises(ChoiceError, match="it has more than 262,144 bytes"):
        read_configuration(run / SAVED)


@pytest.mark.parametrize("name", ["policy.json", "weights.safetensors"])
def test_a_policy_that_is_a_pipe_is_not_read(run, name):
    best = run / "checkpoints" / "best"
    (best / name).unlink()
    os.mkfifo(best / name)
    with pytest.raises(CheckpointError, match="it is no file"):
        BiddingCheckpoint.load(best)


def test_folders_that_are_no_training_seeds_are_passed_over(run):
    for name in ("seed_10", "seed_2", "seed_x1", "seed_", "seed_-1"):
        (run / name).mkdir()
    assert [folder.name for folder in seed_folders(run)] == ["seed_2", "seed_10"]


def test_a_new_run_keeps_its_configuration_without_references(script, tmp_path, monkeypatch):
    monkeypatch.setenv("NAME_OF_CLUSTER", "mine")
    words = [*SMALL, "cluster.name=${oc.env:NAME_OF_CLUSTER}", "workload.seed=${seed}", "seed=4"]
    code, err = script("compare", *words, "scheduler=fifo", "hydra.run.dir=done")
    assert code == 0, err
    content = read_configuration(tmp_path / "done" / SAVED)
    assert (content["cluster"]["name"], content["workload"]["seed"]) == ("mine", 4)
    assert "${" not in (tmp_path / "done" / SAVED).read_text()
    monkeypatch.delenv("NAME_OF_CLUSTER")
    code, err = script("evaluate", f"run={tmp_path / 'done'}")
    assert code == 0, err


def test_a_value_that_would_be_a_reference_when_it_is_read_again_is_refused(script):
    code, err = script("compare", *SMALL, "scheduler=fifo", r"cluster.name='\${seed}'")
    assert (code, len(err)) == (2, 1)
    assert "cluster.name is '${seed}'; no value of a configuration may contain ${" in err[0]


def test_the_reference_of_earlier_versions_is_read_and_others_are_refused(script, run, monkeypatch):
    monkeypatch.setattr("murmuration.runs.repeat.compare_and_report", lambda *_: None)
    reward = {"_target_": "envs.episodes.TeamReward", "jct": "${oc.select:task.objective.jct,1.0}"}
    reward["makespan"] = "${oc.select:task.objective.makespan,0.0}"
    env = {"_target_": "envs.options.OptionSettings", "reward": reward}
    task = {"_target_": "envs.evaluation.task.Task", "name": "t", "version": 1}
    change(run, env=env, task={**task, "objective": {"_target_": "envs.evaluation.task.Objective", "makespan": 0.2}})
    assert read_configuration(run / SAVED)["env"]["reward"] == {**reward, "jct": 1.0, "makespan": 0.2}
    old = OmegaConf.load(run / SAVED)
    assert isinstance(old, DictConfig)
    began = hash_config(old)  # as the run of an earlier version hashed it
    (run / PROVENANCE).write_text(json.dumps({"script": "compare", "configuration": began}))
    _, err = script("evaluate", f"run={run}")
    assert "was not finished" in err[0]
    change(run, env={**env, "reward": {**reward, "jct": "${seed}"}})
    code, err = script("evaluate", f"run={run}")
    assert (code, len(err)) == (2, 1)
    assert "env.reward.jct is '${seed}'; a recalled configuration may hold no ${...}: write the value" in err[0]
