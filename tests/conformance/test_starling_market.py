"""Starling as a market: without bids it is Starling to the bit, with bids one policy gives one result everywhere."""

from dataclasses import replace

import numpy as np
import pytest

from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.bidding import BiddingBatch, BiddingRules
from envs.simulation import EventKind, Information, Setup, Simulator, run_episode
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.bidding.bidders import Bidder, loud, rolled_out, silent

NO_AHEAD = Starling(look_ahead=0)


def calm(seed: int) -> RandomWorld:
    """A random world whose nodes do not fail, as a batch draws failures in another order."""
    world = random_world(seed)
    horizon = min(world.setup.scenario.horizon, 3000.0)
    scenario = replace(world.setup.scenario, failures=None, horizon=horizon, batch_sizes="usual")
    return replace(world, setup=replace(world.setup, scenario=scenario))


@pytest.mark.parametrize("look_ahead", [0, 4])
@pytest.mark.parametrize("seed", range(24))
def test_without_bids_it_is_starling(seed: int, look_ahead: int) -> None:
    world, starling = calm(seed), Starling(look_ahead=look_ahead)
    batch = rolled_out(silent, StarlingMarket(starling), world.setup, world.workload, seed)
    result = run_episode(starling, Simulator(world.workload, world.setup, seed), compiled=False)
    assert batch.state.log(0) == result.log
    assert (result.log.events["kind"] == EventKind.START).any()


@pytest.mark.parametrize("seed", range(12))
def test_agents_and_scheduler_leave_one_log(seed: int) -> None:
    world, rules = calm(seed), BiddingRules(num_candidates=5, contenders=3)
    market = StarlingMarket(NO_AHEAD)
    batch = rolled_out(loud, market, world.setup, world.workload, seed, rules)
    result = run_episode(Bidder(loud, market, rules), Simulator(world.workload, world.setup, seed))
    assert batch.state.log(0) == result.log


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
