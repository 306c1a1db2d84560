"""A planner that a bidding policy leads: nothing is lost against the planner, and its rollouts hear the bids."""

import numpy as np
import pytest

from baselines.planner import RolloutPlanner
from baselines.planner.leader import LedStarling, lengthened
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.bidding import BiddingRules
from envs.scheduling import ClusterView
from envs.simulation import SimulationView, Simulator, run_episode
from envs.simulation.market import BidArrays, no_bids
from envs.types import Allocation, ClusterSpec
from tests.conformance.test_starling_market import calm
from tests.unit.bidding.bidders import Bidder, loud, silent

BASE = Starling(look_ahead=2)
RULES = BiddingRules(num_candidates=5, contenders=3)


class LeadingBidder:
    """A policy that keeps its bids."""

    information, preemptive, elastic = "none", True, True

    def __init__(self, policy) -> None:
        self.bidder = Bidder(policy, StarlingMarket(BASE), RULES)

    @property
    def bids(self) -> BidArrays:
        found = self.bidder.round.auction.last_bids
        assert found is not None
        return found

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        self.bidder.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        assert isinstance(view, SimulationView)
        self.bidder.round.begin(view)
        auction = self.bidder.round.auction
        if auction.last_bids is None:
            auction.last_bids = no_bids(auction.state)
        return self.bidder.round.fill(
            self.bidder.policy(self.bidder.round.observation), view.allocation(keep_running=True)
        )


def played(scheduler, seed: int):
    world = calm(seed)
    return run_episode(scheduler, Simulator(world.workload, world.setup, seed), compiled=False).log


@pytest.mark.parametrize("seed", range(6))
def test_below_two_rollouts_it_is_the_leader(seed: int) -> None:
    expected = played(Bidder(loud, StarlingMarket(BASE), RULES), seed)
    for rollouts in (0, 1):
        assert played(RolloutPlanner(BASE, rollouts, leader=LeadingBidder(loud)), seed) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_leader_without_bids_adds_nothing(seed: int) -> None:
    """The leader's allocation is the base's, which is known already when it is proposed again."""
    plain, led = RolloutPlanner(BASE, 4), RolloutPlanner(BASE, 4, leader=LeadingBidder(silent))
    assert played(led, seed) == played(plain, seed)


@pytest.mark.parametrize("seed", [1, 5])
def test_rollouts_hear_the_bids(seed: int) -> None:
    """Some rounds, played to the end under the bids and under none, end in different ways."""
    world, differ = calm(seed, choice=False), 0  # whole episodes are played at usual batch sizes only
    simulator, leader = Simulator(world.workload, world.setup, seed), LeadingBidder(loud)
    leader.reset(simulator.cluster, simulator.rng)
    while simulator.advance():
        allocation, ends = leader.schedule(simulator.view), []
        for bids in (leader.bids, BidArrays(*(np.zeros_like(array) for array in leader.bids))):
            led = LedStarling(BASE)
            led.reset(simulator.cluster, simulator.rng)
            led.follow(bids)
            copy = simulator.view.snapshot()
            copy.apply(allocation)
            assert led.play(copy)
            ends.append(float(copy.state.episode[0, 0].job_seconds))
        differ += ends[0] != ends[1]
        simulator.apply(allocation)
    assert differ > 0


def test_jobs_that_come_later_have_no_bids() -> None:
    assert lengthened(np.array([0.5, -1.0]), 4).tolist() == [0.5, -1.0, 0.0, 0.0]
    assert lengthened(np.ones((1, 3)), 2).tolist() == [[1.0] * 3, [0.0] * 3]
    assert lengthened(np.zeros(0), 4).size == 0
