"""Bids give one result as agents and as a scheduler, and none of them give the market's own decision."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from baselines.fifo import Fifo
from envs.bidding import BiddingRules
from envs.simulation import EventKind, Failures, Information, Rounds, Scenario, Setup, Simulator, run_episode
from envs.simulation.seen.fifo_market import FifoMarket
from envs.simulation.seen.market import Market
from tests.conformance.audit import check_run
from tests.conformance.random_worlds import random_world
from tests.conformance.worlds import CLUSTERS, HETEROGENEOUS, SCENARIOS, Curved
from tests.unit.bidding.bidders import Bidder, WhimMarket, loud, rolled_out, silent
from tests.unit.episodes.players import bursts

MARKETS: dict[str, Market] = {"fifo": FifoMarket(), "strict fifo": FifoMarket(skip=False), "whims": WhimMarket()}
RULES = {
    "default": BiddingRules(),
    "narrow": BiddingRules(num_candidates=2, queue_order="fifo", contenders=2),
    "no graph": BiddingRules(num_candidates=5, queue_order="least_service", contenders=0),
}


@pytest.mark.parametrize("policy", [silent, loud])
@pytest.mark.parametrize("market", sorted(MARKETS))
@pytest.mark.parametrize("rules", sorted(RULES))
def test_agents_and_scheduler_leave_one_log(policy, market, rules):
    """The same policy as agents and as a scheduler, on every scenario: every event is equal, to the bit."""
    for number, (name, scenario) in enumerate(SCENARIOS.items()):
        cluster = list(CLUSTERS.values())[(number + sorted(RULES).index(rules)) % 2]
        workload = bursts(len(name), num_jobs=10, models=("any", "large"))
        setup = Setup(cluster, Curved(), scenario)
        batch = rolled_out(policy, MARKETS[market], setup, workload, 0, RULES[rules])
        result = run_episode(Bidder(policy, MARKETS[market], RULES[rules]), Simulator(workload, setup))
        assert batch.state.log(0) == result.log, (name, cluster.name)
        assert (result.log.events["kind"] == EventKind.START).sum() >= 3
        if scenario.worker_shares == "proportional":  # as the audit recomputes it
            check_run(result, Curved(), scenario)


@pytest.mark.parametrize("seed", range(8))
def test_they_do_so_where_everything_counts(seed):
    """Cores, memory, contention, estimates and named cores."""
    world = random_world(seed)
    horizon = min(world.setup.scenario.horizon, 3000.0)
    scenario = replace(world.setup.scenario, failures=None, horizon=horizon)
    setup = replace(world.setup, scenario=scenario)
    rules = BiddingRules(num_candidates=5, contenders=3)
    batch = rolled_out(loud, WhimMarket(), setup, world.workload, seed, rules)
    result = run_episode(Bidder(loud, WhimMarket(), rules), Simulator(world.workload, setup, seed))
    assert batch.state.log(0) == result.log
    assert (result.log.events["kind"] == EventKind.START).any()


@pytest.mark.parametrize("seed", range(6))
def test_they_do_so_where_nodes_fail(seed):
    """Work is known exactly or not at all, since environment and simulator draw estimates and failures differently."""
    world = random_world(seed)
    work: Literal["exact", "none"] = "none" if seed % 3 == 0 else "exact"
    failures = Failures(mtbf=90.0, repair_time=50.0, checkpoint_interval=10.0)
    scenario = replace(world.setup.scenario, failures=failures, information=Information(work), horizon=1500.0)
    setup = replace(world.setup, scenario=scenario)
    batch = rolled_out(loud, WhimMarket(), setup, world.workload, seed, failing=True)
    result = run_episode(Bidder(loud, WhimMarket()), Simulator(world.workload, setup, seed))
    assert batch.state.log(0) == result.log
    assert (result.log.events["kind"] == EventKind.DOWN).any()


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
@pytest.mark.parametrize("interval", [None, 10.0])
def test_without_bids_the_market_schedules_as_by_itself(skip, cluster, interval):
    """The FIFO market without bids is the FIFO of the baselines, an independent implementation."""
    rounds = Rounds(on_events=interval is None, interval=interval)
    setup = Setup(CLUSTERS[cluster], Curved(), Scenario(restart_delay=2.0, horizon=1e7, rounds=rounds))
    for seed in range(2):
        most = 8 if cluster == "homogeneous" else 6  # a job larger than every GPU type may span them in another order
        workload = bursts(seed, num_jobs=25, most_gpus=most, models=("any", "large"))
        batch = rolled_out(silent, FifoMarket(skip), setup, workload, seed)
        fifo = run_episode(Fifo("skip" if skip else "none"), Simulator(workload, setup))
        assert batch.state.log(0) == fifo.log


def test_bids_change_the_result():
    """The test above would pass for a market that is deaf."""
    setup = Setup(HETEROGENEOUS, Curved(), Scenario(horizon=1e7))
    workload = bursts(0, num_jobs=25, models=("any", "large"))
    logs = [rolled_out(policy, FifoMarket(), setup, workload, 0).state.log(0) for policy in (silent, loud)]
    assert logs[0] != logs[1]


@pytest.mark.parametrize("seed", range(2))
def test_a_proposal_is_what_silence_clears(seed):
    """In every round, `clear` on bids of 0 equals `propose`, and neither overwrites the other."""
    world = random_world(seed)
    setup = replace(world.setup, scenario=replace(world.setup.scenario, failures=None))
    for market in (FifoMarket(), WhimMarket()):
        batch = rolled_out(silent, market, setup, world.workload, seed, BiddingRules(num_candidates=3))
        assert batch.ended[0]
        batch.load(0, world.workload, np.random.default_rng(seed))
        for _ in range(15):
            actions = silent(batch.observation)
            changes, proposal = batch.auction.clear(actions), batch.auction.proposal
            assert proposal is not None
            assert changes.num_rows[0] == proposal.num_rows[0]
            count = int(changes.num_rows[0])
            assert str(changes.rows[0, :count]) == str(proposal.rows[0, :count])
            assert changes.stopped[0, : changes.num_stopped[0]].tolist() == (
                proposal.stopped[0, : proposal.num_stopped[0]].tolist()
            )
            batch.step(actions)
