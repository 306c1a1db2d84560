"""Drawn worlds: each follows from its number, they differ in all that is drawn, and training sees no stated one."""

from pathlib import Path

import numpy as np
import pytest

from agents.methods.evolution.learning import EvolutionSetup
from envs.episodes.worlds import FIRST_DRAWN, WorldDistribution
from envs.options import OptionBatch, OptionRules
from envs.types import MurmurationError
from murmuration.config.building import build_object
from murmuration.config.choices import list_choices
from murmuration.config.describe import compose_comparison, compose_training
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_inputs, find_worlds
from murmuration.runs.training import bid_problem, build_tasks

WORLDS = WorldDistribution()


def test_a_world_follows_from_its_number():
    for number in (3, 20):
        one, again = WORLDS.world(number), WorldDistribution().world(number)
        assert (one.setup.cluster, one.setup.scenario) == (again.setup.cluster, again.setup.scenario)
        assert (one.source.evaluation("test")[0].jobs == again.source.evaluation("test")[0].jobs).all()
    assert WORLDS.world(3).setup.cluster != WORLDS.world(20).setup.cluster


def test_worlds_differ_in_everything_that_is_drawn():
    worlds = [WORLDS.world(number) for number in WORLDS.validation + WORLDS.test]
    nodes = [world.setup.cluster.num_nodes for world in worlds]
    assert 2 <= min(nodes) < 4
    assert 24 < max(nodes) <= 32
    assert max(world.setup.cluster.num_gpus for world in worlds) <= WORLDS.most_gpus
    scenarios = [world.setup.scenario for world in worlds]
    for seen in (
        {len(world.setup.cluster.gpu_types) for world in worlds},
        {world.source.curves for world in worlds},
        {scenario.information.work for scenario in scenarios},
        {scenario.information.throughput for scenario in scenarios},
        {scenario.rounds.on_events for scenario in scenarios},
        {scenario.failures is None for scenario in scenarios},
        {scenario.reconfiguration is None for scenario in scenarios},
        {scenario.cpu_memory for scenario in scenarios},
        {scenario.contention.mode for scenario in scenarios},
        {world.source.elastic == 1.0 for world in worlds},
        {type(world.source.stream.arrivals) for world in worlds},
    ):
        assert len(seen) > 1
    medians = [world.source.stream.durations[1].mean for world in worlds]
    assert max(medians) > 100 * min(medians)
    assert max(world.source.elastic for world in worlds) > 8


def test_a_policy_can_be_trained_in_each_stated_world():
    """Environments that train policies over options can play all of them; one round each."""
    for number in WORLDS.validation + WORLDS.test:
        _, setup, source = WORLDS.world(number)
        batch = OptionBatch(setup, source.models, source.num_jobs, 1, OptionRules(changes="move", idle="never"))
        batch.load(0, source.episode(np.random.default_rng(0)), np.random.default_rng(0))
        assert len(batch.options().what) > 0


def test_training_draws_no_stated_world():
    assert {*WORLDS.validation}.isdisjoint(WORLDS.test)
    assert WORLDS.drawn(5).name == f"world-{FIRST_DRAWN + 5}"


@pytest.mark.parametrize(
    "numbers", [{"validation": (1,), "test": (1, 2)}, {"test": (FIRST_DRAWN,)}, {"validation": ()}]
)
def test_lists_that_overlap_are_refused(numbers):
    with pytest.raises(MurmurationError, match=r"world: validation is \[.*\] and test .*; give numbers from 0 to 999"):
        WorldDistribution(**numbers)


def test_commands_play_the_world_that_they_name_and_training_validates_on_those_listed():
    for name in list_choices("world"):
        run = compose_comparison(["task=none", f"world={name}", "world.number=21"])
        assert build_inputs(run.problem).source.name == "world-21"
    (seed,) = compose_training(["experiment=anywhere", "world=small"])[0].seeds
    assert list(build_tasks(seed)) == [f"world-{i}" for i in range(8)]
    assert find_worlds(seed.problem).most_gpus == 32


def test_a_task_has_no_drawn_worlds():
    with pytest.raises(ChoiceError, match="world: is chosen beside task=shared-16, which has no drawn worlds"):
        build_inputs(compose_comparison(["task=shared-16", "world=any"]).problem)
    run, _ = compose_training(["experiment=anywhere", "tasks=[shared-64]"])
    with pytest.raises(ChoiceError, match="training in drawn worlds has no further tasks"):
        build_tasks(run.seeds[0])


def test_policies_that_bid_can_be_trained_in_worlds_for_bids():
    """All pairs of an iteration play the same worlds, and the next iteration others."""
    (seed,) = compose_training(["experiment=bidding_anywhere", "world.validation=[4]"])[0].seeds
    problem, _ = bid_problem(seed, build_object(seed.env), build_object(seed.trainer), Path())
    setup = EvolutionSetup(problem.worlds, problem.blueprint, build_object(seed.trainer).method, 0, drawn=problem.drawn)
    worlds = [world for iteration in range(4) for world in setup.worlds(iteration)]
    assert len({world.name for world in worlds}) == len(worlds) == 4 * setup.settings.num_workloads
    assert [world.name for world in setup.worlds(1)] == [world.name for world in setup.worlds(1)]
    for world in worlds:
        assert world.setup.scenario.information.throughput == "exact"
        world.batch(1).load(0, world.source.episode(np.random.default_rng(0), "train"), np.random.default_rng(0))
