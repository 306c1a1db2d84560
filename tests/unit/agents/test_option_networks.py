"""Networks of a user for options: one with the only required method trains; one that breaks the form is refused."""

import sys

import pytest
import torch

from agents.networks import Blueprint, NetworkError, check_option_network
from agents.policies.checkpoint import find_checkpoint
from agents.policies.options.checkpoint import OptionCheckpoint
from agents.training import Trainer, TrainingSettings
from baselines.fifo import Fifo
from envs.options import OptionSpec
from envs.types import MurmurationError
from tests.unit.agents.worlds import QUICK_PPO, scorer, small_world

MODULE = '''
import torch
from torch import nn

class Minimal(nn.Module):
    """Scores an option by its own features and those of its job."""

    def __init__(self, spec, wrong=""):
        super().__init__()
        self.wrong = wrong
        self.option = nn.Linear(spec.option_features, 1)
        self.job = nn.Linear(spec.job_features, 1)

    def scores(self, decisions):
        jobs = torch.cat((self.job(decisions.jobs), torch.zeros(1, 1)))
        scores = self.option(decisions.options) + jobs[decisions.job_of]
        if self.wrong == "column":
            return scores
        if self.wrong == "double":
            return scores.squeeze(-1).double()
        if self.wrong == "numpy":
            return scores.squeeze(-1).detach().numpy()
        if self.wrong == "attribute":
            return decisions.servers
        return scores.squeeze(-1)

class Silent(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.inner = nn.Linear(spec.option_features, 1)
'''


@pytest.fixture(autouse=True)
def foreign(tmp_path, monkeypatch):
    """A module outside of this project, as a user would write it."""
    (tmp_path / "their_networks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_networks", None)


def built(name, **options):
    return Blueprint(f"their_networks.{name}", options).build(OptionSpec())


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


def trainer(folder, name, listener, **options):
    settings = TrainingSettings(QUICK_PPO, iterations=1, num_validation=1, picture_every=0)
    problem = small_world(num_jobs=6).problem(Blueprint(f"their_networks.{name}", options))
    return Trainer(problem, settings, {"fifo": Fifo}, folder, 0, listener)


@pytest.mark.parametrize("make", [scorer, lambda: built("Minimal")])
def test_networks_that_score_options_pass_unchanged(make):
    """Weights, mode and torch's random state stay as they were."""
    net = make().train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    check_option_network(net, OptionSpec())
    assert torch.equal(torch.rand(3), expected)
    assert net.training
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("column", "must return float32[6] (options of all decisions) but returned float32[6, 1]"),
        ("double", "must return float32[6] (options of all decisions) but returned float64[6]"),
        ("numpy", "must return float32[6] (options of all decisions) but returned ndarray"),
        ("attribute", "but failed (AttributeError: 'Decisions' object has no attribute 'servers')"),
    ],
)
def test_a_broken_network_is_refused_in_one_line(wrong, says):
    with pytest.raises(NetworkError) as error:
        check_option_network(built("Minimal", wrong=wrong), OptionSpec())
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("network their_networks.Minimal: scores ")
    assert says in message
    assert issubclass(NetworkError, MurmurationError)


def test_numbers_that_are_none_are_refused():
    net = built("Minimal")
    with torch.no_grad():
        net.get_parameter("job.bias").fill_(float("nan"))
    with pytest.raises(NetworkError, match=r"must return finite numbers, .* but 4 of 6 are not \(the first is nan\)"):
        check_option_network(net, OptionSpec())


def test_a_missing_method_is_named(tmp_path):
    with pytest.raises(NetworkError, match=r"scores is missing; add a method scores that returns float32\[6\]"):
        check_option_network(built("Silent"), OptionSpec())
    with pytest.raises(
        MurmurationError, match=r"their_networks.Silent does not score options: it has no method scores"
    ):
        trainer(tmp_path, "Silent", Notes())


def test_a_broken_network_stops_a_run_before_anything_is_started(tmp_path):
    listener = Notes()
    with pytest.raises(NetworkError, match="scores"):
        trainer(tmp_path / "run", "Minimal", listener, wrong="column").run()
    assert listener.notes == []
    assert not (tmp_path / "run" / "state.json").exists()


def test_a_minimal_network_trains(tmp_path):
    state = trainer(tmp_path / "run", "Minimal", Notes()).run()
    assert state.iteration == 1
    best = OptionCheckpoint.load(find_checkpoint(tmp_path / "run"), ["their_networks.Minimal"])
    assert best.blueprint.target == "their_networks.Minimal"
