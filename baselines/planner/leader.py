"""Planners that are led: a scheduler that bids decides first, and Starling continues under its bids."""

import math
from typing import Protocol, runtime_checkable

import numpy as np

from baselines.starling import Starling
from baselines.starling.offsets import NO_OFFSETS, Offsets
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Simulator, plays_compiled
from envs.simulation.market import BidArrays
from envs.types import Allocation, ClusterSpec, FloatArray, Seconds


@runtime_checkable
class Leader(Scheduler, Protocol):
    """A scheduler that bids in a market of Starling."""

    @property
    def bids(self) -> BidArrays:
        """The bids of its last decision, for a batch of one episode; arrays may be overwritten by the next one."""
        ...


class LedStarling:
    """Starling under bids that stay as they are: what rollouts take for the leader, whose bids change in every round.

    Jobs that come later have bids of 0.

    Args:
        starling: decides.

    Attributes:
        offsets: the bids.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(self, starling: Starling) -> None:
        self.starling = starling
        self.offsets = NO_OFFSETS

    def follow(self, bids: BidArrays) -> None:
        """Take the bids of a decision."""
        self.offsets = Offsets(*(getattr(bids, name)[0] for name in Offsets._fields))

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.starling.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Decide without bids; rollouts ask for this only where Starling cannot play in compiled code."""
        return self.starling.schedule(view)

    def play(self, simulator: Simulator, *, rounds: int | None = None, until: Seconds = math.inf) -> bool:
        """Play under the bids; see `Starling.play`. Return False if that does not stand for the scheduler's rule."""
        if not plays_compiled(self.starling):
            return False
        jobs = simulator.state.jobs.shape[1]
        offsets = Offsets(*(lengthened(array, jobs) for array in self.offsets))
        return self.starling.play(simulator, rounds=rounds, until=until, offsets=offsets)


def lengthened(array: FloatArray, jobs: int) -> FloatArray:
    """Return an array by job with zeros for further jobs; as it is if it is empty or long enough."""
    if len(array) == 0 or len(array) >= jobs:
        return array
    return np.concatenate([array, np.zeros((jobs - len(array), *array.shape[1:]))])
