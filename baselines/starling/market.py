"""Starling as a market: it proposes an allocation for every episode of a batch, and clears the bids of node agents."""

from copy import copy
from typing import Any

import numpy as np

from baselines.packed_market import PackedMarket
from baselines.parts.scalability import Analyser
from baselines.starling.batch_bids import name_batches, shift_batches
from baselines.starling.compiled import Deciding, changed_rows, deciding, propose
from baselines.starling.episode_jobs import BatchTables, EpisodeJobs
from baselines.starling.exploring import Exploration
from baselines.starling.offsets import NO_OFFSETS, Offsets
from baselines.starling.round import Proposal, StarlingRules
from baselines.starling.scheduler import Starling
from baselines.starling.tables import JobTables, NodeTables, tables_of_nodes
from envs.scheduling import ClusterView
from envs.simulation import Setup, SimulationView, State, ThroughputTable
from envs.simulation.compiled.jit import jit
from envs.simulation.seen.clearing import placements_of
from envs.simulation.seen.market import BidArrays, Changes, Market, add_row, clear_changes, in_round, no_changes
from envs.simulation.seen.overriding import find_override
from envs.simulation.world.arrays import World, slice_batch
from envs.simulation.world.exact import ExactThroughputs
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError


@jit
def tables_of_episode(shared: JobTables, by_job: IntArray, requested: FloatArray) -> JobTables:
    """Return the tables with the arrays by job of one episode."""
    return JobTables(
        by_job[0],
        by_job[1],
        by_job[2],
        requested,
        shared.throughputs,
        shared.most_nodes,
        shared.corners,
        shared.sizes,
        shared.gpu_factor,
        shared.knee_throughput,
        shared.knee_gpus,
        shared.least,
        shared.start_gpus,
        shared.start_types,
        shared.spanning,
        shared.shapes,
    )


@jit
def write_changes(proposal: Proposal, changed: BoolArray, changes: Changes, b: int) -> None:
    """Write what a proposal changes."""
    for row in range(len(changed)):
        if not changed[row]:
            continue
        if proposal.grid[row].sum() == 0:
            changes.stopped[b, changes.num_stopped[b]] = proposal.jobs[row]
            changes.num_stopped[b] += 1
            continue
        for node in range(proposal.grid.shape[1]):
            if proposal.grid[row, node] > 0:
                add_row(changes, b, proposal.jobs[row], node, proposal.grid[row, node])


@jit
def clear_starling(
    decision: Deciding,
    worlds: World,
    shared: JobTables,
    by_job: IntArray,
    requested: FloatArray,
    site: NodeTables,
    rules: StarlingRules,
    look_ahead: int,
    bids: BidArrays,
    changes: Changes,
) -> None:
    """Decide in every episode that is in a round.

    Args:
        decision: see `baselines.starling.compiled.deciding`.
        worlds: a batch.
        shared: see `BatchTables`.
        by_job: likewise.
        requested: likewise.
        site: fixed properties of the nodes.
        rules: of Starling.
        look_ahead: of Starling.
        bids: of each episode; arrays without jobs stand for zeros.
        changes: overwritten.
    """
    for b in range(len(worlds.episode)):
        world = slice_batch(worlds, b)
        clear_changes(changes, b)
        if not in_round(world):
            continue
        offsets = Offsets(
            bids.priority[b], bids.size[b], bids.growth[b], bids.restart[b], bids.cores[b], bids.affinity[b]
        )
        tables = tables_of_episode(shared, by_job[b], requested[b])
        proposal = propose(decision, world, tables, site, rules, look_ahead, offsets)
        write_changes(proposal, changed_rows(proposal), changes, b)


class StarlingMarket:
    """Starling with bids as offsets to its own view of the jobs; see `baselines.starling.offsets.Offsets`.

    Bids of 0 give what `Starling.schedule` decides, to the bit. Where throughputs must be found out, it decides on the
    beliefs of the view that `begin` is given, so `begin` is called in every round, and it explores as Starling does.
    Where jobs may share GPUs, those that Starling leaves waiting go beside others, as `baselines.packing.Packing` does.

    Where the scenario lets batch sizes be chosen, it names those of best goodput, if Starling does. A bid for a batch
    size moves the one that is named (`baselines.starling.batch_bids.shifted_batch`) when the job starts, or gets other
    GPUs; it moves no GPUs. In all candidates a job counts with its best goodput, whatever is bid.

    Args:
        starling: its settings; `Starling()` if None.

    Raises:
        MurmurationError: `starling` overrides a method or an attribute of `Starling`, whose decision this is.
    """

    def __init__(self, starling: Starling | None = None) -> None:
        self.starling = starling or Starling()
        if overridden := find_override(self.starling, Starling):
            raise MurmurationError(
                f"StarlingMarket: {type(self.starling).__name__} has its own `{overridden}`, which this market does "
                "not call; pass a Starling with other options"
            )
        self._setup: Setup
        self._table: ThroughputTable
        self._exact: ExactThroughputs
        self._analyser: Analyser | None = None
        self._look_ahead = 0
        self._shape: tuple[int, int]
        self._tables: BatchTables | None = None
        self._site: NodeTables
        self._rules: StarlingRules
        self._proposed: Changes
        self._cleared: Changes
        self._silent: BidArrays
        self._decision: Deciding | None = None
        self._explorations: dict[int, tuple[Exploration, SimulationView]] = {}  # by episode, with its present view

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the kernels' addresses, which mean nothing in another process."""
        return self.__dict__ | {"_decision": None}

    def attach(self, setup: Setup, table: ThroughputTable, state: State) -> Market:
        """Return a market with tables for the episodes of a state; what an attached one explores goes on.

        Where jobs may share GPUs, it is a `PackedMarket` around this one.
        """
        if setup.scenario.sharing != "off":
            return PackedMarket(self).attach(setup, table, state)
        market = copy(self)
        market._explorations = dict(self._explorations)
        market._analyser, market._tables, market._decision = None, None, None
        market._setup, market._table, market._exact = setup, table, ExactThroughputs(setup)
        if self.starling.batch == "best" and setup.scenario.batch_sizes != "usual":
            market._analyser = Analyser("best", self.starling.measured_only)
        market._shape = (state.jobs.shape[0], state.jobs.shape[1])
        counted = self.starling.shared == "counted"
        market._site = tables_of_nodes(setup.cluster, table.shared_resources(setup.scenario), counted=counted)
        market._proposed, market._cleared = no_changes(state), no_changes(state)
        batch, nodes = len(state.jobs), state.nodes.shape[1]
        priority, size, growth, restart, cores, sizes = np.zeros((6, batch, 0))
        market._silent = BidArrays(priority, size, growth, restart, cores, np.zeros((batch, 0, nodes)), sizes)
        return market

    def begin(self, worlds: World, b: int, view: SimulationView) -> None:
        """Look up the jobs of an episode."""
        if self._tables is None:
            starling = self.starling
            known = bool(worlds.episode[b, 0].knows_work)
            tuning = starling.known if known else starling.unknown
            self._look_ahead = starling.look_ahead if known else starling.hidden_look_ahead
            knees = (tuning.knee, *(variant.knee for variant in starling.variants))
            gangs = (tuning.gang, *(variant.gang for variant in starling.variants))
            self._tables, self._rules = BatchTables(knees, gangs, self._analyser, *self._shape), starling.rules(tuning)
        if self._setup.scenario.information.hides_throughput:
            self._tables.believe(b, self._hope(b, view) if worlds.episode[b, 0].knows_work else view)
        else:
            self._tables.enter(b, EpisodeJobs(worlds, b, self._setup.cluster, self._table, self._exact))

    def _hope(self, b: int, view: SimulationView) -> ClusterView:
        """Return the view with what exploration hopes for, see `Exploration.hope`."""
        if self.starling.exploration is None:
            return view
        exploration, _ = self._explorations.get(b) or (Exploration(self.starling.exploration.rules), view)
        self._explorations[b] = exploration, view
        return exploration.hope(view)

    def propose(self, worlds: World) -> Changes:
        """Return what Starling would decide."""
        return self._decide(worlds, self._silent, self._proposed)

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """Return what Starling decides with bids as offsets."""
        cleared = self._decide(worlds, bids, self._cleared)
        for b, (exploration, view) in self._explorations.items():
            stopped = dict.fromkeys(cleared.stopped[b, : cleared.num_stopped[b]].tolist())
            cleared.next_decision[b] = exploration.next_look(view, stopped | placements_of(cleared, b))
        return cleared

    def _decide(self, worlds: World, bids: BidArrays, changes: Changes) -> Changes:
        assert self._tables is not None, "begin an episode first"
        tables = self._tables
        shared = tables.shared
        self._decision = self._decision or deciding(shared, self._site, self._rules, NO_OFFSETS)
        clear_starling(
            self._decision,
            worlds,
            shared,
            tables.by_job,
            tables.requested,
            self._site,
            self._rules,
            self._look_ahead,
            bids,
            changes,
        )
        if self._analyser is not None:
            self._name_batches(tables, bids, changes)
        return changes

    def _name_batches(self, tables: BatchTables, bids: BidArrays, changes: Changes) -> None:
        """Name the batch sizes of all episodes' changes."""
        measured_only = self.starling.measured_only
        for b in np.flatnonzero(changes.num_rows).tolist():
            knees, jobs = tables.entered(b)
            name_batches(changes, b, self._site.types, knees.submitted)
            if bids.batch.size:
                shift_batches(changes, b, bids.batch[b], jobs, measured_only=measured_only)
