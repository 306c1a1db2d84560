"""A run folder or a checkpoint of a stranger runs nothing: attacks are refused before anything is imported."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file

from agents.checkpoint import DESCRIPTION, WEIGHTS, Checkpoint
from agents.networks import Blueprint
from envs.gpu_cluster import DecisionRules
from envs.types import CheckpointError
from launch.building import build_object
from launch.choices import CONF
from launch.errors import ChoiceError
from launch.registry import check_recalled, named_targets, project_targets, registered
from tests.unit.agents.worlds import SPEC
from tests.unit.launch.test_scripts import run as run_script

BLUEPRINT = Blueprint(options={"width": 8, "layers": 1, "heads": 2})
ORIGIN = Path("run/.hydra/config.yaml")
GROUPS: dict[str, dict[str, Any]] = {
    "cluster": {"_target_": "envs.cluster.build_cluster", "name": "c", "groups": []},
    "performance": {"_target_": "envs.performance.default_model"},
    "scenario": {"_target_": "envs.simulation.Scenario", "rounds": {"_target_": "envs.simulation.Rounds"}},
    "workload": {"_target_": "envs.workloads.SyntheticSource"},
    "env": {"jct": "${oc.select:task.objective.jct,1.0}"},
}
TARGETS = (
    "sympy.sympify",
    "os.system",
    "subprocess.Popen",
    "builtins.eval",
    "builtins.exec",
    "importlib.import_module",
    "runpy.run_path",
    "pickle.loads",
    "torch.load",
    "hydra.utils.instantiate",
    "pandas.read_pickle",
    "numpy.load",
    "shutil.rmtree",
    "envs.simulation.Scenario.__init__",
    "baselines.fifo.os.system",
    "timeit.timeit",
    "",
    "scenario",
)


def check(recalled):
    check_recalled(recalled, project_targets(CONF), ORIGIN)


def test_the_projects_own_configurations_pass():
    check(GROUPS)
    found = project_targets(CONF)
    assert len(found) > 50
    assert {"envs.simulation.Scenario", "agents.networks.AttentionPolicy", "baselines.fifo.Fifo"} <= found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", ["scenario", "workload", "deep", "list", "network", "task"])
def test_no_other_class_is_built_wherever_it_is_named(target, place):
    node = {"_target_": target, "a": "__import__('os').system('touch /tmp/executed')"}
    recalled = {
        "scenario": {**GROUPS, "scenario": node},
        "workload": {**GROUPS, "workload": node},
        "deep": {
            **GROUPS,
            "scenario": {**GROUPS["scenario"], "failures": {"_target_": "envs.simulation.Failures", "x": node}},
        },
        "list": {**GROUPS, "cluster": {**GROUPS["cluster"], "groups": [{"gpu_type": "V100"}, node]}},
        "network": {**GROUPS, "agent": {"_target_": "agents.networks.Blueprint", "target": target}},
        "task": {**GROUPS, "task": {"_target_": "envs.evaluation.task.Task", "objective": node}},
    }[place]
    with pytest.raises(ChoiceError, match="which is no class of this project") as error:
        check(recalled)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(ORIGIN))


@pytest.mark.parametrize("group", ["cluster", "performance", "scenario", "workload"])
@pytest.mark.parametrize("value", [None, 3, "text", [], {}, {"rounds": None}])
def test_a_group_that_names_no_class_is_an_error(group, value):
    """A scenario of None once became the default world."""
    with pytest.raises(ChoiceError, match=f"{group} is .*must name a class"):
        check({**GROUPS, group: value})


@pytest.mark.parametrize("key", ["_args_", "_partial_", "_convert_", "_recursive_", "__class__"])
def test_other_keys_of_hydra_are_refused(key):
    with pytest.raises(ChoiceError, match=f"scenario.{key} is not allowed"):
        check({**GROUPS, "scenario": {**GROUPS["scenario"], key: ["x"]}})


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "${oc.decode:1}", "x ${oc.create:y}", "${a:${oc.select:b}}"])
def test_resolvers_are_refused(value):
    with pytest.raises(ChoiceError, match="may not call resolvers"):
        check({**GROUPS, "workload": {**GROUPS["workload"], "path": value}})


@pytest.mark.parametrize("target", [5, None, ["os.system"], {"_target_": "os.system"}])
def test_a_name_that_is_no_text_is_refused(target):
    with pytest.raises(ChoiceError, match="scenario"):
        check({**GROUPS, "scenario": {"_target_": target}})


def test_the_command_line_extends_the_registry():
    cfg = OmegaConf.create({"own": {"_target_": "my_module.Mine"}, "trust": ["my_module.Reader"]})
    assert {"my_module.Mine", "my_module.Reader", "baselines.fifo.Fifo"} <= registered(cfg)
    assert "my_module.Other" not in registered(cfg)
    assert list(named_targets({"a": [{"_target_": "b.C"}]})) == [("a[0]._target_", "b.C")]


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(3)
    folder = tmp_path / "policy"
    rules = DecisionRules(num_candidates=4)
    Checkpoint(BLUEPRINT.build(SPEC), BLUEPRINT, SPEC, rules, ("V100", "K80"), {"seed": 1}).save(folder)
    return folder


def edit(folder, part, name, value):
    """Set one value of the description; the network is under `network` and `network.options`."""
    content = json.loads((folder / DESCRIPTION).read_text())
    inner = content
    for key in part.split("."):
        inner = inner[key] if key else inner
    inner[name] = value
    (folder / DESCRIPTION).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("spec", "num_candidates", 10**9),
        ("rules", "num_candidates", 10**9),
        ("spec", "num_nodes", "x"),
        ("spec", "num_nodes", -3),
        ("spec", "num_nodes", 2.5),
        ("spec", "num_nodes", True),
        ("spec", "node_gpus", 10**6),
        ("spec", "num_slots", 0),
        ("spec", "surplus", 1),
        ("rules", "max_decisions", 10**12),
        ("rules", "queue_order", "other"),
        ("rules", "queue_order", ["fifo"]),
        ("rules", "preemptive", 1),
        ("rules", "candidates_per_node", 1e9),
        ("rules", "candidates_per_node", float("nan")),
        ("network.options", "layers", 20000),
        ("network.options", "width", 10**7),
        ("network.options", "width", {"a": 1}),
        ("network.options", "other", "x" * 1000),
        ("network.options", "other", [[0] * 200]),
        ("network", "options", []),
        ("network", "target", 5),
        ("", "gpu_types", "V100"),
        ("", "gpu_types", [1, 2]),
        ("", "notes", 5),
        ("", "notes", "x" * 2_000_000),
        ("", "spec", None),
        ("", "network", "agents.networks.AttentionPolicy"),
    ],
)
def test_a_description_out_of_bounds_is_refused_before_anything_is_built(saved, monkeypatch, part, name, value):
    monkeypatch.setattr(Blueprint, "build", lambda *_: pytest.fail("something was built"))
    edit(saved, part, name, value)
    with pytest.raises(CheckpointError, match="is not a policy description") as error:
        Checkpoint.load(saved)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("text", ["[]", "5", "null", "{}", "[" * 100_000, '{"format": NaN}', "\xff", ""])
def test_files_that_are_no_description_are_refused(saved, text):
    (saved / DESCRIPTION).write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError):
        Checkpoint.load(saved)


def test_the_network_class_comes_from_the_registry(saved, tmp_path, monkeypatch):
    """A module that a description names is not even imported, unless the user names it too."""
    mark = tmp_path / "executed"
    source = f"open({str(mark)!r}, 'w').close()\nfrom agents.networks import AttentionPolicy as Net\n"
    (tmp_path / "stranger.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    edit(saved, "network", "target", "stranger.Net")
    with pytest.raises(CheckpointError, match="is no network of this project.*trust="):
        Checkpoint.load(saved)
    assert not mark.exists()
    assert "stranger" not in sys.modules
    assert Checkpoint.load(saved, networks=["stranger.Net"]).blueprint.target == "stranger.Net"
    assert mark.exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(saved, value):
    weights = load_file(str(saved / WEIGHTS))
    for name, tensor in weights.items():
        wrong = tensor.clone()
        wrong.view(-1)[-1] = value
        save_file({**weights, name: wrong}, str(saved / WEIGHTS))
        with pytest.raises(CheckpointError, match=r"not finite|finite numbers"):
            Checkpoint.load(saved)


def test_recalled_objects_have_the_types_of_the_signature():
    """Registered classes in the wrong places are refused as well."""
    rounds, scenario = {"_target_": "envs.simulation.Rounds"}, {"_target_": "envs.simulation.Scenario"}
    for wrong in ({"rounds": {"_target_": "envs.simulation.Information"}}, {"contention": rounds}, {"failures": 5}):
        cfg = OmegaConf.create({"scenario": {**scenario, **wrong}})
        with pytest.raises(ChoiceError, match=f"scenario.{next(iter(wrong))} is"):
            build_object(cfg.scenario)
    assert build_object(OmegaConf.create({"scenario": {**scenario, "rounds": rounds}}).scenario).rounds.on_events


def test_evaluating_a_strangers_run_runs_nothing(saved, tmp_path):
    """The attack of a published run folder, through the script itself."""
    run = tmp_path / "run"
    shutil.copytree(saved, run / "checkpoints" / "best")
    (run / ".hydra").mkdir()
    mark = tmp_path / "executed"
    attack = {"_target_": "sympy.sympify", "a": f"__import__('os').system('touch {mark}')"}
    OmegaConf.save(OmegaConf.create({**GROUPS, "scenario": attack}), run / ".hydra" / "config.yaml")
    done = run_script(tmp_path, "evaluate", f"checkpoint={run}", "scheduler=fifo")
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "sympy.sympify" in done.stderr
    assert not mark.exists()
