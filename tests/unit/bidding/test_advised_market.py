"""Bids on top of another scheduler's allocation."""

from dataclasses import replace

import numpy as np
import pytest

from baselines.gavel import Gavel
from baselines.las import Las
from baselines.srtf import Srtf
from envs.bidding import BiddingBatch, BiddingRules, columns
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.simulation.advised_market import AdvisedMarket
from envs.simulation.fifo_market import FifoMarket
from envs.simulation.market import Market
from envs.types import AllocationError, ClusterSpec, ExecutionPlan, NodeSpec, Placement
from tests.conformance.random_worlds import random_world
from tests.conformance.worlds import CLUSTERS, Curved
from tests.unit.bidding.bidders import Bidder, WhimMarket, loud, rolled_out, silent
from tests.unit.gpu_cluster.players import bursts, jobs_like

ADVISERS: dict[str, Scheduler] = {
    "las": Las(),
    "srtf": Srtf(),
    "gavel": Gavel(),
}
SCENARIO = Scenario(restart_delay=2.0, horizon=1e6)


def half(observation):
    """Bid for some jobs only: those in even rows."""
    actions = loud(observation)
    actions[observation["pair_jobs"] % 2 == 1] = 0.0
    return actions


@pytest.mark.parametrize("adviser", sorted(ADVISERS))
@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
def test_without_bids_the_adviser_schedules(adviser, cluster):
    """The adviser's own log, to the bit, whatever the market would do."""
    setup = Setup(CLUSTERS[cluster], Curved(), SCENARIO)
    for seed in range(3):
        workload = bursts(seed, num_jobs=15, models=("any", "large"))
        for market in (FifoMarket(), WhimMarket()):
            batch = rolled_out(silent, AdvisedMarket(market, ADVISERS[adviser]), setup, workload, seed)
            alone = run_episode(ADVISERS[adviser], Simulator(workload, setup))
            assert batch.state.log(0) == alone.log


@pytest.mark.parametrize("policy", [half, loud])
@pytest.mark.parametrize("seed", range(10))
def test_agents_and_scheduler_leave_one_log(policy, seed):
    world = random_world(seed)
    scenario = replace(world.setup.scenario, failures=None, horizon=1500.0)
    setup, rules = replace(world.setup, scenario=scenario), BiddingRules(num_candidates=5)
    market = AdvisedMarket(WhimMarket(), Las())
    batch = rolled_out(policy, market, setup, world.workload, seed, rules)
    result = run_episode(Bidder(policy, market, rules), Simulator(world.workload, setup, seed))
    assert batch.state.log(0) == result.log
    silence = run_episode(Bidder(silent, market, rules), Simulator(world.workload, setup, seed))
    assert len(world.workload) < 8 or result.log != silence.log


class Script:
    """Places jobs as told, in every round."""

    def __init__(self, placements: dict[int, Placement]) -> None:
        self.placements = placements

    def reset(self, cluster, rng):
        """Do nothing."""

    def schedule(self, view):
        """Place those that are there."""
        allocation = view.allocation()
        for job, placement in self.placements.items():
            if job in view.queued or job in view.running:
                allocation.place(job, placement)
        return allocation


def played(market: Market, adviser: Scheduler, bidders: set[int]) -> dict[int, dict[int, int]]:
    """GPUs by job and node after one round in which nodes bid for some of three jobs on two nodes of four GPUs."""
    cluster = ClusterSpec((NodeSpec("new", 4), NodeSpec("new", 4)))
    workload = jobs_like((0, 4, 50, 1, 4), (0, 4, 50, 1, 4), (0, 2, 50, 1, 4))
    batch = BiddingBatch(
        Setup(cluster, Curved(), SCENARIO), workload.models, 3, 1, AdvisedMarket(market, adviser), logging=True
    )
    batch.load(0, workload, np.random.default_rng(0))
    actions = silent(batch.observation)
    for row, job in enumerate(batch.auction.arrays.listed[0].tolist()):
        if job in bidders:
            actions[batch.observation["pair_jobs"] == row, columns.BID_APPETITE] = 0.01  # FIFO does not care
    batch.step(actions)
    log = batch.state.log(0)
    found: dict[int, dict[int, int]] = {}
    for event in log.events:
        if event["kind"] == 6:
            shares = log.shares[event["first_share"] : event["first_share"] + event["num_shares"]]
            found[int(event["job"])] = dict(zip(shares["node"].tolist(), shares["gpus"].tolist(), strict=True))
    return found


def test_worked_by_hand():
    """The adviser gives each node to a job; FIFO would start jobs 0 and 1, best fit, and leave job 2 waiting.

    Silent jobs keep the advice. Job 0 with a bid gets what FIFO decides: four GPUs on node 0, if they are free. Job 2
    with a bid is denied by FIFO, so it waits. Both nodes are taken by silent jobs 1 and 2: job 0 finds no room.
    """
    adviser = Script({1: Placement({0: 4}), 2: Placement({1: 4})})
    assert played(FifoMarket(), adviser, set()) == {1: {0: 4}, 2: {1: 4}}
    assert played(FifoMarket(), adviser, {2}) == {1: {0: 4}}
    assert played(FifoMarket(), adviser, {0}) == {1: {0: 4}, 2: {1: 4}}
    assert played(FifoMarket(), adviser, {0, 2}) == {1: {0: 4}}
    assert played(FifoMarket(), adviser, {0, 1}) == {0: {0: 4}, 2: {1: 4}}
    assert played(FifoMarket(), adviser, {0, 1, 2}) == {0: {0: 4}, 1: {1: 4}}


def test_an_adviser_that_names_plans_is_refused():
    adviser = Script({0: Placement({0: 1}, plan=ExecutionPlan())})
    with pytest.raises(AllocationError, match="job 0: the adviser names a plan"):
        played(FifoMarket(), adviser, set())


class Counting(Script):
    """Counts how often it is asked."""

    calls = 0

    def schedule(self, view):
        """Place those that are there."""
        Counting.calls += 1
        return super().schedule(view)


def test_an_adviser_is_asked_once_per_round_and_ended_episodes_have_no_proposal():
    """Loading another episode makes all nodes observe again; the adviser must not be asked a second time."""
    cluster = ClusterSpec((NodeSpec("new", 4), NodeSpec("new", 4)))
    workload = jobs_like((0, 4, 50), (0, 4, 500))
    market = AdvisedMarket(FifoMarket(), Counting({0: Placement({0: 4}), 1: Placement({1: 4})}))
    batch = BiddingBatch(Setup(cluster, Curved(), SCENARIO), workload.models, 2, 2, market)
    batch.load(0, workload, np.random.default_rng(0))
    _ = batch.observation
    assert Counting.calls == 1
    batch.load(1, workload, np.random.default_rng(0))
    _ = batch.observation
    assert Counting.calls == 2
    for _ in range(3):
        batch.step(silent(batch.observation))
    assert batch.ended.all()
    _ = batch.observation
    proposal = batch.auction.proposal
    assert proposal is not None
    assert proposal.num_rows.tolist() == proposal.num_stopped.tolist() == [0, 0]
