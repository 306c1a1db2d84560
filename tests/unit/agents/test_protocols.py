"""Networks from a user's module: one with only the required methods trains; one that breaks a protocol is refused."""

import sys
from dataclasses import replace

import pytest
import torch

from agents.methods.imitation import ImitationSettings
from agents.methods.ppo.algorithm import LocalAlgorithm
from agents.networks import Blueprint, NetworkError, check_network, critic_of, missing_protocols, sharpness_of
from agents.policies.checkpoint import Checkpoint
from agents.problems.choices import ChoiceProblem
from agents.training import Trainer, TrainingSettings
from baselines.fifo import Fifo
from envs.types import MurmurationError
from tests.unit.agents.worlds import PPO, SPEC, network, small_world

MODULE = '''
import torch
from torch import nn

class Minimal(nn.Module):
    """Scores every action from a node's own features; values from the cluster's."""

    def __init__(self, spec, wrong=""):
        super().__init__()
        self.wrong = wrong
        self.score = nn.Linear(spec.node_features, spec.num_actions)
        self.estimate = nn.Linear(spec.cluster_features, 1)

    def logits(self, observation):
        scores = self.score(observation["nodes"]).masked_fill(observation["mask"] == 0, -1e9)
        if self.wrong == "flat":
            return scores.flatten(1)
        if self.wrong == "double":
            return scores.double()
        if self.wrong == "infinite":
            return scores.masked_fill(observation["mask"] == 0, -torch.inf)
        if self.wrong == "unmasked":
            return self.score(observation["nodes"])
        if self.wrong == "numpy":
            return scores.detach().numpy()
        if self.wrong == "key":
            return observation["servers"]
        return scores

    def value(self, observation):
        estimate = self.estimate(observation["cluster"])
        if self.wrong == "column":
            return estimate
        if self.wrong == "squeezed":
            return estimate.squeeze()
        if self.wrong == "nan on empty":
            present = observation["queue"][..., 0]
            return (present * observation["queue"][..., 1]).sum(-1) / present.sum(-1)
        return estimate.squeeze(-1)

class NoValue(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.inner = Minimal(spec)

    def logits(self, observation):
        return self.inner.logits(observation)

class OddCritic(Minimal):
    critic = "harsh"

class OddSharpness(Minimal):
    sharpness = 2.0

class Complete(Minimal):
    def __init__(self, spec):
        super().__init__(spec)
        self.critic, self.estimate = self.estimate, None
        self.register_buffer("sharpness", torch.ones(()))

    def logits(self, observation):
        scores = self.score(observation["nodes"]) * self.sharpness
        return scores.masked_fill(observation["mask"] == 0, -1e9)

    def value(self, observation):
        return self.critic(observation["cluster"]).squeeze(-1)
'''


@pytest.fixture(autouse=True)
def foreign(tmp_path, monkeypatch):
    """A module outside of this project, as a user would write it."""
    (tmp_path / "their_networks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_networks", None)


def built(name, **options):
    return Blueprint(f"their_networks.{name}", options).build(SPEC)


class Notes:
    """A listener that keeps notes."""

    def __init__(self):
        self.notes = []

    def phase(self, name, total):
        pass

    def step(self, done, figures):
        pass

    def note(self, text):
        self.notes.append(text)


def trainer(folder, name, listener, settings=None, **options):
    settings = settings or TrainingSettings(
        iterations=1,
        num_validation=1,
        imitation=ImitationSettings(passes=1, steps=16, epochs=1, batch_size=16, sharpness=3.0),
        teacher="best",
        method=replace(PPO, critic_warmup=1),
    )
    blueprint = Blueprint(f"their_networks.{name}", options)
    return Trainer(ChoiceProblem(small_world(num_jobs=6), blueprint), settings, {"fifo": Fifo}, folder, 0, listener)


@pytest.mark.parametrize("make", [network, lambda: built("Minimal"), lambda: built("Complete")])
def test_networks_that_keep_to_the_protocol_pass_unchanged(make):
    """Weights, mode and torch's random state stay as they were."""
    net = make().train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    check_network(net, SPEC)
    assert torch.equal(torch.rand(3), expected)
    assert net.training
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


N, A = SPEC.num_nodes, SPEC.num_actions


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("flat", f"logits must return float32[2, {N}, {A}] (batch, nodes, actions) but returned float32[2, {N * A}]"),
        ("double", f"must return float32[2, {N}, {A}] (batch, nodes, actions) but returned float64[2, {N}, {A}]"),
        ("numpy", f"must return float32[2, {N}, {A}] (batch, nodes, actions) but returned ndarray"),
        ("infinite", "logits must return finite numbers"),
        ("unmasked", "logits gives masked actions a probability of up to"),
        ("key", "for a batch of 2 but failed (KeyError: 'servers')"),
        ("column", "value must return float32[2] (batch) but returned float32[2, 1]"),
        ("squeezed", "value must return float32[1] (batch) but returned float32[]"),
        ("nan on empty", "value must return finite numbers, float32[2] (batch), but 1 of 2 are not (the first is nan)"),
    ],
)
def test_a_broken_network_is_refused_in_one_line(wrong, says):
    with pytest.raises(NetworkError) as error:
        check_network(built("Minimal", wrong=wrong), SPEC)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("network their_networks.Minimal: PolicyNetwork.")
    assert says in message
    assert issubclass(NetworkError, MurmurationError)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("NoValue", "PolicyNetwork.value is missing; add a method value(observation) that returns float32[2] (batch)"),
        ("OddCritic", "SeparateCritic.critic must be a torch.nn.Module but is a str"),
        ("OddSharpness", "AdjustableSharpness.sharpness must be a buffer of one float but is a float"),
    ],
)
def test_a_missing_method_and_odd_attributes_are_named(name, says):
    with pytest.raises(NetworkError) as error:
        check_network(built(name), SPEC)
    assert f"network their_networks.{name}: {says}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", ["flat", "column"])
def test_a_broken_network_stops_a_run_before_anything_is_started(tmp_path, monkeypatch, wrong):
    monkeypatch.setattr("agents.methods.ppo.algorithm.LocalAlgorithm", None)  # it would raise a TypeError
    listener = Notes()
    with pytest.raises(NetworkError, match="PolicyNetwork"):
        trainer(tmp_path / "run", "Minimal", listener, wrong=wrong).run()
    assert listener.notes == []
    assert not (tmp_path / "run" / "state.json").exists()


def test_a_minimal_network_trains_and_one_note_says_how(tmp_path):
    listener = Notes()
    state = trainer(tmp_path / "run", "Minimal", listener).run()
    assert state.iteration == 1
    notes = [note for note in listener.notes if "their_networks.Minimal" in note]
    assert notes == listener.notes[:1]
    assert "lacks SeparateCritic (submodule `critic`), so all weights learn with ppo.lr" in notes[0]
    assert "; and AdjustableSharpness (buffer `sharpness`), so imitation.sharpness is ignored" in notes[0]
    assert Checkpoint.load(tmp_path / "run", ["their_networks.Minimal"]).blueprint.target == "their_networks.Minimal"


def test_a_complete_network_is_used_like_our_own_without_a_note(tmp_path):
    listener = Notes()
    trainer(tmp_path / "run", "Complete", listener).run()
    assert not any("lacks" in note for note in listener.notes)
    checkpoint = Checkpoint.load(tmp_path / "run" / "checkpoints" / "last", ["their_networks.Complete"])
    assert float(checkpoint.network.get_buffer("sharpness")) == 3.0


def test_only_optional_protocols_that_training_would_use_are_reported():
    """Group advantages use no critic; without a teacher there is no imitation to sharpen."""
    net = built("Minimal")
    assert len(missing_protocols(net, imitates=True, learns_values=True)) == 2
    assert "SeparateCritic" in missing_protocols(net, imitates=False, learns_values=True)[0]
    assert "AdjustableSharpness" in missing_protocols(net, imitates=True, learns_values=False)[0]
    assert not missing_protocols(net, imitates=False, learns_values=False)
    assert not missing_protocols(network(), imitates=True, learns_values=True)


@pytest.mark.parametrize(("name", "optimizers"), [("Minimal", ["policy"]), ("Complete", ["critic", "policy"])])
def test_a_separate_critic_gets_an_optimizer_of_its_own(name, optimizers):
    blueprint = Blueprint(f"their_networks.{name}")
    algorithm = LocalAlgorithm(small_world(), blueprint, PPO, seed=0)
    names = sorted(name.removeprefix("default_policy_") for name in algorithm._learner._named_optimizers)
    assert names == optimizers
    algorithm.stop()


def test_optional_protocols_are_found_on_our_own_network():
    net = network(sharpness=2.5)
    assert critic_of(net) is net.critic
    assert sharpness_of(net) is net.sharpness
    assert critic_of(built("Minimal")) is None
    assert sharpness_of(built("Minimal")) is None
