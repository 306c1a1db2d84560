"""A market for clusters on which jobs may share GPUs: the jobs that another market leaves waiting go beside others."""

from copy import copy
from dataclasses import replace

import numpy as np

from baselines.packing import PairingRule, without_guests
from envs.simulation import Setup, SimulationView, Snapshot, State, ThroughputTable
from envs.simulation.seen.clearing import fill_allocation, write_allocation
from envs.simulation.seen.market import BidArrays, Changes, Market, no_changes
from envs.simulation.world.arrays import World, batch_world
from envs.types import FloatArray


class PackedMarket:
    """`baselines.packing.Packing` as a market, on the bids of nodes.

    The inner market clears the bids on a copy of the cluster in which all guests wait. Its waiting jobs then go beside
    running ones by the rule of `Packing`; the affinities of nodes choose between those beside which a job gains enough.
    Bids of 0 give what `Packing` decides around the inner market's scheduler.

    Args:
        inner: decides who gets GPUs, in worlds in which nobody shares.
        rule: decides who shares.
    """

    def __init__(self, inner: Market, rule: PairingRule | None = None) -> None:
        self.inner, self.rule = inner, rule or PairingRule()
        self._setup: Setup
        self._proposed: Changes
        self._cleared: Changes
        self._views: dict[int, SimulationView] = {}
        self._copies: dict[int, _LonelyCopy] = {}

    def attach(self, setup: Setup, table: ThroughputTable, state: State) -> "PackedMarket":
        """Return a market for the episodes of a state; what is known of the episodes goes on."""
        market = copy(self)
        market._setup = setup
        market._proposed, market._cleared = no_changes(state, 2), no_changes(state, 2)
        market._views, market._copies = dict(self._views), dict(self._copies)
        return market

    def begin(self, worlds: World, b: int, view: SimulationView) -> None:
        """Take note of an episode."""
        self._views[b] = view

    def propose(self, worlds: World) -> Changes:
        """Return what is decided without bids."""
        return self._decide(worlds, None, self._proposed)

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """Return what is decided on bids."""
        return self._decide(worlds, bids, self._cleared)

    def _decide(self, worlds: World, bids: BidArrays | None, changes: Changes) -> Changes:
        changes.num_stopped[:], changes.num_rows[:], changes.next_decision[:] = 0, 0, np.inf
        for b in np.flatnonzero((worlds.episode["in_round"] > 0) & (worlds.episode["ended"] == 0)).tolist():
            if b not in self._copies:
                self._copies[b] = _LonelyCopy(self.inner, self._setup)
            self._copies[b].decide(self._views[b], self.rule, bids, b, changes)
        return changes


class _LonelyCopy:
    """A copy of one episode in which nobody shares, and the inner market there.

    Args:
        inner: the market, which is attached to the copy.
        setup: of the episode.
    """

    def __init__(self, inner: Market, setup: Setup) -> None:
        self._market, self._setup = inner, replace(setup, scenario=replace(setup.scenario, sharing="off"))
        self._copy: Snapshot | None = None
        self._table: ThroughputTable | None = None
        self._state: State | None = None
        self._known = (-1, -1)  # history of the episode, and its jobs at the last `begin`

    def decide(self, view: SimulationView, rule: PairingRule, bids: BidArrays | None, b: int, changes: Changes) -> None:
        """Write the decision for an episode.

        Args:
            view: its present round.
            rule: of pairs.
            bids: of the batch; None for none.
            b: the episode.
            changes: of the batch; those of the episode are empty.
        """
        copied = self._copy = without_guests(view, self._copy)
        state, table = copied.state, copied.table
        state.episode["in_round"] = 1  # applying ended the round, and the inner market decides in rounds only
        worlds = batch_world(state, table)
        believes = self._setup.scenario.information.hides_throughput  # then each round has a table of its own
        if state is not self._state or (table is not self._table and not believes):
            self._market = self._market.attach(self._setup, table, state)
            self._state, self._table, self._known = state, table, (-1, -1)
        known = int(state.episode[0, 0].history), int(state.episode[0, 0].next_job)
        if known != self._known or believes:
            self._market.begin(worlds, 0, copied.view)
            self._known = known
        if bids is None:
            decided, affinity = self._market.propose(worlds), None
        else:
            own = bids_for_copy(bids, b, state)
            decided, affinity = self._market.clear(worlds, own), own.affinity[0]
        source = copied.view if view.pairs else view
        alone = fill_allocation(decided, 0, source.allocation(keep_running=True))
        write_allocation(rule.with_pairs(view, alone, affinity), view, changes, b)


def bids_for_copy(bids: BidArrays, b: int, state: State) -> BidArrays:
    """Return the bids of one episode, for the jobs of another state of it.

    Args:
        bids: of a batch.
        b: the episode.
        state: one episode, with as many jobs or another number, of which those submitted are in both.
    """
    size = state.jobs.shape[1]

    def fit(values: FloatArray) -> FloatArray:
        fitted = np.zeros((1, size, *values.shape[2:]))
        count = min(size, values.shape[1])
        fitted[0, :count] = values[b, :count]
        return fitted

    return BidArrays(*(fit(values) for values in bids))
