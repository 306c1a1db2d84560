"""Muri's pairs on schedules worked by hand; a light job keeps 0.75 beside another one, a heavy one 0.5."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Muri, Srtf
from baselines.muri import match_models, take_twice
from envs.evaluation.audit import Audit
from envs.simulation import Information, RunResult, Simulator, run_episode
from envs.types import MurmurationError
from tests.conformance.random_worlds import random_world
from tests.golden.playground import restarts, times
from tests.unit.baselines.test_packing import played


def test_a_pair_is_made_where_two_jobs_do_not_fit():
    """Two light jobs of 2 GPUs, 60 samples each: on 2 GPUs they share at 1.5 samples/s, on 4 each has its own."""
    rows = (("light", 60.0, 2), ("light", 60.0, 2))
    assert times(played(Muri(), *rows, gpus=2)) == [(0, 40), (0, 40)]
    assert times(played(Muri(), *rows, gpus=4)) == [(0, 30), (0, 30)]


def test_the_matching_has_the_largest_weight():
    """Two light and two heavy jobs on 2 GPUs: light with light keeps 1.5, but two pairs of light with heavy 2.5.

    Two heavy ones keep no more than in turns. Light jobs end at 40. Heavy ones have 20 of 30 samples then, and end
    alone at 50.
    """
    rows = (("light", 30.0, 1), ("light", 30.0, 1), ("heavy", 30.0, 1), ("heavy", 30.0, 1))
    for by in ("gpu_time", "service"):
        assert times(played(Muri(by), *rows, gpus=2)) == [(0, 40), (0, 40), (0, 50), (0, 50)]


def test_jobs_that_keep_no_more_than_in_turns_take_turns():
    rows = (("heavy", 30.0, 1), ("heavy", 30.0, 1))
    assert times(played(Muri(), *rows)) == [(0, 30), (30, 60)]


def test_the_next_round_keeps_the_pair_that_runs():
    """Rounds every 10 s. A and B share from 0; C comes no sooner than they end, since only the first two are taken."""
    rows = (("light", 30.0, 1), ("light", 31.0, 1), ("light", 90.0, 1))
    result = played(Muri(round_length=10.0), *rows)
    assert times(result)[0] == (0, 40)
    assert restarts(result)[0] == restarts(result)[1] == 0


def test_with_every_job_that_finds_room_the_next_one_of_its_size_is_taken():
    """8 GPUs: job 0 takes 4 and brings job 2; job 1 takes 2 and brings job 4; then 2 are left, for job 5, not job 3."""
    sizes = {0: 4, 1: 2, 2: 4, 3: 4, 4: 2, 5: 2, 6: 1}
    assert take_twice(sizes, 8) == [0, 1, 2, 4, 5]


@settings(max_examples=40)
@given(data=st.data())
def test_classes_are_matched_as_jobs_are(data):
    """The weight is that of the best of all matchings of up to six jobs."""
    count = np.array(data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=3)))
    size = len(count)
    weight = np.array(
        data.draw(st.lists(st.sampled_from([0.0, 0.5, 0.6, 0.8]), min_size=size**2, max_size=size**2))
    ).reshape(size, size)
    weight = np.maximum(weight, weight.T)
    number = match_models(weight, count)
    taken = number.sum(axis=0) + number.sum(axis=1)
    assert (taken <= count).all()
    best = heaviest(weight, np.repeat(np.arange(size), count).tolist())
    assert (weight * number).sum() == pytest.approx(best)


def heaviest(weight: np.ndarray, jobs: list[int]) -> float:
    """The largest weight of a matching of these jobs, given by their classes: the first one alone or beside another."""
    if len(jobs) < 2:
        return 0.0
    first, *rest = jobs
    beside = [float(weight[first, other]) + heaviest(weight, rest[:i] + rest[i + 1 :]) for i, other in enumerate(rest)]
    return max(heaviest(weight, rest), *beside)


@pytest.mark.parametrize("by", ["gpu_time", "service"])
def test_it_plays_random_worlds(by):
    """No allocation is refused, and what comes out can be, with failures, contention and hidden work."""
    pairs = 0
    for seed in range(8):
        world = random_world(seed, plain=seed % 2 == 0, pairs=seed % 4 > 0)
        result = episode(Muri(by, round_length=20.0), world, seed)
        pairs += int((result.log.events["beside"] >= 0).sum())
    assert pairs > 3


def episode(scheduler, world, seed: int) -> RunResult:
    information = Information("exact" if scheduler.information == "estimate" else "none")
    setup = replace(world.setup, scenario=replace(world.setup.scenario, information=information))
    result = run_episode(scheduler, Simulator(world.workload, setup, seed))
    Audit(setup).check(result)
    return result


def test_without_sharing_jobs_run_in_order_of_gpu_time():
    rows = (("light", 60.0, 2), ("light", 20.0, 2), ("heavy", 40.0, 2))
    alone = played(Muri(), *rows, gpus=2, sharing="off")
    assert times(alone) == times(played(Srtf("gpu_time"), *rows, gpus=2, sharing="off"))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"by": "size"}, "by is 'size'"), ({"limits": ()}, "at least one"), ({"round_length": -1.0}, "not negative")],
)
def test_settings_out_of_range_are_refused(options, words):
    with pytest.raises(MurmurationError, match=words):
        Muri(**options)
