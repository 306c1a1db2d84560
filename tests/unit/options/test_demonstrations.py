"""Demonstrations play as their scheduler does, and every decision with several options is recorded."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from agents.policies.options.demonstrations import OptionDemonstrator
from agents.policies.options.lesson import Lesson
from baselines.afs import Afs
from baselines.srtf import Srtf
from envs.metrics import job_completion_times
from envs.options import OptionBatch, OptionRules
from envs.options.columns import ACTION_NAMES
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.workloads import Workload
from tests.unit.agents.worlds import small_world

ANYTHING_GOES = OptionRules(changes="move", num_candidates=32, max_decisions=999, distinct_nodes=False)
SEEDS = (3, 4)


def demonstrator(teacher: Scheduler, **scenario: object) -> tuple[OptionDemonstrator, Sequence[Workload], Setup]:
    """The demonstrator, two workloads and their setup; the horizon is the same for both faces."""
    world = small_world(num_nodes=2, num_evaluation=2, scenario=Scenario(horizon=1e7))
    workloads = world.source.evaluation("validation")
    models, size = workloads[0].models, max(len(workload) for workload in workloads)
    return OptionDemonstrator(OptionBatch(world.setup, models, size, 2, ANYTHING_GOES), teacher), workloads, world.setup


@pytest.mark.parametrize("teacher", [Afs(), Srtf()])
def test_episodes_end_as_under_the_scheduler_itself(teacher):
    shown, workloads, setup = demonstrator(teacher)
    found = shown.play(workloads, SEEDS)
    for jct, workload in zip(found, workloads, strict=True):
        alone = run_episode(teacher, Simulator(workload, setup))
        assert jct == pytest.approx(job_completion_times(alone.records).mean(), rel=1e-12)


def test_every_decision_is_recorded_with_what_was_chosen():
    shown, workloads, _ = demonstrator(Afs())
    shown.play(workloads, SEEDS)
    lesson = Lesson.of(shown.tape, np.zeros(int(shown.tape.arrays.counts[0])))
    assert lesson.num_decisions == sum(shown.batch.counters(b)["decisions"] for b in range(2))
    assert (lesson.chosen < lesson.num_options).all()
    first = np.cumsum(lesson.num_options) - lesson.num_options
    chosen = lesson.options[first + lesson.chosen]
    actions = Counter(ACTION_NAMES[action] for action in chosen[:, : len(ACTION_NAMES)].argmax(1).tolist())
    assert actions["start"] >= sum(len(workload) for workload in workloads)
    assert actions["wait"] > 0
    assert actions["resize"] > 0


def test_a_part_of_the_decisions_is_recorded():
    shown, workloads, _ = demonstrator(Afs())
    whole = shown.play(workloads, SEEDS)
    every = shown.tape.arrays.counts.copy()
    assert shown.play(workloads, SEEDS, fraction=0.25).tolist() == whole.tolist()
    part = shown.tape.arrays.counts
    assert part[0] == every[0]
    assert 0 < part[1] < every[1] / 2
