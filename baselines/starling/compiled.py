"""Starling as compiled code, on the engine's own arrays: one round, or whole episodes without a step back into Python.

`propose` and `carry_out` are the two halves of a round, for callers that change proposals or play many worlds at once.
The decision itself is an argument of both (`deciding`), so that this longest of all kernels is compiled once.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from baselines.starling.decide import candidate_writer, decide_round
from baselines.starling.offsets import Offsets
from baselines.starling.room import equal
from baselines.starling.round import Present, Proposal, StarlingRules
from baselines.starling.tables import JobTables, NodeTables
from baselines.starling.two_candidates import WriteCandidate
from envs.scheduling import ClusterView
from envs.simulation import SimulatedEpisode
from envs.simulation.compiled.jit import as_argument, inlined, jit
from envs.simulation.world.arrays import World
from envs.simulation.world.clock import advance
from envs.simulation.world.kernels import LOG_FULL, QUEUED, ROUND, RUNNING, attained_service, remaining_work, settle
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.shares import clear_job, new_share
from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray, JobId

Decide: TypeAlias = Callable[[WriteCandidate, Present, JobTables, NodeTables, StarlingRules, int, Offsets], Proposal]

_NOBODY = Present(
    np.zeros(0, np.int64),
    np.zeros(0, np.bool_),
    np.zeros(0),
    np.zeros(0),
    np.zeros(0),
    np.zeros((0, 3), np.int64),
    np.zeros(0, np.int64),
    np.zeros(0),
    np.zeros(0, np.bool_),
)


class Deciding(NamedTuple):
    """The kernels of a decision.

    Attributes:
        decide: `decide_round`.
        write: its first argument.
    """

    decide: Decide
    write: WriteCandidate


def deciding(tables: JobTables, site: NodeTables, rules: StarlingRules, offsets: Offsets) -> Deciding:
    """Return the decision as an argument of `propose` and `play_starling`, whose arguments have the same types."""
    write = candidate_writer(tables, site, rules)
    return Deciding(as_argument(decide_round, write, _NOBODY, tables, site, rules, 0, offsets), write)


class EveryJob:
    """The part of `ClusterView` that describes the jobs of a simulator as submitted, future ones included.

    Compiled episodes look up all jobs once, before the first arrives. No decision reads a job before it arrives.
    """

    def __init__(self, simulator: SimulatedEpisode) -> None:
        jobs = simulator.state.jobs[0]
        columns = jobs[jobs["submit"] < np.inf]  # the other rows of a snapshot hold no jobs
        self.cluster: ClusterSpec = simulator.cluster
        self.num_gpus: IntArray = columns["num_gpus"].copy()
        self.min_gpus: IntArray = columns["min_gpus"].copy()
        self.max_gpus: IntArray = columns["max_gpus"].copy()
        self.model: IntArray = columns["model"].copy()
        self.num_beliefs: int = simulator.view.num_beliefs
        self.models, self._table = simulator.table.models, simulator.table

    def throughputs(self, job: JobId) -> FloatArray:
        """See `ClusterView.throughputs`."""
        throughputs: FloatArray = self._table.consolidated()[self.model[job]]
        return throughputs

    def most_nodes(self, job: JobId) -> IntArray:
        """See `ClusterView.most_nodes`."""
        most: IntArray = self._table.most_nodes()[self.model[job]]
        return most

    @property
    def view(self) -> ClusterView:
        """This object as the view that `baselines.starling.knee.Knees` takes."""
        return cast(ClusterView, self)


@inlined
def gather_present(world: World) -> Present:
    """Return the jobs in the system as `Starling.schedule` sees them."""
    episode, size = world.episode[0], len(world.jobs)
    count = episode.num_active
    jobs, runs, num_shares = np.empty(count, np.int64), np.empty(count, np.bool_), 0
    work, service, restart = np.empty(count), np.empty(count), np.empty(count)
    waiting, running = next_member(world.queued, size, 0), next_member(world.running, size, 0)
    for place in range(count):
        if running < 0 or 0 <= waiting < running:
            j = waiting
            waiting = next_member(world.queued, size, waiting + 1)
        else:
            j = running
            running = next_member(world.running, size, running + 1)
        job = world.jobs[j]
        jobs[place], runs[place] = j, job.status == RUNNING
        work[place] = remaining_work(job, episode.time) * job.estimate if episode.knows_work else np.nan
        service[place], restart[place] = attained_service(job, episode.time), job.restart_delay
        num_shares += job.num_shares
    shares = np.empty((num_shares, 3), np.int64)
    row = 0
    for place in range(count):
        share = world.jobs[jobs[place]].first_share
        while share >= 0:
            record = world.shares[share]
            shares[row, 0], shares[row, 1], shares[row, 2] = place, record.node, record.gpus
            row += 1
            share = record.next_of_job
    capacity = np.empty(len(world.nodes), np.int64)
    for n in range(len(capacity)):
        capacity[n] = 0 if world.nodes[n].down else world.nodes[n].num_gpus
    ran, ended = np.zeros(0), np.zeros(0, np.bool_)
    if not episode.knows_work:
        ran, ended = np.empty(episode.next_job), np.empty(episode.next_job, np.bool_)
        for j in range(episode.next_job):
            ran[j] = attained_service(world.jobs[j], episode.time) / world.jobs[j].num_gpus
            absent = world.jobs[j].status != RUNNING and world.jobs[j].status != QUEUED
            ended[j] = absent and ran[j] > 0  # of held jobs, and of those that never ran, nothing can be learnt
    return Present(jobs, runs, work, service, restart, shares, capacity, ran, ended)


@inlined
def propose(
    decision: Deciding,
    world: World,
    tables: JobTables,
    site: NodeTables,
    rules: StarlingRules,
    look_ahead: int,
    offsets: Offsets,
) -> Proposal:
    """Decide one round without applying it; `decision` is what `deciding` returns."""
    return decision.decide(decision.write, gather_present(world), tables, site, rules, look_ahead, offsets)


@inlined
def changed_rows(proposal: Proposal) -> BoolArray:
    """bool[num_jobs]: whether a job of the proposal is to hold other GPUs than now."""
    changed = np.empty(len(proposal.jobs), np.bool_)
    for row in range(len(changed)):
        changed[row] = not equal(proposal.present[row], proposal.grid[row])
    return changed


@inlined
def carry_out(world: World, proposal: Proposal) -> None:
    """Write a proposal into the engine's draft of the round; stops come first, to make room."""
    changed = changed_rows(proposal)
    for row in range(len(changed)):
        if changed[row]:
            clear_job(world, proposal.jobs[row])
    for row in range(len(changed)):
        if changed[row]:
            for node in range(proposal.grid.shape[1]):
                if proposal.grid[row, node] > 0:
                    new_share(world, proposal.jobs[row], node, proposal.grid[row, node], np.nan, np.nan)


@jit
def play_starling(
    decision: Deciding,
    world: World,
    tables: JobTables,
    site: NodeTables,
    rules: StarlingRules,
    look_ahead: int,
    offsets: Offsets,
    rounds: int,
) -> tuple[int, int]:
    """Play until the episode ends (END), after so many rounds (ROUND), or until the log is full (LOG_FULL).

    It begins by ending the present round, if there is one, with what has been planned for it. It stops when the last
    round has taken effect and before time passes.

    Args:
        decision: see `deciding`.
        rounds: decisions to take; negative for no limit.

    Returns:
        What ended it, and the rounds left. If the log is full, call again to continue.
    """
    while True:
        if settle(world) < 0:
            return LOG_FULL, rounds
        if rounds == 0:
            return ROUND, rounds
        outcome = advance(world)
        if outcome != ROUND:
            return outcome, rounds
        carry_out(world, propose(decision, world, tables, site, rules, look_ahead, offsets))
        rounds -= 1
