"""What a teacher's choices are worth: on sampled futures, against what the market decides without bids.

With a planner as teacher this is expert iteration (Anthony, Tian and Barber, NeurIPS'17): a search chooses, and a
policy learns its choices. A search takes the best of many, so its choice looks better on the futures that chose it than
it is. Here other futures judge it, and what is no better there is not learnt.
"""

from typing import NamedTuple

import numpy as np

from agents.branching.sampling import copy_changes, equal_changes
from envs.bidding import BiddingBatch
from envs.episodes.backlog import backlog_seconds, observe_backlog
from envs.episodes.branches import Branches
from envs.episodes.candidates import Features
from envs.simulation.market import BidArrays, Changes
from envs.types import FloatArray, Seconds
from envs.workloads import WorkloadSource

MOST_WEIGHT = 3.0  # of a round, where 1 is the usual one
REMEMBERED = 0.02  # weight of a new gain in the running mean


class Judged(NamedTuple):
    """The rounds of a batch after judgement.

    Attributes:
        bids: float32[B, num_nodes, num_pairs, num_bids], the teacher's where they are better than none, else 0.
        weights: float32[B], 1 where the market decides the same without bids or nothing was gained; else the gain in
            units of the usual one, at most `MOST_WEIGHT`.
        gains: float64[B], job-seconds saved on average; 0 where the market decides the same.
    """

    bids: Features
    weights: Features
    gains: FloatArray


class FutureJudge:
    """Plays a teacher's bids and none in several futures, in which other jobs arrive, up to a horizon.

    Futures are those of `Branches.redraw_arrivals`: the jobs to come are those of another training episode. What is
    left at the horizon is estimated by `observe_backlog`.

    Args:
        batch: whose rounds are judged.
        source: draws the futures from its training split.
        futures: number of futures for each choice.
        horizon: simulated seconds for which a choice is played on.
        seed: of the futures.
    """

    def __init__(self, batch: BiddingBatch, source: WorkloadSource, futures: int, horizon: Seconds, seed: int) -> None:
        self.batch, self.source, self.futures, self.horizon = batch, source, futures, horizon
        self.branches = Branches(batch, 2 * futures, batch.market)
        self.usual = 0.0  # running mean of what better choices gain, in job-seconds
        self._rng = np.random.default_rng(seed)

    def judge(self, bids: Features) -> Judged:
        """Judge bids for the present rounds of all episodes, which must have been observed."""
        own = copy_changes(self.batch.auction.clear(np.zeros_like(bids)))
        taught = copy_changes(self.batch.auction.clear(bids))
        gains = np.zeros(len(bids))
        for b in range(len(bids)):
            if not self.batch.ended[b] and not equal_changes(own, taught, b):
                gains[b] = self.gains(b, own, taught, self._rng).mean()
        better = gains > 0
        for gain in gains[better].tolist():
            self.usual += (gain - self.usual) * (REMEMBERED if self.usual else 1.0)
        weights = np.where(better, np.minimum(gains / max(self.usual, 1e-9), MOST_WEIGHT), 1.0)
        silent = (gains <= 0) & (bids.any(axis=(1, 2, 3)))
        return Judged(np.where(silent[:, None, None, None], np.float32(0.0), bids), weights.astype(np.float32), gains)

    def gains(
        self, b: int, own: Changes, taught: Changes, rng: np.random.Generator, held: BidArrays | None = None
    ) -> FloatArray:
        """Return the job-seconds that one round's choice saves in each future, float64[futures].

        Args:
            b: an episode that is in a round.
            own: the choice to compare with: a market's answer for the whole batch.
            taught: the choice to judge, likewise.
            rng: draws the futures.
            held: bids for the whole batch under which the market goes on; None for none.
        """
        branches, count = self.branches, self.futures
        places, episodes = np.arange(2 * count), np.full(2 * count, b)
        drawn = [self.source.episode(rng, "train") for _ in range(count)]
        branches.copy(places, episodes)
        for place in places.tolist():
            branches.redraw_arrivals(place, b, drawn[place % count])
        branches.plan(places[:count], own, episodes[:count])
        branches.plan(places[count:], taught, episodes[count:])
        if held is not None:
            branches.hold(places, held, episodes)
        until = np.full(2 * count, float(self.batch.time[b]) + self.horizon)
        costs = branches.play(places, until).total()
        costs += backlog_seconds(observe_backlog(branches.state, branches.table, places))
        saved: FloatArray = costs[:count] - costs[count:]
        return saved
