"""The market on which jobs share GPUs: without bids it is `Packing` to the bit, with bids a policy gives one result."""

from dataclasses import replace

import numpy as np
import pytest

from baselines import Fifo, Packing
from baselines.packed_market import PackedMarket, bids_for_copy
from baselines.packing import PairingRule
from baselines.planner import ForecastMarket, ForecastPlanner
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.bidding import BiddingBatch
from envs.simulation import FifoMarket, Scenario, Setup, Simulator, run_episode
from envs.simulation.seen.market import no_bids
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.bidding.bidders import Bidder, loud, louder, rolled_out, silent
from tests.unit.simulation.test_beliefs import JOBS, PAIRS
from tests.unit.simulation.test_sharing import Together


def calm(seed: int) -> RandomWorld:
    """A random world with pairs whose nodes do not fail, as a batch draws failures in another order."""
    world = random_world(seed, plain=seed % 3 == 0, pairs=True)
    horizon = min(world.setup.scenario.horizon, 3000.0)
    scenario = replace(world.setup.scenario, failures=None, horizon=horizon)
    return replace(world, setup=replace(world.setup, scenario=scenario))


def test_without_bids_it_is_packing():
    """In worlds with cores, contention, batch sizes, hidden and estimated work."""
    pairs = 0
    for seed in range(10):
        world, starling = calm(seed), Starling(look_ahead=4 * (seed % 2))
        batch = rolled_out(silent, StarlingMarket(starling), world.setup, world.workload, seed)
        log = run_episode(Packing(starling), Simulator(world.workload, world.setup, seed)).log
        assert batch.state.log(0) == log, world.name
        pairs += int((log.events["beside"] >= 0).sum())
    assert pairs > 20


def test_the_forecast_planner_shares_in_the_same_way():
    world = calm(6)
    batch = rolled_out(silent, ForecastMarket(plans=1, look_ahead=2), world.setup, world.workload, 6)
    planner = Packing(ForecastPlanner(plans=1, look_ahead=2))
    assert batch.state.log(0) == run_episode(planner, Simulator(world.workload, world.setup, 6)).log


@pytest.mark.parametrize("policy", [loud, louder])
def test_agents_and_scheduler_leave_one_log(policy):
    pairs = 0
    for seed in range(6):
        world, market = calm(seed), StarlingMarket(Starling(look_ahead=0))
        batch = rolled_out(policy, market, world.setup, world.workload, seed)
        result = run_episode(Bidder(policy, market), Simulator(world.workload, world.setup, seed))
        assert batch.state.log(0) == result.log, world.name
        pairs += int((result.log.events["beside"] >= 0).sum())
    assert pairs > 10


def test_without_bids_it_is_packing_where_throughputs_must_be_found_out():
    starling = Starling(look_ahead=4)
    bidder = Bidder(silent, StarlingMarket(starling))
    logs = [run_episode(scheduler, Simulator(JOBS, PAIRS, 3)).log for scheduler in (Packing(starling), bidder)]
    assert logs[0] == logs[1]
    assert (logs[0].events["beside"] >= 0).any()


def test_several_episodes_at_once_leave_the_logs_of_one_at_a_time():
    """Their copies do not mix, also when an episode ends early and another one begins in its place."""
    world = calm(3)
    batch = BiddingBatch(world.setup, world.workload.models, len(world.workload), 3, StarlingMarket(Starling()))
    alone = rolled_out(silent, StarlingMarket(Starling()), world.setup, world.workload, 3)
    for b, seed in enumerate((3, 4, 3)):
        batch.load(b, world.workload, np.random.default_rng(np.random.SeedSequence(seed).spawn(3)[0]))
    while not batch.ended[0]:
        batch.step(silent(batch.observation))
    batch.load(0, world.workload, np.random.default_rng(np.random.SeedSequence(3).spawn(3)[0]))
    while not batch.ended.all():
        batch.step(silent(batch.observation))
    for b in (0, 2):
        for name in ("finish", "service", "num_restarts"):
            np.testing.assert_array_equal(batch.state.jobs[b][name], alone.state.jobs[0][name])


def two_nodes(affinity: list[float]) -> list[tuple[int, int]]:
    """Two light jobs hold a node each, a third one waits; return who goes beside whom on these affinities for it."""
    jobs = [JobSpec(i, float(i == 2), 1, 100.0, "light") for i in range(3)]
    cluster = ClusterSpec((NodeSpec("V100", 1), NodeSpec("V100", 1)), "two")
    setup = Setup(cluster, Together(), Scenario(restart_delay=0.0, sharing="pairs"))
    batch = BiddingBatch(setup, ("light",), 3, 1, PackedMarket(FifoMarket(), PairingRule(urgency=0.0)))
    batch.load(0, Workload.of(jobs, "three"), np.random.default_rng(0))
    batch.step(silent(batch.observation))
    bids = no_bids(batch.state)
    bids.affinity[0, 2] = affinity
    changes = batch.auction.market.clear(batch.auction.worlds, bids)
    rows = changes.rows[0, : changes.num_rows[0]]
    return [(int(row.job), int(row.owner) - 1) for row in rows]


def test_affinity_chooses_beside_whom_a_job_goes_and_not_whether():
    """It gains 0.75 - 0.25 beside either job."""
    assert two_nodes([0.0, 0.0]) == [(2, 0)]
    assert two_nodes([0.0, 0.1]) == [(2, 1)]
    assert two_nodes([-2.0, 0.0]) == [(2, 1)]
    assert two_nodes([-4.0, -4.0]) == [(2, 0)]


def test_fifo_as_inner_market_is_packing_around_fifo():
    jobs = [JobSpec(i, 10.0 * (i % 3), 1, 50.0 + i, "light") for i in range(7)]
    setup = Setup(ClusterSpec((NodeSpec("V100", 2),), "one"), Together(), Scenario(restart_delay=0.0, sharing="pairs"))
    workload = Workload.of(jobs, "few")
    result = run_episode(Bidder(silent, PackedMarket(FifoMarket())), Simulator(workload, setup))
    assert result.log == run_episode(Packing(Fifo()), Simulator(workload, setup)).log


def test_bids_are_cut_or_filled_up_to_the_jobs_of_the_copy():
    world = calm(0)
    small = Simulator(world.workload, world.setup, 0).state
    bids = no_bids(small)
    bids.priority[0] = np.arange(len(bids.priority[0]))
    copied = Simulator(world.workload, world.setup, 0)
    assert copied.advance()
    wide = bids_for_copy(bids, 0, copied.view.snapshot().state)
    assert wide.priority.shape == (1, 64)
    assert wide.affinity.shape == (1, 64, world.setup.cluster.num_nodes)
    np.testing.assert_array_equal(wide.priority[0, : small.jobs.shape[1]], bids.priority[0])
    assert not wide.priority[0, small.jobs.shape[1] :].any()
