"""Training from nothing: it learns, resumes to the bit, and its checkpoint is read again."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from agents.networks import Blueprint
from agents.options import GroupPPOSettings, OptionTrainer, OptionTrainingSettings
from agents.policies.options.checkpoint import OptionCheckpoint, chooses_options
from agents.methods.group_ppo.learning import GroupSetup, LocalGroupPPO, OptionTask
from agents.options.training import STATE
from agents.problems.option_validation import Validation
from baselines.fifo import Fifo
from baselines.srtf import Srtf
from envs.episodes import Elapsed
from envs.types import CheckpointError, MurmurationError
from tests.unit.options.tasks import small_task

METHOD = GroupPPOSettings(num_workloads=4, group_size=4, num_minibatches=2, lr=1e-2)
SETTINGS = OptionTrainingSettings(
    iterations=4, validate_every=2, save_every=1, num_validation=6, num_compared=6, group_ppo=METHOD
)
BLUEPRINT = Blueprint("agents.networks.option_scorer.OptionScorer", {"hidden": 8})


class Quiet:
    """A listener that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def phase(self, name, total):
        pass

    def step(self, done, figures):
        pass

    def note(self, text):
        self.notes.append(text)


def setup_of(task: OptionTask | None = None, settings: GroupPPOSettings = METHOD, iterations: int = 4) -> GroupSetup:
    return GroupSetup((task or small_task(),), BLUEPRINT, settings, seed=1, iterations=iterations)


def train(folder, settings=SETTINGS, **rest):
    listener = Quiet()
    trainer = OptionTrainer(setup_of(settings=settings.group_ppo, iterations=4), settings, folder, listener, **rest)
    return trainer.run(), listener.notes


def mean_jct_after(task: OptionTask, iterations: int) -> float:
    """Mean JCT over 16 validation workloads, with sampled choices, after so many iterations."""
    algorithm = LocalGroupPPO(setup_of(task, iterations=40))
    for _ in range(iterations):
        algorithm.train()
    found = Validation(task, 16).figures(algorithm.network())["sampled"]
    algorithm.stop()
    return found


def test_a_policy_learns_from_random_weights():
    task = small_task(num_jobs=30)
    assert mean_jct_after(task, 40) < 0.9 * mean_jct_after(task, 0)


def test_a_reward_of_ones_own_is_what_is_learnt_from():
    """With the opposite reward the policy becomes worse."""

    def rewarding_delay(elapsed: Elapsed):
        return elapsed.job_seconds

    task = small_task(num_jobs=30, reward=rewarding_delay)
    assert mean_jct_after(task, 40) > 1.1 * mean_jct_after(task, 0)


def test_a_run_leaves_checkpoints_that_are_read_again(tmp_path):
    state, notes = train(tmp_path, baselines={"fifo": Fifo, "srtf": Srtf})
    assert sorted(map(int, state.validation)) == [0, 2, 4]
    assert len(state.cpu_time) == 4
    assert any("CPU-s: mean JCT" in note and "passed:" in note for note in notes)
    for name in ("best", "last"):
        assert chooses_options(tmp_path / "checkpoints" / name)
    checkpoint = OptionCheckpoint.load(tmp_path / "checkpoints" / "best")
    assert checkpoint.notes["iteration"] == state.best_iteration
    assert checkpoint.rules == small_task().rules
    assert json.loads((tmp_path / STATE).read_text())["iteration"] == 4


def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path):
    whole, _ = train(tmp_path / "whole")
    train(tmp_path / "parts", dataclasses.replace(SETTINGS, iterations=2))
    parts, notes = train(tmp_path / "parts")
    assert "resumed after iteration 2" in notes
    assert parts == whole
    first, second = (
        OptionCheckpoint.load(tmp_path / each / "checkpoints" / "last").network for each in ("whole", "parts")
    )
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("network", {"target": "os.system", "options": {}}, "no network of this project"),
        ("rules", {"changes": "everything"}, "rules.changes"),
        ("rules", {"num_candidates": 0}, "rules.num_candidates"),
        ("notes", {"temperature": "hot"}, "notes.temperature"),
        ("notes", {"temperature": -1}, "notes.temperature"),
        ("face", "bidding", "its face is"),
    ],
)
def test_a_damaged_manifest_is_refused_in_one_line(tmp_path, field, value, text):
    task = small_task()
    OptionCheckpoint(setup_of(task).build(), BLUEPRINT, task.rules, {"temperature": 0.0}).save(tmp_path)
    manifest = json.loads((tmp_path / "policy.json").read_text())
    (tmp_path / "policy.json").write_text(json.dumps({**manifest, field: value}))
    with pytest.raises(CheckpointError, match=text) as caught:
        OptionCheckpoint.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("group_size", 1), ("num_workloads", 0), ("horizon", 0.0), ("lr", -1.0), ("record_fraction", 0.0)],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(MurmurationError, match=f"group_ppo.{name}"):
        GroupPPOSettings(**{name: value})
