"""Imitation: agreement rises, the student's states are labelled, the clone schedules nearly as well as its teacher."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.methods.imitation import ImitationSettings, fit_epoch, imitation_loss
from agents.policies.options.demonstrations import OptionDemonstrator
from agents.policies.options.lesson import Lesson
from agents.policies.options.rows import Rows, gather_decisions
from agents.policies.options.scheduler import OptionScheduler
from agents.training import Trainer, TrainingSettings
from agents.validation import validate_scheduler
from baselines.fifo import Fifo
from baselines.srtf import Srtf
from envs.types import MurmurationError
from envs.workloads import SyntheticSource
from tests.unit.agents.worlds import QUICK_PPO, scorer, small_world

QUICK = ImitationSettings(passes=1, num_workloads=3, epochs=2, batch_size=32, record_fraction=1.0)


def silent(*_):
    """A listener that ignores its calls."""


def lesson_of(world, teacher, seeds=range(4), **play):
    """Everything that a scheduler decides on some workloads."""
    demonstrator, lessons = OptionDemonstrator(world.task(changes="move").batch(1), teacher()), []
    for seed in seeds:
        workload = world.source.episode(np.random.default_rng(seed))
        demonstrator.play([workload], [seed], **play)
        lessons.append(Lesson.of(demonstrator.tape, np.zeros(int(demonstrator.tape.arrays.counts[0]))))
    return Lesson.join(lessons)


def test_agreement_rises():
    lesson, net = lesson_of(small_world(), Srtf), scorer()
    optimizer, rng = torch.optim.Adam(net.parameters(), lr=3e-3), np.random.default_rng(0)
    told = [fit_epoch(net, optimizer, lesson, 32, rng) for _ in range(12)]
    assert told[-1]["agreement"] > told[0]["agreement"] + 0.05
    assert told[-1]["loss"] < 0.7 * told[0]["loss"]


def test_the_loss_is_that_of_single_decisions():
    lesson, net = lesson_of(small_world(), Srtf, range(1)), scorer()
    chosen, rows = np.arange(0, lesson.num_decisions, 3), Rows.of(lesson)
    found, equal = imitation_loss(net, lesson, rows, chosen)
    losses, agreeing = [], 0
    for decision in chosen.tolist():
        first, count = int(rows.options[decision]), int(lesson.num_options[decision])
        seen = gather_decisions(lesson, rows, np.array([decision]))
        scores = net.scores(seen).detach().double()
        losses.append(-float(scores.log_softmax(0)[lesson.chosen[decision]]))
        agreeing += int(scores[lesson.chosen[decision]] == scores.max())
        assert len(scores) == count
        assert torch.equal(seen.options, torch.from_numpy(lesson.options[first : first + count]))
    assert float(found.detach()) == pytest.approx(np.mean(losses), rel=1e-5)
    assert equal == agreeing


def test_states_of_the_student_are_labelled_by_the_teacher():
    """The more decisions a student takes, the more other states are recorded; one seed gives one result."""
    world, student = small_world(), scorer()
    alone, taught = (lesson_of(world, Fifo, [3], student=student, share=share) for share in (0.0, 1.0))
    assert alone.num_decisions != taught.num_decisions
    again = lesson_of(world, Fifo, [3], student=student, share=1.0)
    assert all(np.array_equal(one, other) for one, other in zip(taught, again, strict=True))
    mixed = lesson_of(world, Fifo, [3], student=student, share=0.5)
    assert mixed.num_decisions != taught.num_decisions


def test_runs_of_consecutive_seeds_and_passes_of_one_run_are_taught_on_different_workloads():
    drawn: list[bytes] = []

    class Noting(SyntheticSource):
        """Remembers all that it gives."""

        def episode(self, rng, split="train"):
            workload = super().episode(rng, split)
            drawn.append(workload.jobs["work"].tobytes())
            return workload

    tiny = small_world(num_jobs=4)
    world = replace(tiny, source=Noting(tiny.setup.cluster, tiny.setup.performance, num_jobs=4, max_gpus=4))

    def taught(seed):
        drawn.clear()
        replace(QUICK, passes=2, epochs=1).run(world.problem(), scorer(), Srtf, seed, silent)
        return list(drawn)

    first, again, second = taught(0), taught(0), taught(1)
    assert first == again
    assert len(set(first)) == len(first) == 6
    assert not set(first) & set(second)


def test_a_loss_that_is_no_number_is_told():
    net = scorer()
    with torch.no_grad():
        net.get_parameter("bias").fill_(float("nan"))
    with pytest.raises(MurmurationError, match="imitation: the loss is nan; training has diverged, lower") as error:
        QUICK.run(small_world().problem(), net, Srtf, 0, silent)
    assert "\n" not in str(error.value)


def test_it_reports_all_of_its_work():
    told = []
    settings = replace(QUICK, passes=2)
    settings.run(small_world().problem(), scorer(), Srtf, 0, lambda *report: told.append(report))
    assert [done for done, _, _ in told] == list(range(1, 2 * (3 + 2) + 1))
    assert {total for _, total, _ in told} == {10}
    assert sum(figures.get("env_steps", 0) for *_, figures in told) > 6 * 10, "a decision for each job at least"
    assert set(told[-1][2]) == {"loss", "agreement", "gradient_norm"}


def test_without_passes_nothing_is_taught(tmp_path):
    settings = TrainingSettings(
        QUICK_PPO,
        iterations=0,
        num_validation=1,
        picture_every=0,
        teacher="srtf",
        imitation=replace(QUICK, epochs=12),
    )
    off = replace(settings, imitation=replace(QUICK, passes=0))
    states = [
        Trainer(small_world().problem(), each, {"srtf": Srtf}, tmp_path / str(number), 0, Silence()).run()
        for number, each in enumerate((replace(settings, teacher="none"), off, settings))
    ]
    assert states[0].validation == states[1].validation != states[2].validation


class Silence:
    """A listener that hears nothing."""

    def phase(self, name, total):
        pass

    def step(self, done, figures):
        pass

    def note(self, text):
        pass


@pytest.mark.parametrize("teacher", [Fifo, Srtf])
def test_the_imitating_policy_comes_close_to_its_teacher(teacher):
    """The untrained network is well above the teacher's mean JCT, the trained one within a quarter of it."""
    world = small_world(num_nodes=2, num_jobs=15, num_evaluation=4)
    problem, net = world.problem(changes="move"), scorer(hidden=24)
    workloads = world.source.evaluation("validation")

    def mean_jct(scheduler):
        return validate_scheduler(scheduler, world.setup, workloads)["mean_jct"]

    untrained = mean_jct(OptionScheduler(net, problem.worlds[0].rules))
    ImitationSettings(passes=2, num_workloads=16, epochs=15, batch_size=64).run(problem, net, teacher, 0, silent)
    wanted, reached = mean_jct(teacher()), mean_jct(OptionScheduler(net, problem.worlds[0].rules))
    assert reached < 1.25 * wanted
    assert reached < untrained


@pytest.mark.parametrize(
    "wrong",
    [
        {"passes": -1},
        {"num_workloads": 0},
        {"epochs": 0},
        {"lr": 0.0},
        {"student_share": 1.5},
        {"record_fraction": 0.0},
    ],
)
def test_settings_that_make_no_sense_are_named(wrong):
    with pytest.raises(MurmurationError, match=f"imitation.{next(iter(wrong))} is") as error:
        ImitationSettings(**wrong)
    assert "\n" not in str(error.value)
