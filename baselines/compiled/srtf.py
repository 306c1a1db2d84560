"""Shortest remaining time first as compiled code: whole episodes without a step back into Python."""

import numpy as np

from baselines.compiled.gang import Gangs
from baselines.parts.placing_kernels import PLACED, STAYS, STOPPED, WAITS, NodeArrays, PlacementOutcome, Scratch, Wanted
from baselines.parts.priority_kernels import place_by_rank
from envs.simulation.compiled.jit import jit, kernel, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.clock import advance
from envs.simulation.world.kernels import LOG_FULL, ROUND, RUNNING, remaining_work, settle
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.shares import clear_job, new_share
from envs.types import FloatArray, IntArray


@leaf
def rank_key(world: World, j: int, by_gpu_time: bool) -> float:
    """Return the sort key of a job: its remaining seconds, or these times its GPUs."""
    job = world.jobs[j]
    left = remaining_work(job, world.episode[0].time) * job.estimate / world.reference[job.model, job.num_gpus]
    return float(left * job.num_gpus if by_gpu_time else left)


@kernel
def list_present(world: World, by_gpu_time: bool, jobs: IntArray, keys: FloatArray) -> None:
    """Write the jobs in the system and their sort keys, in order of submission."""
    size = len(world.jobs)
    waiting = next_member(world.queued, size, 0)
    running = next_member(world.running, size, 0)
    for i in range(len(jobs)):
        if running < 0 or 0 <= waiting < running:
            jobs[i] = waiting
            waiting = next_member(world.queued, size, waiting + 1)
        else:
            jobs[i] = running
            running = next_member(world.running, size, running + 1)
        keys[i] = rank_key(world, jobs[i], by_gpu_time)


@leaf
def slowest_throughput(world: World, j: int) -> float:
    """Return the consolidated throughput of a running job on the slowest of its GPU types; 0 where it does not run."""
    job = world.jobs[j]
    slowest = np.inf
    share = job.first_share
    while share >= 0:
        slowest = min(slowest, consolidated_throughput(world, j, world.nodes[world.shares[share].node].gpu_type))
        share = world.shares[share].next_of_job
    return slowest


@leaf
def consolidated_throughput(world: World, j: int, gpu_type: int) -> float:
    """Return the consolidated throughput of a job on its requested GPUs of a type; 0 where it does not run."""
    job = world.jobs[j]
    return float(world.consolidated[job.model, gpu_type, job.num_gpus])


@leaf
def faster_types(world: World, gangs: Gangs, j: int, faster: IntArray) -> None:
    """Write the types where a running job ends earlier, restart included, fastest first, padded with -1."""
    job = world.jobs[j]
    now = slowest_throughput(world, j)
    left = remaining_work(job, world.episode[0].time) * job.estimate / now
    types = gangs.types[job.model, job.num_gpus]
    count = 0
    for i in range(len(types)):
        faster[i] = -1
        if (
            now > 0
            and types[i] >= 0
            and left * (1 - now / consolidated_throughput(world, j, types[i])) > job.restart_delay
        ):
            faster[count] = types[i]
            count += 1


@kernel
def look_at_jobs(
    world: World, gangs: Gangs, order: IntArray, wanted: Wanted, outcome: PlacementOutcome, faster: IntArray
) -> None:
    """Write what jobs in order request, what they hold, and which faster types they could move to."""
    outcome.used[0] = 0
    for at in range(len(order)):
        job = world.jobs[order[at]]
        wanted.sizes[at] = job.num_gpus
        for i in range(len(gangs.largest)):
            wanted.types[at, i] = gangs.types[job.model, job.num_gpus, i]
        for i in range(wanted.shapes.shape[1]):
            wanted.shapes[at, i] = world.shapes[job.model, i]
        outcome.fate[at] = STAYS if job.status == RUNNING else WAITS
        outcome.first[at] = outcome.used[0]
        outcome.length[at] = job.num_shares
        share = job.first_share
        while share >= 0:
            outcome.nodes[outcome.used[0]] = world.shares[share].node
            outcome.gpus[outcome.used[0]] = world.shares[share].gpus
            outcome.used[0] += 1
            share = world.shares[share].next_of_job
        if len(faster) > 0:
            faster[at, 0] = -1
            if job.status == RUNNING:
                faster_types(world, gangs, order[at], faster[at])


@kernel
def write_outcome_to_world(world: World, order: IntArray, outcome: PlacementOutcome) -> None:
    """Write the placements found for jobs in order into the engine's draft of the round."""
    for at in range(len(order)):
        if outcome.fate[at] >= STOPPED:
            clear_job(world, order[at])
    for at in range(len(order)):
        if outcome.fate[at] == PLACED:
            for i in range(outcome.first[at], outcome.first[at] + outcome.length[at]):
                new_share(world, order[at], outcome.nodes[i], outcome.gpus[i], np.nan, np.nan)


@jit
def place_jobs(world: World, gangs: Gangs, order: IntArray) -> None:
    """Give GPUs to the first jobs in order, by the rules of `baselines.parts.priority.place_in_order`."""
    count, num_nodes, num_types = len(order), len(world.nodes), len(gangs.largest)
    node_types, total = np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64)
    free = np.empty(num_nodes, np.int64)
    for n in range(num_nodes):
        node = world.nodes[n]
        node_types[n], total[n], free[n] = node.gpu_type, node.num_gpus, node.free
    most = 2 * world.episode[0].num_gpus
    wanted = Wanted(
        np.empty(count, np.int64),
        np.empty((count, num_types), np.int64),
        np.full((count, num_types), -1, np.int64),
        np.empty((count, world.shapes.shape[1]), np.int64),
    )
    outcome = PlacementOutcome(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.zeros(1, np.int64),
        np.zeros(count, np.int64),  # episodes with exclusive jobs are not played as a whole
    )
    scratch = Scratch(
        np.empty(num_nodes, np.int64),
        np.empty(num_nodes, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
    faster = np.empty((count if num_types > 1 else 0, num_types), np.int64)
    look_at_jobs(world, gangs, order, wanted, outcome, faster)
    floor = NodeArrays(node_types, total, gangs.largest, free, world.room.copy(), np.array([free.sum()]))
    place_by_rank(floor, wanted, outcome, faster, scratch)
    write_outcome_to_world(world, order, outcome)


@jit
def play_srtf(world: World, gangs: Gangs, by_gpu_time: bool) -> int:
    """Play until the episode ends (END) or the log is full (LOG_FULL; call again to continue).

    Args:
        world: an episode.
        gangs: the tables of `baselines.compiled.gang.gangs_of`.
        by_gpu_time: whether jobs are ordered by remaining GPU-time instead of remaining time.
    """
    while True:
        if settle(world) < 0:
            return LOG_FULL
        outcome = advance(world)
        if outcome != ROUND:
            return outcome
        jobs = np.empty(world.episode[0].num_active, np.int64)
        keys = np.empty(len(jobs))
        list_present(world, by_gpu_time, jobs, keys)
        place_jobs(world, gangs, jobs[np.argsort(keys, kind="mergesort")])
