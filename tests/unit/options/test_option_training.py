"""Training from nothing: it learns, resumes to the bit, and its checkpoint is read again."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from agents.methods.group_ppo import GroupPPOSettings
from agents.networks import Blueprint
from agents.policies.options.checkpoint import OptionCheckpoint
from agents.problems.options import OptionProblem, OptionSetup, OptionTask
from agents.training import STATE, STATES, Trainer, TrainingSettings
from baselines.fifo import Fifo
from baselines.srtf import Srtf
from envs.episodes.worlds import WorldDistribution
from envs.options import OptionRules
from envs.types import CheckpointError, MurmurationError
from tests.unit.options.tasks import small_task

METHOD = GroupPPOSettings(num_workloads=4, group_size=4, num_minibatches=2, lr=1e-2, iterations=4, start_only=0.5)
SETTINGS = TrainingSettings(METHOD, iterations=4, validate_every=2, num_validation=6, picture_every=0)
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


def problem_of(*tasks: OptionTask) -> OptionProblem:
    return OptionProblem(tasks or (small_task("move"),), BLUEPRINT)


def train(folder: Path, settings: TrainingSettings = SETTINGS, problem: OptionProblem | None = None, **baselines):
    listener = Quiet()
    trainer = Trainer(problem or problem_of(), settings, baselines, folder, 1, listener)
    return trainer.run(), listener.notes


def test_a_run_leaves_checkpoints_that_are_read_again(tmp_path):
    state, notes = train(tmp_path, fifo=Fifo, srtf=Srtf)
    assert sorted(map(int, state.validation)) == [0, 2, 4]
    assert any("CPU-s: mean JCT" in note and "passed:" in note for note in notes)
    checkpoint = OptionCheckpoint.load(tmp_path / "checkpoints" / "best")
    assert checkpoint.notes["iteration"] == state.best_iteration
    assert checkpoint.scheduler().rules == checkpoint.rules
    assert OptionCheckpoint.load(tmp_path / "checkpoints" / "last").rules.changes == "move"
    assert json.loads((tmp_path / STATE).read_text())["iteration"] == 4


def test_baselines_that_another_seed_has_measured_are_not_played_again(tmp_path):
    played = []

    def make():
        played.append("fifo")
        return Fifo()

    measured = {"mean_jct": 7.0, "num_starved": 0.0}
    trainer = Trainer(problem_of(), SETTINGS, {"fifo": make, "srtf": make}, tmp_path, 1, Quiet())
    trainer.measured = {"srtf": measured}
    assert trainer.run().baselines["srtf"] == measured
    assert played == ["fifo"]


def test_states_are_saved_every_few_iterations_and_at_validations(tmp_path):
    settings = dataclasses.replace(SETTINGS, iterations=4, validate_every=3, save_every=2)
    train(tmp_path, settings)
    saved = sorted(int(path.name.removeprefix("iteration_")) for path in (tmp_path / STATES).iterdir())
    assert saved == [2, 3, 4]


def test_jobs_are_only_started_at_first_and_a_checkpoint_says_so(tmp_path):
    train(tmp_path, dataclasses.replace(SETTINGS, iterations=2))
    assert OptionCheckpoint.load(tmp_path / "checkpoints" / "last").rules.changes == "start"


def test_training_draws_from_several_tasks(tmp_path):
    tasks = [dataclasses.replace(small_task("move", num_nodes=nodes), name=f"nodes-{nodes}") for nodes in (2, 3)]
    state, _ = train(tmp_path, problem=problem_of(*tasks))
    assert set(state.latest) == {"nodes-2", "nodes-3"}


def test_each_workload_is_played_in_a_world_of_its_own(tmp_path):
    worlds = WorldDistribution(nodes=(2, 3), gpus_of_node=(2, 4), largest=4, validation=(0, 1), test=())
    tasks = [OptionTask(*worlds.world(number), OptionRules(changes="move")) for number in worlds.validation]
    problem = OptionProblem(tasks, BLUEPRINT, worlds)
    setup = OptionSetup.of(problem, METHOD, problem.build(0, None), 1)
    drawn = [setup.draw(iteration, number) for iteration in range(2) for number in range(4)]
    assert len({task.name for task, *_ in drawn}) == 8
    assert {task.rules for task, *_ in drawn} == {OptionRules(changes="start")}, "in the first half of the run"
    assert [setup.world_of(number) for number in range(4)] == [0, 1, 2, 3]
    state, _ = train(tmp_path, SETTINGS, problem, fifo=Fifo)
    assert sorted(map(int, state.validation)) == [0, 2, 4]
    assert OptionCheckpoint.load(tmp_path / "checkpoints" / "best").notes["tasks"] == ["world-0", "world-1"]


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
    OptionCheckpoint(problem_of(task).build(0, None), BLUEPRINT, task.rules, {"temperature": 0.0}).save(tmp_path)
    manifest = json.loads((tmp_path / "policy.json").read_text())
    (tmp_path / "policy.json").write_text(json.dumps({**manifest, field: value}))
    with pytest.raises(CheckpointError, match=text) as caught:
        OptionCheckpoint.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("group_size", 1), ("num_workloads", 0), ("horizon", 0.0), ("lr", -1.0), ("num_decisions", 0)],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(MurmurationError, match=f"group_ppo.{name}"):
        GroupPPOSettings(**{name: value})
