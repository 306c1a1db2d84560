"""Lucid's pairs on schedules worked by hand; a light job keeps 0.75 beside another one, a heavy one 0.5."""

from dataclasses import replace

import numpy as np
import pytest

from baselines import Lucid
from baselines.lucid import JUMBO, MEDIUM, TINY
from envs.evaluation.audit import Audit
from envs.simulation import EventKind, Simulator, run_episode
from envs.types import MurmurationError
from tests.conformance.random_worlds import random_world
from tests.golden.playground import times
from tests.unit.baselines.test_packing import played


def lucid(**options) -> Lucid:
    """Light jobs are Medium, heavy ones Jumbo."""
    return Lucid(**{"medium": 0.8, "jumbo": 0.6, **options})


def test_two_medium_jobs_share():
    """Two light jobs, 1 + 1: 0.75 samples/s each, 30 samples by 40."""
    assert times(played(lucid(), ("light", 30.0, 1), ("light", 30.0, 1))) == [(0, 40), (0, 40)]


def test_jobs_whose_scores_add_up_to_more_wait():
    """A light and a heavy job, 1 + 2: one after the other, the one with less GPU time first."""
    assert times(played(lucid(), ("light", 40.0, 1), ("heavy", 30.0, 1))) == [(30, 70), (0, 30)]


def test_by_default_what_keeps_less_than_its_scores_allow_is_jumbo():
    assert times(played(Lucid(), ("light", 30.0, 1), ("light", 30.0, 1))) == [(0, 30), (30, 60)]


def test_a_job_with_gpus_of_its_own_does_not_share():
    assert times(played(lucid(), ("light", 30.0, 1), ("light", 30.0, 1), gpus=2)) == [(0, 30), (0, 30)]


def test_jobs_of_other_sizes_wait():
    rows = (("light", 60.0, 2), ("light", 70.0, 1))
    assert times(played(lucid(), *rows, gpus=2)) == [(0, 30), (30, 100)]


def test_a_job_of_more_than_twice_the_gpu_time_does_not_join():
    """At 0, job 1 has 61 s and job 0 30 s: more than twice as much."""
    rows = (("light", 30.0, 1), ("light", 61.0, 1))
    assert times(played(lucid(), *rows)) == [(0, 30), (30, 91)]
    assert times(played(lucid(patience=3.0), *rows)) == [(0, 40), (0, 71)]  # 30 of 61 by 40, the rest alone


def test_a_score_is_the_mean_over_the_pairs_that_fit():
    """Model 0 keeps 0.96 and 1.0; model 1 keeps 0.8 and does not fit beside itself; model 2 fits beside none."""
    factors = np.array([[[0.96, 1.0, 0.0], [0.9, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    assert Lucid().scores(factors).tolist() == [[TINY, MEDIUM, JUMBO]]


def test_it_plays_random_worlds_and_preempts_nothing():
    pairs = 0
    for seed in range(12):
        world = random_world(seed, plain=seed % 2 == 0, pairs=True)
        scenario = replace(world.setup.scenario, information=replace(world.setup.scenario.information, work="exact"))
        setup = replace(world.setup, scenario=scenario)
        result = run_episode(Lucid(medium=0.5, jumbo=0.0), Simulator(world.workload, setup, seed))
        Audit(setup).check(result)
        assert not np.isin(result.log.events["kind"], [EventKind.STOP, EventKind.RESIZE]).any()
        pairs += int((result.log.events["beside"] >= 0).sum())
    assert pairs > 5


@pytest.mark.parametrize("options", [{"medium": 0.5, "jumbo": 0.6}, {"patience": float("nan")}, {"medium": 1.1}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(MurmurationError, match=r"Lucid: medium is .*, jumbo .*, patience .*; the first two must"):
        Lucid(**options)
