"""Episodes whose work is predicted: the same as under a scheduler, and copies that go on by themselves."""

from dataclasses import replace

import numpy as np
import pytest

from agents.policies.options.playing import Player
from agents.policies.options.scheduler import OptionScheduler
from baselines.parts.group_history import GroupHistory
from envs.options import OptionBatch, OptionRules
from envs.options.columns import JOB_REMAINING_TIME, JOB_TIME_HIGH, JOB_TIME_LOW
from envs.options.units import relative
from envs.simulation import Information, Setup, Simulator, run_episode
from envs.simulation.known.predictions import quantiles_left
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.options.test_hidden import random_scorer
from tests.unit.options.worlds import random_rules

SEEDS = 10


def predicted_world(seed: int) -> RandomWorld:
    """A random world without failures, whose jobs belong to three users."""
    world = random_world(seed, plain=bool(seed % 2))
    scenario = replace(world.setup.scenario, failures=None, information=Information("predicted"))
    users = tuple(f"user-{i}" for i in np.random.default_rng(seed).integers(3, size=len(world.workload)))
    setup = Setup(world.setup.cluster, world.setup.performance, scenario, predictor=GroupHistory())
    return replace(world, setup=setup, workload=replace(world.workload, users=users))


def test_scheduler_and_environment_leave_one_log():
    """What is predicted changes from round to round, and is the same for both."""
    restarts = 0
    for seed in range(SEEDS):
        world, rng = predicted_world(seed), np.random.default_rng(seed)
        rules = random_rules(rng, changes=("start", "resize", "move")[seed % 3])
        network = random_scorer(seed)
        batch = OptionBatch(world.setup, world.workload.models, len(world.workload), rules=rules, logging=True)
        Player(batch).play([world.workload], network, [world.seed], temperature=0.0)
        scenario = replace(world.setup.scenario, horizon=float(batch.state.episode["horizon"][0, 0]))
        simulator = Simulator(world.workload, replace(world.setup, scenario=scenario), world.seed)
        result = run_episode(OptionScheduler(network, rules), simulator)
        assert batch.log() == result.log, f"seed {seed}"
        restarts += int(result.records["num_restarts"].sum())
    assert restarts > 0


def test_a_copy_of_a_running_episode_goes_on_by_itself_and_ends_the_same():
    world, rules = predicted_world(1), OptionRules(changes="move")
    rng = np.random.default_rng(0)
    batches = [OptionBatch(world.setup, world.workload.models, len(world.workload), 2, rules) for _ in range(2)]
    first, second = batches
    first.load(1, world.workload, np.random.default_rng(0))
    for _ in range(6):
        first.step(np.array([-1, int(rng.integers(len(first.options(1).what)))]))
    assert not first.ended[1]
    second.copy_episodes(np.array([0]), first, np.array([1]))
    jobs = np.arange(int(first.state.episode[1, 0]["next_job"]))
    np.testing.assert_array_equal(second.view(0).likely_work(jobs), first.view(1).likely_work(jobs))
    while not first.ended[1]:
        chosen = int(rng.integers(len(first.options(1).what)))
        assert (first.options(1).options == second.options(0).options).all()
        assert (first.options(1).jobs == second.options(0).jobs).all()
        first.step(np.array([-1, chosen]))
        second.step(np.array([chosen, -1]))
    assert second.ended[0]
    assert first.mean_jct(1) == second.mean_jct(0)


def test_quartiles_are_of_the_outcomes_that_are_left():
    nan = np.nan
    left = np.array([[nan, 1.0, 2.0, 3.0, 4.0, 5.0], [nan, nan, nan, nan, nan, 7.0], [9.0, nan, nan, nan, nan, nan]])
    assert quantiles_left(left).tolist() == [[2.0, 4.0], [7.0, 7.0], [9.0, 9.0]]


def test_rows_have_the_quartiles_of_the_time_that_a_job_takes():
    """On two nodes: the mean lies between them or above, and what a job has done shortens them."""
    world, rng = predicted_world(3), np.random.default_rng(0)
    batch = OptionBatch(world.setup, world.workload.models, len(world.workload), rules=OptionRules(changes="move"))
    batch.load(0, world.workload, np.random.default_rng(0))
    compared = 0
    while not batch.ended[0]:
        options, view = batch.options(0), batch.view(0)
        for job, found in zip(options.job_ids.tolist(), options.jobs, strict=True):
            if not options.jobs[:, 2].any():  # nothing has changed yet in this round
                samples = np.sort(view.likely_work(np.array([job]))[0])
                samples = samples[~np.isnan(samples)]
                scale = float(view.remaining_time(np.array([job]))[0]) / samples.mean()
                low, high = (samples[int(share * (len(samples) - 1))] * scale for share in (0.25, 0.75))
                unit = batch.arrays.rules["time_unit"][0, 0]
                assert found[JOB_TIME_LOW] == pytest.approx(relative(low, unit), rel=1e-5, abs=1e-6)
                assert found[JOB_TIME_HIGH] == pytest.approx(relative(high, unit), rel=1e-5, abs=1e-6)
                assert found[JOB_TIME_LOW] <= found[JOB_REMAINING_TIME]
                compared += 1
        batch.step(np.array([int(rng.integers(len(options.what)))]))
    assert compared > 20
