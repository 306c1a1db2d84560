"""A run folder or a checkpoint of a stranger runs nothing: attacks are refused before anything is imported."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file

import evaluate
from agents.networks import Blueprint
from agents.policies import BiddingCheckpoint
from agents.policies.bid_checkpoint import ANY_SPEC
from agents.policies.description import DESCRIPTION, WEIGHTS
from agents.policies.options.checkpoint import OptionCheckpoint
from envs.bidding import BiddingRules
from envs.options import OptionRules, OptionSpec
from envs.types import CheckpointError
from murmuration.config.building import Component, build_object
from murmuration.config.choices import CONF
from murmuration.config.describe import describe_problem
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_inputs
from murmuration.config.registry import check_recalled, named_targets, project_targets, registered

BLUEPRINT = Blueprint("agents.networks.option_attention.OptionAttention", {"width": 8, "rounds": 1, "heads": 2})
ORIGIN = Path("run/.hydra/config.yaml")
GROUPS: dict[str, dict[str, Any]] = {
    "cluster": {"_target_": "envs.cluster.build_cluster", "name": "c", "groups": []},
    "performance": {"_target_": "envs.performance.default_model"},
    "scenario": {"_target_": "envs.simulation.Scenario", "rounds": {"_target_": "envs.simulation.Rounds"}},
    "workload": {"_target_": "envs.workloads.SyntheticSource"},
    "env": {"_target_": "envs.options.OptionSettings", "reward": {"_target_": "envs.episodes.TeamReward"}},
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
    assert {"envs.simulation.Scenario", "agents.networks.bidding.BiddingPolicy", "baselines.fifo.Fifo"} <= found


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


def test_what_does_something_when_it_is_called_is_no_part_of_a_run():
    """Experiments write files into the folder that they are given."""
    for target in ("papers.maifs.improvements", "papers.synergy.experiment.mechanisms"):
        with pytest.raises(ChoiceError, match="which is no class of this project"):
            check({**GROUPS, "scenario": {"_target_": target, "data": "", "folder": "."}})


@pytest.mark.parametrize("name", ["../../evil", "a/b", "", "\x1b[2J", 5])
def test_a_scheduler_that_would_name_a_file_elsewhere_is_refused(name):
    with pytest.raises(ChoiceError, match="is no name of a scheduler"):
        check({**GROUPS, "schedulers": {name: {"_target_": "baselines.fifo.Fifo"}}})
    check({**GROUPS, "schedulers": {"fifo-2": {"_target_": "baselines.fifo.Fifo"}}})


@pytest.mark.parametrize("value", [None, 5, [], {"fifo": None}, {"fifo": {"backfill": "easy"}}])
def test_schedulers_must_name_classes(value):
    with pytest.raises(ChoiceError, match="schedulers is .*each of them must name a class"):
        check({**GROUPS, "schedulers": value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("seed", "x"), ("seed", True), ("seeds", [1]), ("split", 3), ("checkpoint", None), ("sampled", 1)),
        *(
            ("tasks", "x"),
            ("recorded", [1]),
            ("record", "yes"),
            ("env", 3),
            ("market", "starling"),
            ("task", {"name": 1}),
        ),
    ],
)
def test_a_key_of_another_type_is_refused(key, value):
    with pytest.raises(ChoiceError, match=rf"config\.yaml: {key} is .*; it must "):
        check({**GROUPS, key: value})


@pytest.mark.parametrize("group", ["cluster", "performance", "scenario", "workload"])
def test_a_class_of_the_project_in_the_wrong_group_is_refused(group):
    cfg = OmegaConf.create({**GROUPS, group: {"_target_": "baselines.fifo.Fifo"}, "seed": 0})
    cfg.cluster.groups = [{"gpu_type": "V100", "num_nodes": 1, "num_gpus": 1}]
    with pytest.raises(ChoiceError, match=rf"{group}\._target_ is baselines\.fifo\.Fifo; it must build a "):
        build_inputs(describe_problem(cfg))


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
    OptionCheckpoint(BLUEPRINT.build(OptionSpec()), BLUEPRINT, OptionRules(num_candidates=4), {"seed": 1}).save(folder)
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
        ("rules", "num_candidates", 10**9),
        ("rules", "num_candidates", "x"),
        ("rules", "num_candidates", -3),
        ("rules", "num_candidates", 2.5),
        ("rules", "num_candidates", True),
        ("rules", "surplus", 1),
        ("rules", "max_decisions", 10**12),
        ("rules", "queue_order", "other"),
        ("rules", "queue_order", ["fifo"]),
        ("rules", "distinct_nodes", 1),
        ("rules", "changes", "all"),
        ("rules", "candidates_per_node", 1e9),
        ("rules", "candidates_per_node", float("nan")),
        ("network.options", "rounds", 20000),
        ("network.options", "width", 10**7),
        ("network.options", "width", {"a": 1}),
        ("network.options", "other", "x" * 1000),
        ("network.options", "other", [[0] * 200]),
        ("network", "options", []),
        ("network", "target", 5),
        ("", "notes", 5),
        ("", "notes", "x" * 2_000_000),
        ("", "rules", None),
        ("", "network", "agents.networks.option_scorer.OptionScorer"),
    ],
)
def test_a_description_out_of_bounds_is_refused_before_anything_is_built(saved, monkeypatch, part, name, value):
    monkeypatch.setattr(Blueprint, "build", lambda *_: pytest.fail("something was built"))
    edit(saved, part, name, value)
    with pytest.raises(CheckpointError, match="is not a policy description") as error:
        OptionCheckpoint.load(saved)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


HUGE = {"rounds": 64, "width": 8192, "heads": 256, "mixing": "graph"}  # each within its bound; together 100 GB


def save_bids(folder):
    """Save a bidding policy."""
    blueprint = Blueprint("agents.networks.bidding.BiddingPolicy", {"width": 8})
    market = {"name": "fifo", "options": {}}
    BiddingCheckpoint(blueprint.build(ANY_SPEC), blueprint, BiddingRules(), market, {}).save(folder)


@pytest.fixture
def evaluate_here(tmp_path, monkeypatch, capsys):
    """`scripts/evaluate.py` within this process; returns its exit code and what it wrote to stderr."""

    def main(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["evaluate.py", *arguments])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        with pytest.raises(SystemExit) as left:
            evaluate.main()
        return left.value.code, capsys.readouterr().err

    return main


OUT_OF_BOUNDS: list[tuple[str, str, Any, str]] = [
    ("rules", "num_candidates", 10**9, "rules.num_candidates is 1000000000; it must be a whole number from 1 to"),
    ("network.options", "rounds", 20000, "network.options.rounds is 20000; it may be at most 64"),
    ("rules", "num_servers", "x", "rules.'num_servers' is no field of it"),
]


@pytest.mark.parametrize(
    ("face", "part", "name", "value", "said"),
    [
        *(("options", *each) for each in OUT_OF_BOUNDS),
        *(("bidding", *each) for each in OUT_OF_BOUNDS),
        ("options", "network", "options", HUGE, "are those of a network of "),
        ("bidding", "network", "options", HUGE, "are those of a network of "),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_evaluating_a_policy_out_of_bounds_is_one_line(
    saved, evaluate_here, monkeypatch, face, part, name, value, said
):
    """The command refuses it before memory is allocated: nothing is built but on torch's device without memory."""
    if face == "bidding":
        save_bids(saved)
    edit(saved, part, name, value)
    whole = Blueprint.build

    def without_memory(blueprint, spec):
        network = whole(blueprint, spec)
        assert all(each.is_meta for each in network.state_dict().values())
        return network

    monkeypatch.setattr(Blueprint, "build", without_memory)
    code, err = evaluate_here(f"checkpoint={saved}", "task=none", "cluster=small_16", "scheduler=fifo")
    assert code == 2, err
    assert err.startswith("error: ")
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("text", ["[]", "5", "null", "{}", "[" * 100_000, '{"format": NaN}', "\xff", ""])
def test_files_that_are_no_description_are_refused(saved, text):
    (saved / DESCRIPTION).write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError):
        OptionCheckpoint.load(saved)


def test_the_network_class_comes_from_the_registry(saved, tmp_path, monkeypatch):
    """A module that a description names is not even imported, unless the user names it too."""
    mark = tmp_path / "executed"
    source = f"open({str(mark)!r}, 'w').close()\nfrom agents.networks.option_attention import OptionAttention as Net\n"
    (tmp_path / "stranger.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    edit(saved, "network", "target", "stranger.Net")
    with pytest.raises(CheckpointError, match="is no network of this project.*trust="):
        OptionCheckpoint.load(saved)
    assert not mark.exists()
    assert "stranger" not in sys.modules
    assert OptionCheckpoint.load(saved, networks=["stranger.Net"]).blueprint.target == "stranger.Net"
    assert mark.exists()
    del sys.modules["stranger"]  # other tests attack by a module of this name


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(saved, value):
    weights = load_file(str(saved / WEIGHTS))
    for name, tensor in weights.items():
        wrong = tensor.clone()
        wrong.view(-1)[-1] = value
        save_file({**weights, name: wrong}, str(saved / WEIGHTS))
        with pytest.raises(CheckpointError, match=r"not finite|finite numbers"):
            OptionCheckpoint.load(saved)


def test_recalled_objects_have_the_types_of_the_signature():
    """Registered classes in the wrong places are refused as well."""
    rounds, scenario = {"_target_": "envs.simulation.Rounds"}, {"_target_": "envs.simulation.Scenario"}
    for wrong in ({"rounds": {"_target_": "envs.simulation.Information"}}, {"contention": rounds}, {"failures": 5}):
        with pytest.raises(ChoiceError, match=f"scenario.{next(iter(wrong))} is"):
            build_object(Component("scenario", {**scenario, **wrong}))
    assert build_object(Component("scenario", {**scenario, "rounds": rounds})).rounds.on_events
