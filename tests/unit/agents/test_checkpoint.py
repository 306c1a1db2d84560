"""Checkpoints: loading returns what was saved; damage is reported in one line that names the file."""

import json
import pickle
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.networks import Blueprint
from agents.policies.checkpoint import Checkpoint
from agents.policies.description import DESCRIPTION, WEIGHTS
from agents.policies.scheduler import choose_actions
from envs.gpu_cluster import DecisionRules
from envs.types import CheckpointError
from tests.unit.agents.worlds import SPEC, observation

BLUEPRINT = Blueprint(options={"width": 8, "layers": 1, "heads": 2, "sharpness": 2.5})
RULES = DecisionRules(num_candidates=4, queue_order="fifo", elastic=False)
TYPES = ("V100", "K80")


def made():
    torch.manual_seed(3)
    notes = {"seed": 7, "validation": {"mean_jct": 12.5}}
    return Checkpoint(BLUEPRINT.build(SPEC), BLUEPRINT, SPEC, RULES, TYPES, notes)


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "policy"
    made().save(folder)
    return folder


def test_everything_comes_back_to_the_bit(saved):
    before, after = made(), Checkpoint.load(saved)
    assert (after.blueprint, after.spec, after.rules, after.gpu_types) == (BLUEPRINT, SPEC, RULES, TYPES)
    assert after.notes == before.notes
    weights = after.network.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in before.network.state_dict().items())
    arrays = {name: tensor.numpy() for name, tensor in observation().items()}
    for seed in range(5):
        networks = (before.scheduler().network, after.scheduler().network)
        first, second = (choose_actions(network, arrays, np.random.default_rng(seed)) for network in networks)
        assert np.array_equal(first, second)


def test_saving_again_replaces_and_leaves_no_parts(saved):
    other = made()
    with torch.no_grad():
        other.network.get_parameter("nothing.bias").fill_(9.0)
    other.save(saved)
    assert Checkpoint.load(saved).network.get_parameter("nothing.bias").item() == 9.0
    assert {path.name for path in saved.iterdir()} == {WEIGHTS, DESCRIPTION}


def test_the_folder_of_a_run_gives_its_best_checkpoint(tmp_path):
    made().save(tmp_path / "run" / "checkpoints" / "best")
    for folder in (tmp_path / "run", tmp_path / "run" / "checkpoints", tmp_path / "run" / "checkpoints" / "best"):
        assert Checkpoint.load(folder).notes["seed"] == 7
    assert Checkpoint.load(str(tmp_path / "run")).notes["seed"] == 7


def test_its_scheduler_plays_by_its_rules(saved):
    checkpoint = Checkpoint.load(saved)
    scheduler = checkpoint.scheduler(sampled=False)
    assert (scheduler.rules, scheduler.spec, scheduler.gpu_types, scheduler.sampled) == (RULES, SPEC, TYPES, False)
    assert not checkpoint.network.training


def refused(folder, file):
    """The message with which a folder is refused; it names the file, in one line."""
    with pytest.raises(CheckpointError) as error:
        Checkpoint.load(folder)
    message = str(error.value)
    assert "\n" not in message
    assert str(folder / file) in message if file else str(folder) in message
    return message


def test_a_folder_without_a_checkpoint(tmp_path):
    assert "give the folder of a training run or of a checkpoint" in refused(tmp_path, "")
    refused(tmp_path / "nowhere", "")


@pytest.mark.parametrize("keep", [0, 3, 20, 300, -1])
def test_truncated_weights(saved, keep):
    whole = (saved / WEIGHTS).read_bytes()
    (saved / WEIGHTS).write_bytes(whole[:keep])
    assert "does not contain this network's weights" in refused(saved, WEIGHTS)


def test_missing_weights(saved):
    (saved / WEIGHTS).unlink()
    assert "copy it again or train anew" in refused(saved, WEIGHTS)


def test_weights_of_another_shape_and_of_another_network(saved):
    wider = Blueprint(options={**BLUEPRINT.options, "width": 16})
    Checkpoint(wider.build(SPEC), wider, SPEC, RULES, TYPES, {}).save(saved / "wider")
    (saved / WEIGHTS).write_bytes((saved / "wider" / WEIGHTS).read_bytes())
    assert "size mismatch" in refused(saved, WEIGHTS)
    deeper = Blueprint(options={**BLUEPRINT.options, "layers": 2})
    Checkpoint(deeper.build(SPEC), deeper, SPEC, RULES, TYPES, {}).save(saved / "deeper")
    (saved / WEIGHTS).write_bytes((saved / "deeper" / WEIGHTS).read_bytes())
    assert "attention.1" in refused(saved, WEIGHTS)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"text"', "{}", '{"format": 2}', "\x00\x01"])
def test_a_description_that_is_none(saved, content):
    (saved / DESCRIPTION).write_text(content)
    assert "is not a policy description" in refused(saved, DESCRIPTION)


def test_a_description_that_is_not_even_text(saved):
    (saved / DESCRIPTION).write_bytes(b"\xff\xfe\x80")
    refused(saved, DESCRIPTION)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("format", 99, "format is 99, this version reads 2 to 4"),
        ("format", 1, "format is 1, this version reads 2 to 4"),  # format 1 named no GPU types
        ("gpu_types", ["V100"], "gpu_types are V100; they must be 2 different names"),
        ("gpu_types", ["V100", "V100"], "gpu_types are V100, V100; they must be 2 different names"),
        ("gpu_types", 5, "policy description"),
        ("network", {"target": "agents.networks.Nobody", "options": {}}, "no network of this project"),
        ("network", {"options": {}}, "network.target is None"),
        ("network", {"target": "builtins.exec", "options": {}}, "no network of this project"),
        ("network", {"target": BLUEPRINT.target, "options": {"widht": 8}}, "unexpected keyword argument"),
        ("spec", {"num_nodes": 3}, "missing"),
        ("spec", {**dict.fromkeys(SPEC.__slots__, 2), "num_gpu_types": -90}, "policy description"),
        ("spec", {**dict.fromkeys(SPEC.__slots__, 2), "node_gpus": "two"}, "policy description"),
        ("rules", {"queue_order": "longest"}, "queue_order is 'longest'"),
        ("rules", {"nobody": 1}, "rules.'nobody' is no field of it"),
        ("notes", 5, "policy description"),
    ],
)
def test_a_description_with_a_wrong_part(saved, key, value, said):
    content = json.loads((saved / DESCRIPTION).read_text())
    (saved / DESCRIPTION).write_text(json.dumps({**content, key: value}))
    assert said in refused(saved, DESCRIPTION)


def test_format_2_is_read(saved):
    """Its description and its weights have the old names; the policy acts as it did."""
    description = json.loads((saved / DESCRIPTION).read_text())
    spec, rules = description["spec"], description["rules"]
    spec["num_servers"], rules["candidates_per_server"] = spec.pop("num_nodes"), rules.pop("candidates_per_node")
    (saved / DESCRIPTION).write_text(json.dumps({**description, "format": 2}))
    weights = load_file(str(saved / WEIGHTS))
    old = {re.sub("(encode|pointer)_node", r"\1_server", name): tensor for name, tensor in weights.items()}
    assert sum("_server." in name for name in old) == 10  # two of the policy's layers and one of the critic's
    save_file(old, str(saved / WEIGHTS))
    before, after = made(), Checkpoint.load(saved)
    assert (after.spec, after.rules, after.gpu_types) == (SPEC, RULES, TYPES)
    found = after.network.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in before.network.state_dict().items())


@pytest.mark.parametrize("wrong", [{"spec": []}, {"rules": None}, {"spec": {"num_servers": 3}}])
def test_a_damaged_description_of_format_2_is_refused(saved, wrong):
    content = json.loads((saved / DESCRIPTION).read_text())
    (saved / DESCRIPTION).write_text(json.dumps({**content, "format": 2, **wrong}))
    assert "is not a policy description" in refused(saved, DESCRIPTION)


def test_weights_that_give_no_numbers_are_refused(saved):
    weights = load_file(str(saved / WEIGHTS))
    save_file({**weights, "nothing.bias": torch.full((1,), torch.nan)}, str(saved / WEIGHTS))
    assert "nothing.bias has values that are not finite" in refused(saved, WEIGHTS)


class Trap:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_nothing_is_ever_unpickled(saved, tmp_path, monkeypatch):
    mark = tmp_path / "executed"
    trap = pickle.dumps(Trap(mark))
    for file in (WEIGHTS, DESCRIPTION):
        whole = (saved / file).read_bytes()
        (saved / file).write_bytes(trap)
        refused(saved, file)
        (saved / file).write_bytes(whole)
    assert not mark.exists()

    def forbidden(*_, **__):
        raise AssertionError("a pickle was read")

    for place in ("pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load"):
        monkeypatch.setattr(place, forbidden)
    Checkpoint.load(saved)
