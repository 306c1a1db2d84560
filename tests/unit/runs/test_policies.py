"""The market of a policy: named in its manifest, built from `conf/market`, and nothing else is built."""

import pytest

from agents.policies import BiddingCheckpoint, BiddingScheduler
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.evaluation.said_of_runs import find_training_seeds
from envs.simulation import FifoMarket, Simulator, run_episode
from envs.types import CheckpointError
from murmuration.config.choices import CONF
from murmuration.config.describe import market_of_class, without_names
from murmuration.runs.policies import build_market, load_planner
from tests.conformance.test_starling_market import zoo_world


def test_a_market_is_built_by_name_with_its_options():
    assert isinstance(build_market({"name": "fifo", "options": {}}), FifoMarket)
    found = build_market({"name": "starling", "options": {"starling": {}}})
    assert isinstance(found, StarlingMarket)


def test_names_of_classes_do_not_enter_a_manifest():
    options = {"_target_": "a.B", "skip": True, "starling": {"_target_": "c.D", "look_ahead": 3, "_partial_": True}}
    assert without_names(options) == {"skip": True, "starling": {"look_ahead": 3}}


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ({"name": "../../etc"}, "the policy's market is '../../etc'; there are: fifo, forecast_planner, starling"),
        ({"name": "fifo", "options": {"_target_": "os.system"}}, "has no option '_target_'"),
        ({"name": "starling", "options": {"starling": {"_target_": "os.system"}}}, "has no option '_target_'"),
        ({"name": "starling", "options": {"starling": 3}}, "is 3, which does not fit"),
        ({"name": "fifo", "options": {"greed": 1}}, "has no option 'greed'"),
    ],
)
def test_a_stranger_cannot_name_what_is_built(described, said):
    with pytest.raises(CheckpointError, match=said):
        build_market(described)


def test_a_market_is_found_by_its_class():
    """A resumed run types no market."""
    assert market_of_class("baselines.starling.market.StarlingMarket") == "starling"
    assert market_of_class("baselines.planner.ForecastMarket") == "forecast_planner"
    assert market_of_class("envs.simulation.FifoMarket") == "fifo"
    assert market_of_class("own.Market") is None


def test_the_learned_planner_is_a_shipped_policy():
    """By the name of its folder or by its path; `plans` is its market's, which without plans is another one."""
    shipped = CONF.parent / "checkpoints" / "bids-64"
    setup, workload = zoo_world(1)
    policy = BiddingCheckpoint.load(shipped)

    def play(scheduler):
        return run_episode(scheduler, Simulator(workload, setup, 1))

    alone = play(policy.scheduler(build_market(policy.market)))
    for planner in (load_planner(), load_planner(str(shipped), plans=4)):
        assert play(planner).log == alone.log
    fewer, usual = load_planner(plans=0), load_planner()
    found = find_training_seeds({"bids-64": usual, "market": FifoMarket(), "failed": usual}, ["bids-64", "market"])
    assert found == {"training_seeds": {"bids-64": policy.notes["seed"]}}
    for each in (fewer, usual):
        assert isinstance(each, BiddingScheduler)
        assert isinstance(each.market, StarlingMarket)
    assert len(fewer.market.starling.variants) < len(usual.market.starling.variants)  # type: ignore[attr-defined]


def test_a_learned_planner_is_refused_without_checkpoint_and_without_plans():
    with pytest.raises(CheckpointError, match=r"bids-6 contains no policy\.json; give the folder"):
        load_planner("bids-6")
    with pytest.raises(CheckpointError, match="the policy's market starling"):
        load_planner("bids-mix", plans=3)


def test_the_shipped_policy_plays_where_batch_sizes_may_be_chosen():
    """It states six bids; the market names batch sizes, and jobs finish."""
    policy = BiddingCheckpoint.load(CONF.parent / "checkpoints" / "bids-mix")
    assert policy.num_bids == 6
    setup, workload = zoo_world(1)
    result = run_episode(policy.scheduler(StarlingMarket(Starling(look_ahead=2))), Simulator(workload, setup, 1))
    assert (result.records["finish_time"] < setup.scenario.horizon).all()
    assert (result.log.events["batch_size"] > 0).any()
