"""What happens to a market's changes: they are priced, checked and planned in the engine, or become an `Allocation`."""

from itertools import groupby

import numpy as np

from envs.simulation.compiled.jit import Records
from envs.simulation.seen.market import Changes, plan_changes
from envs.simulation.seen.snapshot import SimulationView
from envs.simulation.world import requested
from envs.simulation.world.arrays import World
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.shares import NAMED_CPUS, NAMED_MEMORY
from envs.simulation.world.state import State
from envs.simulation.world.throughput import ThroughputTable
from envs.types import Allocation, AllocationError, JobId, Placement

REASONS = {
    requested.NOT_THERE: "a job that is not in the system",
    requested.OUT_OF_RANGE: "a number of GPUs outside the job's range",
    requested.NO_GPUS: "more GPUs than the node has left",
    requested.DOES_NOT_RUN: "GPUs on which the job does not run",
    requested.NO_CPUS: "more cores than the node has left",
    requested.NO_MEMORY: "more memory than the node has left",
    requested.NO_NODE: "a node that does not exist, or no GPU",
    requested.NO_OWNER: "a job to share GPUs with that holds none for itself",
    requested.OTHER_GPUS: "other GPUs than those of the job that it shares with",
    requested.TOO_LARGE_TOGETHER: "two jobs that do not fit on a GPU together",
}


def changed_placements(changes: Changes, b: int) -> Records:
    """REQUESTED[num_rows]: the placements of one episode; a view."""
    return changes.rows[b, : changes.num_rows[b]]


def placement_of(rows: Records) -> Placement:
    """Return the placement that the rows of one job describe."""
    named = int(rows["named"][0])
    nodes = rows["node"].tolist()
    return Placement(
        dict(zip(nodes, rows["gpus"].tolist(), strict=True)),
        cpus=dict(zip(nodes, rows["cpus"].tolist(), strict=True)) if named & NAMED_CPUS else None,
        memory=dict(zip(nodes, rows["memory"].tolist(), strict=True)) if named & NAMED_MEMORY else None,
        batch_size=int(rows["batch_size"][0]) or None,
        beside=int(rows["owner"][0]) - 1 if rows["owner"][0] else None,
    )


def placements_of(changes: Changes, b: int) -> dict[JobId, Placement]:
    """Return the new placements of one episode by job, in the order of their rows."""
    rows = changed_placements(changes, b)
    jobs = rows["job"].tolist()
    found: dict[JobId, Placement] = {}
    for job, positions in groupby(range(len(jobs)), key=jobs.__getitem__):
        at = list(positions)
        found[job] = placement_of(rows[at[0] : at[-1] + 1])
    return found


def price_named(changes: Changes, b: int, state: State, table: ThroughputTable, exact: ExactThroughputs) -> None:
    """Ask the performance model for the throughput and traffic of placements that name more than their GPUs.

    Raises:
        PerformanceError: a batch size is not offered.
    """
    rows = changed_placements(changes, b)
    names = (rows["named"] > 0) | (rows["batch_size"] > 0)
    for job in np.unique(rows["job"][names]).tolist():
        mine = rows["job"] == job
        model = table.models[int(state.jobs[b]["model"][job])]
        placement = placement_of(rows[mine])
        rows["exact"][mine] = exact.useful_throughput(model, placement)
        if placement.batch_size is not None and state.episode[b, 0].contention:
            rows["sample_traffic"][mine] = exact.sample_traffic(model, placement)


def plan_all(changes: Changes, worlds: World, state: State, table: ThroughputTable, exact: ExactThroughputs) -> None:
    """Put the changes of all episodes that are in a round into the engine's draft of the round.

    Raises:
        AllocationError: they do not fit in some episode; names episode, job and node.
    """
    names = (changes.rows["named"] > 0) | (changes.rows["batch_size"] > 0)  # perhaps in rows of earlier rounds
    for b in np.flatnonzero(names.any(axis=1)).tolist():
        price_named(changes, b, state, table, exact)
    wrong = np.zeros((len(changes.num_rows), 2), np.int64)
    plan_changes(worlds, changes, wrong)
    for b in np.flatnonzero(wrong[:, 0] != requested.FITS).tolist():
        code, place = wrong[b].tolist()
        about = f"row {place}" if code == requested.NOT_THERE else f"job {changed_placements(changes, b)[place]['job']}"
        raise AllocationError(f"market: in episode {b} its changes name {REASONS[code]} ({about}); the market is wrong")


def write_allocation(allocation: Allocation, view: SimulationView, changes: Changes, b: int) -> None:
    """Write an allocation that keeps running jobs as the changes of one episode: the opposite of `fill_allocation`.

    Args:
        allocation: names no plans.
        view: the episode.
        changes: of the batch; those of the episode are empty.
        b: the episode.
    """
    pairs = view.pairs
    placements = {job: placement for job, placement in allocation.changes.items() if placement is not None}
    for owner, guest in pairs.items():  # an owner that changes in place keeps its guest
        if owner in placements and guest not in allocation.changes:
            beside = allocation.placement(guest)
            if beside is not None and beside.beside == owner:
                placements[guest] = beside
    stopped = [job for job in view.running.tolist() if job in allocation.changes and job not in placements]
    changes.num_stopped[b] = len(stopped)
    changes.stopped[b, : len(stopped)] = stopped
    count = 0
    for job, placement in sorted(placements.items(), key=lambda each: each[1].beside is not None):
        named = (NAMED_CPUS if placement.cpus else 0) | (NAMED_MEMORY if placement.memory else 0)
        for node, gpus in placement.gpus.items():
            row = changes.rows[b, count]
            row.job, row.node, row.gpus, row.named = job, node, gpus, named
            row.cpus = np.nan if placement.cpus is None else placement.cpus[node]
            row.memory = np.nan if placement.memory is None else placement.memory[node]
            row.plan, row.batch_size, row.exact, row.sample_traffic = -1, placement.batch_size or 0, 0.0, 0.0
            row.owner = 0 if placement.beside is None else placement.beside + 1
            count += 1
    changes.num_rows[b] = count
    changes.next_decision[b] = allocation.next_decision


def fill_allocation(changes: Changes, b: int, allocation: Allocation) -> Allocation:
    """Write the changes of one episode into an allocation that keeps running jobs."""
    placements = placements_of(changes, b)
    for job in (*changes.stopped[b, : changes.num_stopped[b]].tolist(), *placements):
        allocation.stop(job)
    for job, placement in placements.items():
        allocation.place(job, placement)
    allocation.next_decision = float(changes.next_decision[b])
    return allocation
