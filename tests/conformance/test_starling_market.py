"""Starling as a market: without bids it is Starling to the bit, with bids one policy gives one result everywhere."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from baselines.starling import Starling
from baselines.starling.exploring import ExplorationRules
from baselines.starling.market import StarlingMarket
from envs.bidding import BiddingBatch, BiddingRules
from envs.performance import EFFICIENCY_SETTINGS, Contention, TableModel, model_profile
from envs.simulation import EventKind, Information, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.bidding.bidders import Bidder, loud, louder, rolled_out, silent
from tests.unit.options.test_hidden import hidden_world
from tests.unit.options.test_predicted import predicted_world

NO_AHEAD = Starling(look_ahead=0)
THREE_TYPES = ClusterSpec((NodeSpec("V100", 4), NodeSpec("K80", 4), NodeSpec("V100", 4), NodeSpec("P100", 2)))


def calm(seed: int, *, choice: bool = True) -> RandomWorld:
    """A random world whose nodes do not fail, as a batch draws failures in another order."""
    world = random_world(seed)
    horizon = min(world.setup.scenario.horizon, 3000.0)
    scenario = replace(world.setup.scenario, failures=None, horizon=horizon)
    if not choice:
        scenario = replace(scenario, batch_sizes="usual")
    return replace(world, setup=replace(world.setup, scenario=scenario))


@pytest.mark.parametrize("look_ahead", [0, 4])
@pytest.mark.parametrize("seed", range(8))
def test_without_bids_it_is_starling(seed: int, look_ahead: int) -> None:
    world, starling = calm(seed), Starling(look_ahead=look_ahead)
    batch = rolled_out(silent, StarlingMarket(starling), world.setup, world.workload, seed)
    result = run_episode(starling, Simulator(world.workload, world.setup, seed), compiled=False)
    assert batch.state.log(0) == result.log
    assert (result.log.events["kind"] == EventKind.START).any()


@pytest.mark.parametrize("seed", range(5))
def test_agents_and_scheduler_leave_one_log(seed: int) -> None:
    world, rules = calm(seed), BiddingRules(num_candidates=5, contenders=3)
    market = StarlingMarket(NO_AHEAD)
    batch = rolled_out(louder, market, world.setup, world.workload, seed, rules)
    result = run_episode(Bidder(louder, market, rules), Simulator(world.workload, world.setup, seed))
    assert batch.state.log(0) == result.log


@pytest.mark.parametrize("hours", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_without_bids_it_is_starling_on_beliefs_and_explores_alike(seed: int, hours: float) -> None:
    """Jobs of any length explore with 0 hours, and with either work is hidden in a third of the worlds."""
    world = hidden_world(seed)
    exploration = ExplorationRules(long=3600.0 * hours)
    starling = Starling(look_ahead=4 * (seed % 2), exploration=exploration)
    result = run_episode(starling, Simulator(world.workload, world.setup, world.seed), compiled=False)
    bidder = Bidder(silent, StarlingMarket(starling))
    assert run_episode(bidder, Simulator(world.workload, world.setup, world.seed)).log == result.log


@pytest.mark.parametrize("seed", range(5))
def test_agents_and_scheduler_leave_one_log_where_work_is_predicted(seed: int) -> None:
    """And without bids it is Starling there."""
    world = predicted_world(seed)
    logs = []
    for policy in (silent, louder):
        batch = rolled_out(policy, StarlingMarket(NO_AHEAD), world.setup, world.workload, seed)
        scenario = replace(world.setup.scenario, horizon=float(batch.state.episode["horizon"][0, 0]))
        setup = replace(world.setup, scenario=scenario)
        result = run_episode(Bidder(policy, StarlingMarket(NO_AHEAD)), Simulator(world.workload, setup, seed))
        assert batch.state.log(0) == result.log
        logs.append(result.log)
    assert logs[0] == run_episode(NO_AHEAD, Simulator(world.workload, setup, seed), compiled=False).log


@cache
def zoo_world(seed: int) -> tuple[Setup, Workload]:
    """Jobs of models that have measured noise scales, some with their own ranges, where batch sizes may be chosen."""
    rng = np.random.default_rng(seed)
    scenario = Scenario(
        restart_delay=20.0,
        horizon=1e6,
        cpu_memory=("unlimited", "shared")[seed % 2],
        contention=Contention(("off", "measured")[seed // 2 % 2]),
        statistical_efficiency=EFFICIENCY_SETTINGS[seed % 3],
        information=Information(("exact", "estimate", "none")[seed // 3 % 3]),
    )
    return Setup(THREE_TYPES, TableModel(), scenario), Workload.of(list(zoo_jobs(rng)))


def zoo_jobs(rng: np.random.Generator) -> Sequence[JobSpec]:
    """Twelve jobs, some elastic, some with a batch range of their own."""
    specs = []
    for i in range(12):
        model, gpus = str(rng.choice(["resnet18", "resnet50", "transformer", "lm"])), int(rng.integers(1, 7))
        elastic = (int(rng.integers(1, gpus + 1)), int(rng.integers(gpus, 9))) if rng.random() < 0.6 else (0, 0)
        profile, own = model_profile(model), (0, 0)
        if rng.random() < 0.3:
            own = tuple(np.sort(rng.integers(profile.min_batch, profile.max_batch + 1, 2)).tolist())
        specs.append(JobSpec(i, 60.0 * (i // 4), gpus, float(rng.integers(1_000, 2_000_000)), model, *elastic, *own))
    return specs


@pytest.mark.parametrize("seed", range(6))
def test_without_bids_it_is_starling_on_models_of_the_zoo(seed: int) -> None:
    setup, workload = zoo_world(seed)
    starling = Starling(look_ahead=12 * (seed // 3))
    batch = rolled_out(silent, StarlingMarket(starling), setup, workload, seed)
    result = run_episode(starling, Simulator(workload, setup, seed), compiled=False)
    assert batch.state.log(0) == result.log


def test_batch_sizes_are_chosen_and_left() -> None:
    """The tests above would pass in worlds that offer no choice."""
    worlds = [(calm(seed).setup, calm(seed).workload, seed) for seed in (2, 5, 7)]
    for setup, workload, seed in (*worlds, *((*zoo_world(seed), seed) for seed in (0, 1))):
        events = rolled_out(silent, StarlingMarket(NO_AHEAD), setup, workload, seed).state.log(0).events
        placed = np.isin(events["kind"], [EventKind.START, EventKind.RESIZE])
        assert (events["batch_size"][placed] > 0).any()
        usual = StarlingMarket(Starling(look_ahead=0, batch="usual"))
        assert not rolled_out(silent, usual, setup, workload, seed).state.log(0).events["batch_size"].any()


@pytest.mark.parametrize("seed", range(3))
def test_agents_and_scheduler_leave_one_log_on_models_of_the_zoo(seed: int) -> None:
    setup, workload = zoo_world(seed)
    batch = rolled_out(louder, StarlingMarket(NO_AHEAD), setup, workload, seed)
    result = run_episode(Bidder(louder, StarlingMarket(NO_AHEAD)), Simulator(workload, setup, seed))
    assert batch.state.log(0) == result.log


def test_without_bids_for_batch_sizes_six_columns_say_the_same() -> None:
    """Policies from before there were such bids state six; where batch sizes are fixed, the seventh has no effect."""
    setup, workload = zoo_world(0)
    fixed = replace(setup, scenario=replace(setup.scenario, batch_sizes="usual"))
    rules = BiddingRules(num_candidates=5)
    logs = {
        (name, world): rolled_out(policy, StarlingMarket(NO_AHEAD), of, workload, 0, rules).state.log(0)
        for name, policy in (("six", loud), ("zeros", padded(loud)), ("seven", louder))
        for world, of in (("chosen", setup), ("fixed", fixed))
    }
    assert logs["six", "chosen"] == logs["zeros", "chosen"] != logs["seven", "chosen"]
    assert logs["six", "fixed"] == logs["zeros", "fixed"] == logs["seven", "fixed"]


def padded(policy: Any) -> Any:
    """A policy that also bids 0 for batch sizes."""
    return lambda observation: np.pad(policy(observation), ((0, 0), (0, 0), (0, 0), (0, 1)))


def test_bids_change_the_result() -> None:
    """The tests above would pass for a market that is deaf."""
    world = calm(3)
    logs = [
        rolled_out(policy, StarlingMarket(NO_AHEAD), world.setup, world.workload, 3).state.log(0)
        for policy in (silent, loud)
    ]
    assert logs[0] != logs[1]


def test_episodes_of_a_batch_do_not_see_each_other() -> None:
    """Their jobs share the tables of scaling groups, and workloads follow each other at one place."""
    world = calm(5)
    first, second = world.workload, replace(world.workload, jobs=world.workload.jobs[: len(world.workload) // 2])
    setup: Setup = replace(world.setup, scenario=replace(world.setup.scenario, information=Information("exact")))
    alone = {
        name: rolled_out(silent, StarlingMarket(NO_AHEAD), setup, workload, 0).state.jobs[0]["finish"]
        for name, workload in (("first", first), ("second", second))
    }
    models = tuple(dict.fromkeys((*first.models, *second.models)))
    batch = BiddingBatch(setup, models, len(first), 2, StarlingMarket(NO_AHEAD))
    played = {}
    for place, order in ((0, ("first", "second")), (1, ("second", "first"))):
        batch.load(place, {"first": first, "second": second}[order[0]], np.random.default_rng(0))
    while not batch.ended.all():
        batch.step(silent(batch.observation))
    played[0, "first"] = batch.state.jobs[0]["finish"].copy()
    played[1, "second"] = batch.state.jobs[1]["finish"].copy()
    batch.load(0, second, np.random.default_rng(0))
    batch.load(1, first, np.random.default_rng(0))
    while not batch.ended.all():
        batch.step(silent(batch.observation))
    played[0, "second"] = batch.state.jobs[0]["finish"].copy()
    played[1, "first"] = batch.state.jobs[1]["finish"].copy()
    for (_, name), finish in played.items():
        count = len(first) if name == "first" else len(second)
        np.testing.assert_array_equal(finish[:count], alone[name][:count])
