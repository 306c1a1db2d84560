"""The bidding environment for many episodes at once, with observations in preallocated arrays."""

import numpy as np
import numpy.typing as npt

from envs.bidding import kernels
from envs.bidding.auction import Auction, BidObservation
from envs.bidding.spec import BiddingRules
from envs.episodes import EpisodeBatch, Reward
from envs.episodes.candidates import Features
from envs.simulation import Setup
from envs.simulation.seen.clearing import plan_all
from envs.simulation.seen.fifo_market import FifoMarket
from envs.simulation.seen.market import Market
from envs.simulation.world.kernels import LOG_FULL
from envs.types import FloatArray, MurmurationError


class BiddingBatch(EpisodeBatch):
    """`batch_size` independent episodes on one cluster. A step plays one scheduling round of each.

    The other arguments are those of `EpisodeBatch`.

    Args:
        market: what clears the bids; `FifoMarket()` if None.
        rules: see its class.
    """

    def __init__(
        self,
        setup: Setup,
        models: tuple[str, ...],
        num_jobs: int,
        batch_size: int = 1,
        market: Market | None = None,
        rules: BiddingRules | None = None,
        reward: Reward | None = None,
        logging: bool = False,
    ) -> None:
        super().__init__(setup, models, num_jobs, batch_size, reward, logging)
        self.rules = rules or BiddingRules()
        self.market = market or FifoMarket()
        self.auction = Auction(setup, self.state, self.table, self.market, self.rules)
        self.spec = self.auction.spec
        self._observed = False

    @property
    def observation(self) -> BidObservation:
        """Arrays by name with a leading batch axis, overwritten after the next step. `BiddingArrays` gives the shapes.

        After steps and loads, the market proposes and the nodes observe when this is first asked for.
        """
        if not self._observed:
            self.auction.observe()
            self._observed = True
        return self.auction.observation

    def _use_table(self) -> None:
        self.auction.use_table(self.table, self.market)
        for b, workload in enumerate(self.workloads):
            if workload is not None:
                self.auction.market.begin(self.auction.worlds, b, self.view(b))

    def _begin(self, b: int) -> None:
        self.auction.market.begin(self.auction.worlds, b, self.view(b))
        self.proceed(b, b + 1)

    def step(self, actions: Features) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Clear the bids of every episode and advance it to its next round.

        An episode that has ended stays as it is until another one is loaded in its place.

        Args:
            actions: float32[B, num_nodes, num_pairs, num_bids], see `Auction.clear`.

        Returns:
            rewards float64[B], elapsed simulated seconds float64[B], ended bool[B].

        Raises:
            MurmurationError: an episode has not begun; the actions have another shape or type or leave their bounds;
                the reward is not finite, or is not one number for each episode.
            AllocationError: the market's answer does not fit.
        """
        for b in (b for b, workload in enumerate(self.workloads) if workload is None):
            raise MurmurationError(f"episode {b} has not begun; load a workload first")
        _ = self.observation  # the bids are for the jobs that stand in its rows
        before = self._totals()
        changes = self.auction.clear(actions)
        plan_all(changes, self.auction.worlds, self.state, self.table, self.exact)
        self.proceed(0, self.batch_size)
        return *self._pay(before), self.ended

    def proceed(self, first: int, last: int) -> None:
        """End the rounds of episodes `first` to `last` - 1 as planned, and advance time to their next ones."""
        self._observed = False
        if self.predicted:
            for b in range(first, last):
                while (outcome := self.predicted.pass_time(b, self.auction.worlds)) == LOG_FULL:
                    self._grow_log()
                self._outcomes[b] = outcome
            return
        kernels.proceed_all(self.auction.arrays, first, last, self._outcomes)
        while self._outcomes[first] == LOG_FULL:  # only a single episode has a log
            self._grow_log()
            kernels.proceed_all(self.auction.arrays, first, last, self._outcomes)

    def _grow_log(self) -> None:
        """Enlarge the event log."""
        self.state.grow_log()
        self.auction.use_log()
