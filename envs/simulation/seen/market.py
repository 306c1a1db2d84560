"""Bids, allocations as changes, and the `Market` protocol: what turns the bids of all nodes into one allocation.

All arrays have a leading axis for the episodes of a batch, as in `State`. A market answers for a batch in one call.
"""

from typing import NamedTuple, Protocol

import numpy as np

from envs.simulation.compiled.jit import Records, kernel, leaf
from envs.simulation.seen.snapshot import SimulationView
from envs.simulation.setup import Setup
from envs.simulation.world.arrays import World, episode_of
from envs.simulation.world.requested import FITS, REQUESTED, plan_requested
from envs.simulation.world.shares import share_on
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable
from envs.types import FloatArray, IntArray


class BidArrays(NamedTuple):
    """Offsets from outside to what a market would decide by itself; 0 everywhere for its own decision.

    All are natural logarithms of a factor, so 0.7 doubles and -0.7 halves: `priority` on the key by which a market
    orders jobs (a lower key is first), `size` on the GPUs that a job should have, `growth` on its weight when further
    GPUs are given out, `restart` on what a change is assumed to cost it, `cores` on the weight of its shortage of cores
    and memory, `affinity` on the value of a node for it, alone or beside another job, `batch` on its batch size where
    it may be chosen. A market may ignore bids that it has no use for, and its documentation says so.

    Attributes:
        priority, size, growth, restart, cores: float64[B, num_jobs].
        affinity: float64[B, num_jobs, num_nodes], of a node for a job.
        batch: float64[B, num_jobs].
    """

    priority: FloatArray
    size: FloatArray
    growth: FloatArray
    restart: FloatArray
    cores: FloatArray
    affinity: FloatArray
    batch: FloatArray


class Changes(NamedTuple):
    """Allocations in delta form, one for each episode of a batch: jobs that are not named keep what they have.

    Attributes:
        num_stopped: int64[B].
        stopped: int64[B, num_gpus], jobs that lose all GPUs and return to the queue; the first `num_stopped` count.
        num_rows: int64[B].
        rows: REQUESTED[B, num_gpus], new placements, all rows of a job together; the first `num_rows` count. The caller
            fills `exact` and `sample_traffic` of rows that name a batch size, cores or memory. No row names a plan.
        next_decision: float64[B], the instant of the next round if none is before it, in s; infinite for none.
    """

    num_stopped: IntArray
    stopped: IntArray
    num_rows: IntArray
    rows: Records
    next_decision: FloatArray


def no_bids(state: State) -> BidArrays:
    """Allocate bids of 0 for all jobs of a state. Pages of `affinity` that nothing is written to need no memory."""
    batch, jobs = state.jobs.shape
    priority, size, growth, restart, cores, sizes = np.zeros((6, batch, jobs))
    return BidArrays(priority, size, growth, restart, cores, np.zeros((batch, jobs, state.nodes.shape[1])), sizes)


def no_changes(state: State, jobs_per_gpu: int = 1) -> Changes:
    """Allocate empty changes for a state.

    Args:
        state: of the episodes.
        jobs_per_gpu: the most jobs that hold a GPU; a placement has at most one row for each GPU of the cluster.
    """
    batch, rows = len(state.jobs), jobs_per_gpu * int(state.nodes["num_gpus"][0].sum())
    return Changes(
        np.zeros(batch, np.int64),
        np.zeros((batch, rows), np.int64),
        np.zeros(batch, np.int64),
        np.zeros((batch, rows), REQUESTED).view(np.recarray),
        np.full(batch, np.inf),
    )


class Market(Protocol):
    """A rule that allocates a cluster by itself, and that bids can change. It is deterministic.

    A market reads the engine's arrays, where hidden work and future arrivals stand as well. It must use neither: only
    jobs with `status` QUEUED or RUNNING; remaining work only as `remaining_work(...) * estimate`, and only if
    `episode.knows_work`. A test can find a market that breaks this: as a scheduler it plays on snapshots, where both
    are absent, so its event log differs from that of the environment.
    """

    def attach(self, setup: Setup, table: ThroughputTable, state: State) -> "Market":
        """Return a market for the episodes of a state: same class, same settings, tables and memory of its own.

        Args:
            setup: cluster, performance model and scenario of all episodes.
            table: their throughputs; a new table needs a new call, except where throughputs are believed.
            state: their arrays, of which only the shapes count here.
        """
        ...

    def begin(self, worlds: World, b: int, view: SimulationView) -> None:
        """Prepare for the jobs of episode `b`: a workload was loaded, or (in a snapshot) jobs were submitted.

        Where throughputs must be found out, it is called in every round, and the view has the beliefs of this round.

        Args:
            worlds: the batch.
            b: the episode. `episode.history` is another number in another episode, and the same in its snapshots.
            view: a window on the episode, which later rounds may use; of a snapshot, it shows no jobs submitted since.
        """
        ...

    def propose(self, worlds: World) -> Changes:
        """Return what the market would decide without bids, in every episode in a round; no changes for the others.

        The result is overwritten by the next `propose` and not by `clear`. The engine's arrays stay as they are.
        """
        ...

    def clear(self, worlds: World, bids: BidArrays) -> Changes:
        """Return what the market decides on bids, in every episode in a round. Bids of 0 give the proposal.

        The result is overwritten by the next `clear` and not by `propose`. The engine's arrays stay as they are.
        """
        ...


@leaf
def add_row(changes: Changes, b: int, j: int, n: int, gpus: int) -> None:
    """Append GPUs on one node to the changes of an episode, with nothing else named."""
    row = changes.rows[b, changes.num_rows[b]]
    row.job = j
    row.node = n
    row.gpus = gpus
    row.cpus = np.nan
    row.memory = np.nan
    row.plan = -1
    row.batch_size = 0
    row.named = 0
    row.exact = 0.0
    row.sample_traffic = 0.0
    changes.num_rows[b] += 1


@leaf
def clear_changes(changes: Changes, b: int) -> None:
    """Empty the changes of an episode."""
    changes.num_stopped[b] = 0
    changes.num_rows[b] = 0
    changes.next_decision[b] = np.inf


@leaf
def in_round(world: World) -> bool:
    """Return whether an episode waits for a decision."""
    return bool(world.episode[0].in_round and world.episode[0].ended == 0)


@leaf
def gpus_after(world: World, changes: Changes, b: int, first_row: IntArray, j: int, n: int) -> int:
    """GPUs that a job would hold on a node under the changes.

    Args:
        world: the episode, in its round and with no job touched.
        changes: those of the batch.
        b: the episode.
        first_row: int64[num_jobs], the first row of each job in `changes`, -1 for no row, -2 for a stopped job.
        j, n: the job and the node.
    """
    at = first_row[j]
    if at == -2:
        return 0
    if at >= 0:
        while at < changes.num_rows[b] and changes.rows[b, at].job == j:
            if changes.rows[b, at].node == n:
                return int(changes.rows[b, at].gpus)
            at += 1
        return 0
    return share_on(world, j, n)


@leaf
def index_changes(changes: Changes, b: int, first_row: IntArray, sign: int) -> None:
    """Enter the changes of an episode into `first_row`, see `gpus_after`; with a `sign` of -1, remove them again."""
    for i in range(changes.num_stopped[b]):
        first_row[changes.stopped[b, i]] = -2 if sign > 0 else -1
    for i in range(changes.num_rows[b] - 1, -1, -1):
        first_row[changes.rows[b, i].job] = i if sign > 0 else -1


@kernel
def plan_changes(worlds: World, changes: Changes, wrong: IntArray) -> None:
    """Put the changes of all episodes that are in a round into the engine's draft of the round.

    Args:
        worlds: a batch, with no job touched.
        changes: those of each episode.
        wrong: int64[B, 2], overwritten by FITS or the error code, and the row of the error, of `plan_requested`.
    """
    for b in range(len(wrong)):
        world = episode_of(worlds, b)
        wrong[b, 0] = FITS
        wrong[b, 1] = 0
        if in_round(world):
            stopped = changes.stopped[b, : changes.num_stopped[b]]
            wrong[b, 0], wrong[b, 1] = plan_requested(world, stopped, changes.rows[b, : changes.num_rows[b]])
            if wrong[b, 0] == FITS and changes.next_decision[b] < np.inf:
                world.episode[0].next_decision = changes.next_decision[b]
