"""One round of bids over the episodes of a state: what the environment and a trained policy as a scheduler share."""

import numpy as np
import numpy.typing as npt

from envs.bidding import kernels
from envs.bidding.arrays import OBSERVATION_KEYS, allocate_bidding
from envs.bidding.columns import BID_BATCH, BID_COLUMNS
from envs.bidding.spec import BiddingRules, BiddingSpec
from envs.episodes.candidates import Features
from envs.simulation import Setup, SimulationView, Snapshot, State, ThroughputTable
from envs.simulation.seen.clearing import fill_allocation
from envs.simulation.seen.market import Changes, Market, no_bids
from envs.simulation.world.arrays import World, batch_world
from envs.types import Allocation, MurmurationError

BidObservation = dict[str, npt.NDArray[np.generic]]


class Auction:
    """Nodes that bid in a batch of episodes, and the market that clears their bids, without advancing time.

    Args:
        setup: cluster, performance model and scenario of all episodes.
        state: the engine's arrays; the auction does not change them.
        table: throughputs of the models in the state.
        market: proposes and clears; the auction attaches its own copy.
        rules: see its class.
    """

    def __init__(self, setup: Setup, state: State, table: ThroughputTable, market: Market, rules: BiddingRules) -> None:
        self.setup, self.state, self.table = setup, state, table
        self.spec = BiddingSpec.of(setup.cluster, rules, setup.scenario)
        self.market = market.attach(setup, table, state)
        self.arrays = allocate_bidding(state, self.spec, rules, table)
        self.bids = no_bids(state)
        self.proposal: Changes | None = None
        self._weights = np.zeros(self.spec.num_job_rows)

    @property
    def worlds(self) -> World:
        """The engine's arrays for compiled code."""
        return self.arrays.world

    @property
    def observation(self) -> BidObservation:
        """The current observation by name, with a leading batch axis; the next one overwrites the arrays."""
        return {name: getattr(self.arrays, name) for name in OBSERVATION_KEYS}

    @property
    def action_shape(self) -> tuple[int, int, int, int]:
        """Shape of joint actions: [B, num_nodes, num_pairs, num_bids]."""
        return (len(self.arrays.sizes), self.spec.num_nodes, self.spec.num_pairs, self.spec.num_bids)

    def use_table(self, table: ThroughputTable, market: Market) -> None:
        """Use another throughput table, which a workload with larger jobs or other models needs."""
        self.table = table
        self.market = market.attach(self.setup, table, self.state)
        self.arrays = self.arrays._replace(world=batch_world(self.state, table))

    def use_beliefs(self, table: ThroughputTable) -> None:
        """Use the throughputs that are believed in this round; models and sizes are those of before."""
        self.table = table
        self.arrays = self.arrays._replace(world=batch_world(self.state, table))

    def use_log(self) -> None:
        """Use the state's present log arrays, after they have grown."""
        world = self.worlds._replace(events=self.state.events, log_shares=self.state.log_shares)
        self.arrays = self.arrays._replace(world=world)

    def observe(self) -> None:
        """Ask the market for its proposals and write the observation of every episode."""
        self.proposal = self.market.propose(self.worlds)
        kernels.observe_batch(self.arrays, self.proposal)

    def clear(self, actions: Features) -> Changes:
        """Return what the market decides on the bids of the nodes, which must have observed the present round.

        Args:
            actions: float32[B, num_nodes, num_pairs, num_bids], each -1 ... 1; see `envs.bidding.columns`. Entries for
                empty pairs have no effect. The last column may be left out, which counts as 0, and may be given where
                batch sizes are fixed, which has no effect: a policy plays in all worlds.

        Raises:
            MurmurationError: the actions have another shape or type, or leave their bounds.
        """
        width = actions.shape[-1] if getattr(actions, "ndim", 0) == 4 else 0
        wide = width if width in (BID_BATCH, len(BID_COLUMNS)) else self.spec.num_bids
        check_actions(actions, (*self.action_shape[:3], wide))
        assert self.proposal is not None, "observe first"
        kernels.collect_batch(self.arrays, self.proposal, actions, self.bids, self._weights)
        changes = self.market.clear(self.worlds, self.bids)
        kernels.erase_batch(self.arrays, self.bids)
        return changes


def check_actions(actions: Features, shape: tuple[int, ...]) -> None:
    """Assert that actions have a shape, are float32 and lie in -1 ... 1.

    Raises:
        MurmurationError: they do not.
    """
    check_form(actions, shape)
    if actions.size and not (actions.min() >= -1.0 and actions.max() <= 1.0):
        place = np.argwhere(~(np.abs(actions) <= 1.0))[0].tolist()
        raise MurmurationError(f"action {place} is {actions[tuple(place)]}; it must lie in -1 ... 1")


def check_form(actions: Features, shape: tuple[int, ...]) -> None:
    """Assert that actions have a shape and are float32.

    Raises:
        MurmurationError: they do not.
    """
    if not isinstance(actions, np.ndarray) or actions.shape != shape or actions.dtype != np.float32:
        found = f"{actions.dtype}{list(actions.shape)}" if isinstance(actions, np.ndarray) else repr(actions)
        raise MurmurationError(f"actions are {found}; they must be float32{list(shape)}")


class BiddingRound:
    """Rounds of bids on a snapshot, with which a policy implements `Scheduler.schedule`.

    In each round call `begin`, compute actions from `observation`, then `fill`.

    Args:
        market: proposes and clears.
        rules: see its class.
    """

    def __init__(self, market: Market, rules: BiddingRules) -> None:
        self.market, self.rules = market, rules
        self._snapshot: Snapshot | None = None
        self._auction: Auction | None = None
        self._submitted = -1

    @property
    def auction(self) -> Auction:
        """The auction of the present round."""
        assert self._auction is not None, "call begin first"
        return self._auction

    @property
    def observation(self) -> BidObservation:
        """The observation of the present round with a batch axis of 1, see `Auction.observation`."""
        return self.auction.observation

    def begin(self, view: SimulationView) -> None:
        """Take a snapshot at the beginning of a round and observe it."""
        before = self._snapshot
        snapshot = self._snapshot = view.snapshot(into=before)
        auction = self._auction
        believes = snapshot.setup.scenario.information.hides_throughput
        if auction is not None and believes and auction.state is snapshot.state:
            auction.use_beliefs(snapshot.table)
        if auction is None or auction.state is not snapshot.state or auction.table is not snapshot.table:
            market = self.market if auction is None else auction.market
            auction = self._auction = Auction(snapshot.setup, snapshot.state, snapshot.table, market, self.rules)
            self._submitted = -1
        submitted = int(snapshot.state.episode[0, 0].next_job)
        if submitted != self._submitted or believes:
            auction.market.begin(auction.worlds, 0, snapshot.view)
            self._submitted = submitted
        auction.observe()

    def fill(self, actions: Features, allocation: Allocation) -> Allocation:
        """Clear the bids and write the result into an allocation that keeps running jobs.

        Args:
            actions: float32[1, num_nodes, num_pairs, num_bids], see `Auction.clear`.
            allocation: `view.allocation(keep_running=True)`.

        Raises:
            MurmurationError: as `Auction.clear`.
        """
        return fill_allocation(self.auction.clear(actions), 0, allocation)
