"""The forecast planner: Starling with more candidates; none more and no discount are Starling, to the bit."""

import math

import pytest

from baselines.planner import ForecastMarket, ForecastPlanner
from baselines.planner.forecasts import FURTHER_VARIANTS
from baselines.starling import Starling
from envs.simulation import Simulator, run_episode
from envs.types import MurmurationError
from tests.conformance.test_compiled_starling import World, told, world_of_seed
from tests.conformance.test_starling_market import calm
from tests.unit.bidding.bidders import louder, rolled_out, silent


def worlds(first: int, count: int) -> list[World]:
    """Random worlds, with GPUs alone and with all rules in turn."""
    found = (world_of_seed(seed, plain=seed % 2 == 0) for seed in range(first, first + 2 * count))
    return [world for world in found if world is not None][:count]


def test_without_further_variants_and_discount_it_is_starling():
    for world in worlds(7000, 8):
        assert told(world.play(ForecastPlanner(plans=0, discount=0.0, batch="usual"))) == told(
            world.play(Starling(batch="usual"))
        )


def test_it_plays_as_it_decides_and_not_as_starling():
    planner, differs = ForecastPlanner(plans=6, batch="usual"), 0
    for world in worlds(7100, 8):
        played = told(world.play(planner))
        assert told(world.decide(planner)) == played
        differs += played != told(world.play(Starling(batch="usual")))
    assert differs > 0


def test_without_bids_its_market_is_the_planner_and_with_them_it_is_not():
    differ = 0
    for seed in range(4):
        world, market = calm(seed), ForecastMarket(plans=6)
        batch = rolled_out(silent, market, world.setup, world.workload, seed)
        result = run_episode(ForecastPlanner(plans=6), Simulator(world.workload, world.setup, seed), compiled=False)
        assert batch.state.log(0) == result.log
        differ += rolled_out(louder, market, world.setup, world.workload, seed).state.log(0) != result.log
    assert differ > 0


def test_the_number_of_further_variants_is_bounded():
    assert len(set(FURTHER_VARIANTS)) == len(FURTHER_VARIANTS)
    for plans in (-1, len(FURTHER_VARIANTS) + 1):
        with pytest.raises(MurmurationError, match=f"ForecastPlanner: plans is {plans}; it must be from 0"):
            ForecastPlanner(plans)


@pytest.mark.parametrize("discount", [-0.1, math.inf, math.nan])
def test_a_discount_is_finite_and_not_negative(discount):
    with pytest.raises(MurmurationError, match="ForecastPlanner: discount is"):
        ForecastPlanner(discount=discount)


def test_a_discount_changes_decisions():
    differs = 0
    for world in worlds(7200, 20):
        differs += told(world.play(ForecastPlanner(batch="usual"))) != told(
            world.play(ForecastPlanner(discount=0.0, batch="usual"))
        )
    assert differs > 0
