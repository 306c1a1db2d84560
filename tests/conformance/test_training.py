"""A short training run: its files, how it is resumed, and its policy as agents and as a scheduler."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.methods.imitation import ImitationSettings
from agents.policies.checkpoint import find_checkpoint
from agents.policies.options.checkpoint import OptionCheckpoint
from agents.policies.options.playing import Player
from agents.tags import BOUND_LINE, ENV_STEPS, HEADLINE, LENGTH, RETURN
from agents.training import Trainer, TrainingSettings
from agents.validation import VALIDATION_SEED
from baselines.fifo import Fifo
from baselines.srtf import Srtf
from envs.evaluation.playing import workload_seed
from envs.options import OptionBatch
from envs.simulation import Information, Scenario, Simulator, run_episode
from envs.types import CheckpointError, MurmurationError
from envs.workloads import SyntheticSource
from tests.unit.agents.curves import scalars
from tests.unit.agents.worlds import QUICK_PPO, small_world

WORLD = small_world(num_jobs=10, num_evaluation=2)
SETTINGS = TrainingSettings(
    iterations=2,
    validate_every=1,
    num_validation=2,
    num_compared=1,
    imitation=ImitationSettings(passes=1, num_workloads=2, epochs=1, batch_size=32),
    teacher="best",
    picture_every=0,
    method=QUICK_PPO,
)
BASELINES = {"fifo": Fifo, "srtf": Srtf}


class Told:
    """A listener that records calls, and interrupts at a given step of a given phase."""

    def __init__(self, phase="", at=0):
        self.stop_in, self.stop_at = phase, at
        self.phases, self.notes, self.steps, self.figures = [], [], [], []

    def phase(self, name, total):
        self.phases.append(name)

    def step(self, done, figures):
        self.steps.append((self.phases[-1], done))
        self.figures.append(dict(figures))
        if self.stop_in == self.phases[-1] and done >= self.stop_at:
            raise KeyboardInterrupt

    def note(self, text):
        self.notes.append(text)


def trainer(folder, settings=SETTINGS, listener=None, seed=0, world=WORLD, baselines=None):
    known = BASELINES if baselines is None else baselines
    return Trainer(world.problem(), settings, known, folder, seed, listener or Told())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(folder, listener, state) of one finished run, the only one here that draws pictures."""
    folder, told = tmp_path_factory.mktemp("training") / "run", Told()
    return folder, told, trainer(folder, replace(SETTINGS, picture_every=20), told).run()


def weights_of(folder):
    return OptionCheckpoint.load(find_checkpoint(folder)).network.state_dict()


def equal(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_leaves_its_files(run):
    folder, _, state = run
    for name in ("best", "last"):
        assert {path.name for path in (folder / "checkpoints" / name).iterdir()} == {
            "policy.json",
            "weights.safetensors",
        }
    states = sorted((folder / "checkpoints" / "states").iterdir())
    assert [path.name for path in states] == ["iteration_0000000", "iteration_0000001", "iteration_0000002"]
    for path in states:
        assert {each.name for each in path.iterdir()} == {"learner.pkl", "manifest.json", "state.json"}
    assert not list(folder.rglob("*.part*"))
    kept = json.loads((folder / "state.json").read_text())
    assert kept["iteration"] == 2
    assert kept["seed"] == 0
    assert set(kept["validation"]) == {"0", "1", "2"}
    assert set(kept["baselines"]) == {"fifo", "srtf"}
    assert kept["teacher"] == state.teacher == min(BASELINES, key=lambda name: kept["baselines"][name]["mean_jct"])


def test_the_listener_hears_of_every_phase(run):
    _, told, state = run
    assert told.phases == ["baselines", "imitation", "group_ppo"]
    assert [step for step in told.steps if step[0] == "baselines"] == [("baselines", 1), ("baselines", 2)]
    assert [step for step in told.steps if step[0] == "group_ppo"] == [("group_ppo", 1), ("group_ppo", 2)]
    assert told.figures[-1]["validated"] == state.validation["2"]["tiny"]["compared_cost"]
    assert any(f"teacher: {state.teacher}" in note for note in told.notes)


def test_curves_of_the_policy_and_level_lines_of_the_baselines(run):
    folder, _, state = run
    drawn = scalars(folder / "tensorboard" / "policy")
    for tag in ("policy_loss", "entropy", "kl", "clip_fraction", "advantage_spread", "lr"):
        assert [step for step, _ in drawn[f"learner/{tag}"]] == [1, 2]
        assert np.isfinite([value for _, value in drawn[f"learner/{tag}"]]).all()
    assert {"train/mean_jct", "train/makespan", "throughput/steps_per_second", LENGTH} <= set(drawn)
    steps = sum(value for _, value in drawn[ENV_STEPS])
    assert drawn["progress/env_steps"][-1][1] == pytest.approx(drawn["progress/env_steps"][0][1] + steps)
    assert drawn["progress/env_steps"][0][1] > 0, "those of imitation"
    episodes = QUICK_PPO.num_episodes
    assert steps == pytest.approx(episodes * sum(value for _, value in drawn[LENGTH]))
    for _, value in drawn[RETURN]:
        assert value < 0
    curve = [state.validation[str(step)]["tiny"]["mean_jct"] for step in range(3)]
    assert [value for _, value in drawn["validation/tiny/mean_jct"]] == pytest.approx(curve, rel=1e-5)
    curve = [state.validation[str(step)]["tiny"]["compared_cost"] for step in range(3)]  # where baselines play too
    assert [value * 3600 for _, value in drawn[HEADLINE]] == pytest.approx(curve, rel=1e-5)
    (bound, *_) = scalars(folder / "tensorboard" / BOUND_LINE)[HEADLINE]
    assert 0 < bound[1] * 3600 < min(curve)
    for name in BASELINES:
        level = scalars(folder / "tensorboard" / name)[HEADLINE]
        assert [step for step, _ in level] == [0, 2]
        assert [value * 3600 for _, value in level] == pytest.approx([state.baselines[name]["mean_jct"]] * 2, rel=1e-5)


def test_the_best_checkpoint_is_the_one_with_the_lowest_validation(run):
    folder, _, state = run
    figures = {int(step): told["tiny"]["mean_jct"] for step, told in state.validation.items()}
    assert state.best_iteration == min(figures, key=lambda step: (figures[step], step))
    best = OptionCheckpoint.load(find_checkpoint(folder))
    assert best.notes["iteration"] == state.best_iteration
    assert best.notes["num_validation"] == 2
    workloads = [WORLD.source.episode(np.random.default_rng(i), "validation") for i in range(2)]
    seeds = [workload_seed(VALIDATION_SEED, i) for i in range(2)]
    player = Player(WORLD.task().under(best.rules).batch(2))
    again = player.play(workloads, best.network, seeds, temperature=best.notes["temperature"])
    assert again.mean() == pytest.approx(state.validation[str(state.best_iteration)]["tiny"]["mean_jct"])


@pytest.mark.parametrize(("imitated", "reported"), [(160.0, True), (140.0, False)])
def test_a_policy_much_worse_than_its_teacher_after_imitation_is_reported(tmp_path, monkeypatch, imitated, reported):
    """Once, when imitation is over; the teacher's mean JCT is 100 s."""
    listener = Told()
    figures = dict.fromkeys(("greedy", "sampled", "mean_jct", "cost", "compared_cost"), imitated)
    monkeypatch.setattr("agents.problems.options.OptionProblem._figures", lambda *_: figures)
    known = {name: {"num_starved": 0.0, "mean_jct": 100.0} for name in BASELINES}
    monkeypatch.setattr("agents.training.validate_baselines", lambda *_: known)
    trainer(tmp_path, replace(SETTINGS, iterations=1, teacher="fifo"), listener).run()
    notes = [
        note
        for note in listener.notes
        if "has not learnt fifo: the policy's mean JCT is 160 s, the teacher's 100 s" in note
    ]
    assert len(notes) == reported


class OneEpisode(SyntheticSource):
    """Gives the same jobs at every draw of validation."""

    def episode(self, rng, split="train"):
        return super().episode(np.random.default_rng(0) if split == "validation" else rng, split)


def test_a_split_of_one_workload_is_validated_on_once_and_said_so(tmp_path):
    listener = Told()
    world = replace(WORLD, source=OneEpisode(WORLD.setup.cluster, WORLD.setup.performance, num_jobs=10, max_gpus=4))
    state = trainer(tmp_path, replace(SETTINGS, iterations=0), listener, world=world).run()
    assert listener.notes[0] == "validation uses 1 distinct workloads, not 2: there are no more"
    assert "best baseline on 1 validation workload: " in listener.notes[1]
    assert state.num_validation == OptionCheckpoint.load(find_checkpoint(tmp_path)).notes["num_validation"] == 1


def test_a_run_is_not_resumed_on_other_validation_workloads(run, tmp_path):
    shutil.copytree(run[0] / "checkpoints" / "states", tmp_path / "checkpoints" / "states")
    with pytest.raises(CheckpointError, match="was validated on 2 workloads, this run would use 3; keep") as error:
        trainer(tmp_path, replace(SETTINGS, num_validation=3)).run()
    assert "\n" not in str(error.value)


def test_the_same_seed_gives_the_same_run(run, tmp_path):
    folder, _, state = run
    again = trainer(tmp_path / "again").run()
    assert again.validation == state.validation
    assert equal(weights_of(folder / "checkpoints" / "last"), weights_of(tmp_path / "again" / "checkpoints" / "last"))
    other = trainer(tmp_path / "other", replace(SETTINGS, iterations=0), seed=1).run()
    assert other.validation["0"] != state.validation["0"]


def test_the_same_run_with_more_iterations_continues_where_it_ended(run, tmp_path):
    folder, _, state = run
    copied = tmp_path / "copy"
    copied.mkdir()
    for path in folder.rglob("*"):
        target = copied / path.relative_to(folder)
        target.mkdir(parents=True) if path.is_dir() else target.write_bytes(path.read_bytes())
    told = Told()
    longer = trainer(copied, replace(SETTINGS, iterations=3), told).run()
    assert told.phases == ["group_ppo"]
    assert told.notes == ["resumed after iteration 2"]
    assert told.steps == [("group_ppo", 3)]
    assert {step: longer.validation[step] for step in state.validation} == state.validation
    assert longer.iteration == 3


@pytest.mark.parametrize("validate_every", [1, 5])
def test_an_interrupted_run_can_be_resumed(run, tmp_path, validate_every):
    settings = replace(SETTINGS, validate_every=validate_every)
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, settings, Told("group_ppo", 1)).run()
    assert json.loads((tmp_path / "state.json").read_text())["iteration"] == 1
    left = weights_of(tmp_path / "checkpoints" / "last")
    told = Told()
    going_on = trainer(tmp_path, settings, told)
    resumed = {}
    improve = going_on._improve
    going_on._improve = lambda algorithm: (resumed.update(algorithm.network().state_dict()), improve(algorithm))
    assert going_on.run().iteration == 2
    assert told.steps == [("group_ppo", 2)]
    assert equal(left, resumed)
    if validate_every == 1:
        last = weights_of(tmp_path / "checkpoints" / "last")
        assert equal(last, weights_of(run[0] / "checkpoints" / "last"))


def test_a_run_interrupted_before_its_first_checkpoint_starts_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, listener=Told("imitation")).run()
    assert not (tmp_path / "state.json").exists()
    told = Told()
    trainer(tmp_path, replace(SETTINGS, iterations=0), told).run()
    assert told.phases == ["baselines", "imitation", "group_ppo"]


def test_from_scratch_no_teacher_and_no_baseline_is_needed(tmp_path):
    told = Told()
    settings = replace(SETTINGS, teacher="none", iterations=1)
    state = trainer(tmp_path, settings, told, baselines={}).run()
    assert (state.teacher, state.baselines, state.iteration) == ("none", {}, 1)
    assert "imitation" not in told.phases
    assert "baseline" not in told.figures[-1]


def test_a_baseline_that_cannot_run_here_is_noted_and_not_the_teacher(tmp_path):
    told = Told()
    setup = replace(WORLD.setup, scenario=Scenario(information=Information("none")))
    state = trainer(tmp_path, replace(SETTINGS, iterations=0), told, world=replace(WORLD, setup=setup)).run()
    assert state.teacher == "fifo"
    assert any(note.startswith("srtf is skipped: ") for note in told.notes)


def test_an_unknown_teacher_is_refused(tmp_path):
    with pytest.raises(MurmurationError, match=r"'sertf'; it must be best, none or one of fifo, srtf"):
        trainer(tmp_path, replace(SETTINGS, teacher="sertf"))


def test_the_trained_policy_leaves_the_same_log_in_the_environment_and_as_a_scheduler(run):
    """Played in the environment that training uses, and evaluated as a scheduler."""
    best = OptionCheckpoint.load(find_checkpoint(run[0]))
    for seed, workload in enumerate(WORLD.source.evaluation("test")):
        batch = OptionBatch(WORLD.setup, workload.models, len(workload), rules=best.rules, logging=True)
        Player(batch).play([workload], best.network, [seed], temperature=0.0)
        horizon = float(batch.state.episode["horizon"][0, 0])
        setup = replace(WORLD.setup, scenario=replace(WORLD.setup.scenario, horizon=horizon))
        result = run_episode(best.scheduler(temperature=0.0), Simulator(workload, setup, seed))
        assert batch.state.log(0) == result.log
        assert batch.counters() == result.counters
