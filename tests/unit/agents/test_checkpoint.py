"""Checkpoints: loading returns what was saved; damage is reported in one line that names the file."""

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.networks import Blueprint
from agents.policies.checkpoint import find_checkpoint
from agents.policies.description import DESCRIPTION, WEIGHTS
from agents.policies.options.checkpoint import OptionCheckpoint
from envs.options import OptionRules, OptionSpec
from envs.types import CheckpointError

BLUEPRINT = Blueprint(options={"hidden": 8, "output_scale": 2.5})
RULES = OptionRules(num_candidates=4, queue_order="fifo", changes="resize")


def made():
    torch.manual_seed(3)
    notes = {"seed": 7, "validation": {"mean_jct": 12.5}, "temperature": 0.5}
    return OptionCheckpoint(BLUEPRINT.build(OptionSpec()), BLUEPRINT, RULES, notes)


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "policy"
    made().save(folder)
    return folder


def test_everything_comes_back_to_the_bit(saved):
    before, after = made(), OptionCheckpoint.load(saved)
    assert (after.blueprint, after.rules, after.notes) == (BLUEPRINT, RULES, before.notes)
    weights = after.network.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in before.network.state_dict().items())


def test_saving_again_replaces_and_leaves_no_parts(saved):
    other = made()
    with torch.no_grad():
        other.network.get_parameter("bias").fill_(9.0)
    other.save(saved)
    assert (OptionCheckpoint.load(saved).network.get_parameter("bias") == 9.0).all()
    assert {path.name for path in saved.iterdir()} == {WEIGHTS, DESCRIPTION}


def test_the_folder_of_a_run_gives_its_best_checkpoint(tmp_path):
    made().save(tmp_path / "run" / "checkpoints" / "best")
    for folder in (tmp_path / "run", tmp_path / "run" / "checkpoints", tmp_path / "run" / "checkpoints" / "best"):
        assert OptionCheckpoint.load(find_checkpoint(folder)).notes["seed"] == 7


def test_its_scheduler_plays_by_its_rules(saved):
    checkpoint = OptionCheckpoint.load(saved)
    assert checkpoint.scheduler().rules == RULES
    assert [checkpoint.scheduler(at).temperature for at in (None, 0.0, 1.0)] == [0.5, 0.0, 1.0]


def refused(folder, file):
    """The message with which a folder is refused; it names the file, in one line."""
    with pytest.raises(CheckpointError) as error:
        OptionCheckpoint.load(find_checkpoint(folder))
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
    attention = Blueprint("agents.networks.option_attention.OptionAttention", {"width": 8})
    wider = Blueprint(options={"hidden": 16})
    for name, other, said in (("wider", wider, "size mismatch"), ("other", attention, "parts.0")):
        OptionCheckpoint(other.build(OptionSpec()), other, RULES, {}).save(saved / name)
        (saved / WEIGHTS).write_bytes((saved / name / WEIGHTS).read_bytes())
        assert said in refused(saved, WEIGHTS)


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
        ("format", 99, "in format 99; this version reads options in format 3"),
        ("face", None, "its face is None in format 3"),
        ("network", {"target": "agents.networks.Nobody", "options": {}}, "no network of this project"),
        ("network", {"options": {}}, "network.target is None"),
        ("network", {"target": "builtins.exec", "options": {}}, "no network of this project"),
        ("network", {"target": BLUEPRINT.target, "options": {"hiden": 8}}, "unexpected keyword argument"),
        ("rules", {"queue_order": "longest"}, "queue_order is 'longest'"),
        ("rules", {"nobody": 1}, "rules.'nobody' is no field of it"),
        ("rules", {"distinct_nodes": 1}, "rules.distinct_nodes is 1; it must be true or false"),
        ("notes", 5, "policy description"),
    ],
)
def test_a_description_with_a_wrong_part(saved, key, value, said):
    content = json.loads((saved / DESCRIPTION).read_text())
    (saved / DESCRIPTION).write_text(json.dumps({**content, key: value}))
    assert said in refused(saved, DESCRIPTION)


def test_a_policy_of_the_former_discrete_environment_is_refused_in_words(saved):
    content = {"format": 4, "network": {"target": "agents.networks.AttentionPolicy", "options": {}}, "spec": {}}
    (saved / DESCRIPTION).write_text(json.dumps(content))
    assert "its face is None in format 4; this version reads options in format 3" in refused(saved, DESCRIPTION)


def test_weights_that_give_no_numbers_are_refused(saved):
    weights = load_file(str(saved / WEIGHTS))
    save_file({**weights, "bias": torch.full((8,), torch.nan)}, str(saved / WEIGHTS))
    assert "bias has values that are not finite" in refused(saved, WEIGHTS)


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
    OptionCheckpoint.load(saved)


def test_rules_that_were_saved_before_idle_waiting_could_be_forbidden_allow_it(saved):
    text = json.loads((saved / DESCRIPTION).read_text())
    del text["rules"]["idle"]
    (saved / DESCRIPTION).write_text(json.dumps(text))
    assert OptionCheckpoint.load(saved).rules.idle == "allowed"


def test_policies_that_saw_other_columns_are_refused_in_one_line(saved):
    text = json.loads((saved / DESCRIPTION).read_text())
    (saved / DESCRIPTION).write_text(json.dumps(text | {"format": 1}))
    with pytest.raises(CheckpointError, match=r"face is 'options' in format 1; .* other columns\); .*train anew$"):
        OptionCheckpoint.load(saved)
