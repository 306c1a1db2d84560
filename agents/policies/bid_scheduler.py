"""A trained bidding policy as a scheduler, which runs in the same loop as every heuristic."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from agents.networks.bidding import BidNetwork
from envs.bidding import Auction, BiddingRound, BiddingRules, BidObservation
from envs.scheduling import ClusterView
from envs.simulation import SimulationView
from envs.simulation.seen.market import Market
from envs.types import Allocation, ClusterSpec


@torch.inference_mode()
def bids_on(network: BidNetwork, observation: BidObservation) -> Any:
    """Return bids float32[B, num_nodes, num_pairs, num_bids] as an array."""
    return network.bids({name: torch.from_numpy(array) for name, array in observation.items()}).numpy()


class BiddingScheduler:
    """A bidding policy and its market as a scheduler: in each round all nodes bid once, and the market clears.

    It is deterministic. It leaves the same event log as the same policy in the bidding environment.

    Args:
        network: the policy; it plays on any cluster.
        market: what clears the bids; with bids of 0 this is the market's own scheduler.
        rules: what nodes see, as in training.
    """

    preemptive: ClassVar[bool] = True
    elastic: ClassVar[bool] = True
    information: ClassVar[str] = "none"

    def __init__(self, network: BidNetwork, market: Market, rules: BiddingRules) -> None:
        if isinstance(network, nn.Module):
            network.eval()
        self.network, self.market, self.rules = network, market, rules
        self._round = BiddingRound(market, rules)

    @property
    def auction(self) -> Auction:
        """The auction of the last round, for pictures."""
        return self._round.auction

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self._round = BiddingRound(self.market, self.rules)

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the allocation in which the market clears the bids of all nodes."""
        assert isinstance(view, SimulationView), "a policy observes a snapshot of the compiled engine"
        self._round.begin(view)
        return self._round.fill(bids_on(self.network, self._round.observation), view.allocation(keep_running=True))
