"""Starling as a market: it proposes an allocation for every episode of a batch, and clears the bids of node agents."""

import copy
from typing import Any

import numpy as np

from baselines.parts.scalability import AnalysedJobs, Analyser
from baselines.parts.submitted import SubmittedJobs
from baselines.starling.compiled import Deciding, EveryJob, changed_rows, deciding, propose
from baselines.starling.knee import Knees, ScalingGroups
from baselines.starling.offsets import NO_OFFSETS, Offsets
from baselines.starling.round import Proposal, StarlingRules
from baselines.starling.scheduler import Starling
from baselines.starling.tables import JobTables, NodeTables, tables_of_jobs, tables_of_nodes
from envs.simulation import Setup, SimulationView, State, ThroughputTable
from envs.simulation.clearing import changed_placements
from envs.simulation.exact import ExactThroughputs
from envs.simulation.jit import jit
from envs.simulation.market import BidArrays, Changes, add_row, clear_changes, in_round, no_changes
from envs.simulation.world import World, slice_batch
from envs.types import BoolArray, ClusterSpec, Configuration, FloatArray, IntArray, JobId, JobSpec

RANGES = ("min_gpus", "max_gpus", "min_batch", "max_batch")  # of a job; jobs of one model that share them scale alike


class EpisodeJobs(EveryJob):
    """The jobs of one episode of a batch as submitted, future ones included; see `EveryJob`."""

    def __init__(
        self, worlds: World, b: int, cluster: ClusterSpec, table: ThroughputTable, exact: ExactThroughputs
    ) -> None:
        jobs = worlds.jobs[b]
        columns = jobs[jobs["submit"] < np.inf]
        self.cluster = cluster
        self.num_gpus, self.min_gpus = columns["num_gpus"].copy(), columns["min_gpus"].copy()
        self.max_gpus, self.model = columns["max_gpus"].copy(), columns["model"].copy()
        self.min_batch, self.max_batch = columns["min_batch"].copy(), columns["max_batch"].copy()
        self._table, self._exact = table, exact

    def job(self, job: JobId) -> JobSpec:
        """See `ClusterView.job`; of its columns, those on which throughputs depend."""
        requested, least, most, low, high = (int(getattr(self, name)[job]) for name in ("num_gpus", *RANGES))
        return JobSpec(job, 0.0, requested, np.nan, self._model(job), least, most, low, high)

    def goodput(self, job: JobId, configuration: Configuration) -> float:
        """See `ClusterView.goodput`."""
        return self._exact.goodput(self._model(job), configuration)

    def batch_range(self, job: JobId, gpu_type: str, num_gpus: int) -> tuple[int, int] | None:
        """See `ClusterView.batch_range`."""
        low, high = int(self.min_batch[job]), int(self.max_batch[job])
        return self._exact.batches.offered(self._model(job), gpu_type, num_gpus, low, high)

    def _model(self, job: JobId) -> str:
        return self._table.models[int(self.model[job])]

    def continues(self, earlier: "EpisodeJobs") -> bool:
        """Whether these are the jobs of an earlier round and perhaps further ones, as on snapshots of one episode."""
        count = len(earlier.model)
        return len(self.model) >= count and all(
            np.array_equal(getattr(self, name)[:count], getattr(earlier, name))
            for name in ("num_gpus", "model", *RANGES)
        )


class BatchTables:
    """`JobTables` of all episodes of a batch. Jobs of equal scaling form one group, in whichever episodes they are.

    Args:
        thresholds: knees of the variants, see `Knees`.
        gangs: `gang` of the variants.
        analyser: finds the batch sizes of best goodput; None leaves all batch sizes to the world.
        batch_size: number of episodes.
        num_jobs: the largest number of jobs of one episode.

    Attributes:
        by_job: int64[batch_size, 3, num_jobs], group, model and requested GPUs of each job.
        requested: float64[batch_size, num_jobs], samples/s on the requested GPUs.
        shared: the tables of the groups; its arrays by job are those of the episode that was entered last.
    """

    def __init__(
        self,
        thresholds: tuple[float, ...],
        gangs: tuple[float, ...],
        analyser: Analyser | None,
        batch_size: int,
        num_jobs: int,
    ) -> None:
        self._thresholds, self._gangs, self._analyser = thresholds, gangs, analyser
        self._index: dict[tuple[int, ...], int] = {}
        self._groups: list[ScalingGroups] = []
        self._entered: dict[int, tuple[Knees, EpisodeJobs]] = {}
        self.by_job: IntArray = np.zeros((batch_size, 3, num_jobs), np.int64)
        self.requested: FloatArray = np.zeros((batch_size, num_jobs))
        self.shared: JobTables

    def enter(self, b: int, jobs: EpisodeJobs) -> None:
        """Enter the jobs of an episode in place of those that it had."""
        knees = self._look_up(b, jobs)
        columns = [getattr(jobs, name).tolist() for name in ("model", *RANGES)]
        keys = list(zip(*columns, strict=True))
        known = len(self._groups)
        for job, key in enumerate(keys):
            if key not in self._index:
                self._index[key] = len(self._groups)
                self._groups.append(group_of(knees.by_group, int(knees.group[job])))
        count = len(keys)
        self.by_job[b, 0, :count] = [self._index[key] for key in keys]
        self.by_job[b, 1, :count], self.by_job[b, 2, :count] = knees.model, knees.num_gpus
        self.requested[b, :count] = knees.requested_throughput
        if len(self._groups) > known:
            stacked = ScalingGroups(*(np.array(values) for values in zip(*self._groups, strict=True)))
            everything = copy.copy(knees)  # the episode's own groups stay as they are
            everything.by_group = stacked._replace(sizes=np.ascontiguousarray(stacked.sizes.swapaxes(0, 1)))
            self.shared = tables_of_jobs(everything, self._gangs)

    def submitted(self, b: int) -> SubmittedJobs:
        """Return the batch sizes of an episode's jobs, and the throughputs that follow from them."""
        return self._entered[b][0].submitted

    def _look_up(self, b: int, jobs: EpisodeJobs) -> Knees:
        """Return the sizes of an episode's jobs; those that were entered before are not looked up again."""
        knees, earlier = self._entered.get(b, (None, None))
        if knees is None or earlier is None or not jobs.continues(earlier):
            analysed = None if self._analyser is None else AnalysedJobs(self._analyser, jobs.cluster)
            knees = Knees(self._thresholds, analysed)
        knees.look_up(jobs.view)
        self._entered[b] = knees, jobs
        return knees


def group_of(groups: ScalingGroups, place: int) -> ScalingGroups:
    """Return one group, without the axis of groups."""
    taken = {name: np.asarray(getattr(groups, name)[place]) for name in groups._fields if name != "sizes"}
    return ScalingGroups(**taken, sizes=groups.sizes[:, place])


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


def name_batches(changes: Changes, b: int, gpu_types: IntArray, submitted: SubmittedJobs) -> None:
    """Name in the changes of an episode the batch sizes of its jobs' throughputs.

    Args:
        changes: their rows name no batch size; changed in place.
        b: the episode.
        gpu_types: int64[num_nodes], GPU type of each node.
        submitted: the jobs. Those on several GPU types get the usual batch size.
    """
    rows = changed_placements(changes, b)
    jobs, place = np.unique(rows["job"], return_inverse=True)
    least, most = np.full(len(jobs), len(gpu_types)), np.full(len(jobs), -1)
    np.minimum.at(least, place, gpu_types[rows["node"]])
    np.maximum.at(most, place, gpu_types[rows["node"]])
    gpus = np.bincount(place, rows["gpus"]).astype(np.int64)
    batches = submitted.batches[submitted.table[jobs], most, gpus]
    rows["batch_size"] = np.where(least == most, batches, 0)[place]


class StarlingMarket:
    """Starling with bids as offsets to its own view of the jobs; see `baselines.starling.offsets.Offsets`.

    Bids of 0 give what `Starling.schedule` decides, to the bit. Where the scenario lets batch sizes be chosen, it names
    those of best goodput, if Starling does.

    Args:
        starling: its settings; `Starling()` if None.
    """

    def __init__(self, starling: Starling | None = None) -> None:
        self.starling = starling or Starling()
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

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the kernels' addresses, which mean nothing in another process."""
        return self.__dict__ | {"_decision": None}

    def attach(self, setup: Setup, table: ThroughputTable, state: State) -> "StarlingMarket":
        """Return a market with tables for the episodes of a state."""
        market = StarlingMarket(self.starling)
        market._setup, market._table, market._exact = setup, table, ExactThroughputs(setup)
        if self.starling.batch == "best" and setup.scenario.batch_sizes != "usual":
            market._analyser = Analyser("best", self.starling.measured_only)
        market._shape = (state.jobs.shape[0], state.jobs.shape[1])
        counted = self.starling.shared == "counted"
        market._site = tables_of_nodes(setup.cluster, table.shared_resources(setup.scenario), counted=counted)
        market._proposed, market._cleared = no_changes(state), no_changes(state)
        batch, nodes = len(state.jobs), state.nodes.shape[1]
        priority, size, growth, restart, cores = np.zeros((5, batch, 0))
        market._silent = BidArrays(priority, size, growth, restart, cores, np.zeros((batch, 0, nodes)))
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
            self._tables, self._rules = BatchTables(knees, gangs, self._analyser, *self._shape), tuning.rules
        jobs = EpisodeJobs(worlds, b, self._setup.cluster, self._table, self._exact)
        self._tables.enter(b, jobs)

    def propose(self, worlds: World) -> Changes:
        """Return what Starling would decide."""
        return self._decide(worlds, self._silent, self._proposed)

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """Return what Starling decides with bids as offsets."""
        return self._decide(worlds, bids, self._cleared)

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
            for b in np.flatnonzero(changes.num_rows).tolist():
                name_batches(changes, b, self._site.types, tables.submitted(b))
        return changes
