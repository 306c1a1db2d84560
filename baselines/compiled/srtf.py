"""Shortest remaining time first as compiled code: the fast twin of `baselines.parts.priority.place_in_order`."""

import numpy as np

from baselines.compiled.gang import Gangs, place_gang, place_on
from envs.simulation.clock import advance
from envs.simulation.jit import jit, kernel, leaf
from envs.simulation.kernels import LOG_FULL, ROUND, RUNNING, remaining_work, settle
from envs.simulation.ordered_set import next_member
from envs.simulation.shares import clear_job, name_as_before, new_share
from envs.simulation.world import World
from envs.types import FloatArray, IntArray


@leaf
def rank_key(world: World, j: int, by_gpu_time: bool) -> float:
    """What jobs are ordered by: the seconds that they still need, or these times GPUs."""
    job = world.jobs[j]
    left = remaining_work(job, world.episode[0].time) * job.estimate / world.reference[job.model, job.num_gpus]
    return float(left * job.num_gpus if by_gpu_time else left)


@kernel
def list_present(world: World, by_gpu_time: bool, jobs: IntArray, keys: FloatArray) -> None:
    """Write the jobs in the system and their keys, in order of submission."""
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
def holds(world: World, j: int) -> bool:
    """Whether a job still has in the plan the GPUs with which it came into the round."""
    return bool(world.jobs[j].status == RUNNING and world.jobs[j].gpus > 0)


@leaf
def put_back(world: World, j: int) -> bool:
    """Let a cleared job have what it held when the round began; say whether all of it is free."""
    job = world.jobs[j]
    share = job.before_share
    while share >= 0:
        if world.shares[share].gpus > world.nodes[world.shares[share].node].free:
            return False
        share = world.shares[share].next_of_job
    share = job.before_share
    while share >= 0:
        record = world.shares[share]
        new_share(world, j, record.node, record.gpus, np.nan, np.nan)
        share = world.shares[share].next_of_job
    name_as_before(job)
    return True


@leaf
def slowest_speed(world: World, j: int) -> float:
    """Consolidated speed of a running job on the slowest of its GPU types; 0 where it does not run."""
    job = world.jobs[j]
    slowest = np.inf
    share = job.first_share
    while share >= 0:
        slowest = min(slowest, speed_on(world, j, world.nodes[world.shares[share].node].gpu_type))
        share = world.shares[share].next_of_job
    return slowest


@leaf
def speed_on(world: World, j: int, kind: int) -> float:
    """Consolidated speed of a job on its requested GPUs of a type; 0 where it does not run."""
    job = world.jobs[j]
    level = world.levels[kind, job.num_gpus]
    return float(world.rates[job.model, kind, job.num_gpus, level]) if level >= 0 else 0.0


@kernel
def move_up(world: World, gangs: Gangs, j: int) -> None:
    """Move a running job to free GPUs of a faster type if that ends it earlier, restart included."""
    job = world.jobs[j]
    now = slowest_speed(world, j)
    types = gangs.types[job.model, job.num_gpus]
    if world.episode[0].num_free == 0 or not 0.0 < now < speed_on(world, j, types[0]):
        return
    left = remaining_work(job, world.episode[0].time) * job.estimate / now
    cleared = False
    for i in range(len(types)):
        if types[i] < 0 or not left * (1 - now / speed_on(world, j, types[i])) > job.restart_delay:
            break  # slower types save no more
        if not cleared:
            clear_job(world, j)
            cleared = True
        if place_on(world, gangs, j, types[i]):
            return
    if cleared:
        put_back(world, j)


@kernel
def displace(world: World, gangs: Gangs, order: IntArray, rank: int, last: int) -> bool:
    """Take jobs off, last ones first, until the job at `rank` fits; bring back those not in its way.

    Says whether it fits. `last` is the last rank whose job holds GPUs.
    """
    first = last + 1
    found = False
    while first > rank + 1 and not found:
        first -= 1
        if holds(world, order[first]):
            clear_job(world, order[first])
            found = place_gang(world, gangs, order[rank])
    for other in range(first, last + 1):
        j = order[other]
        if world.jobs[j].status == RUNNING and world.jobs[j].gpus == 0 and world.jobs[j].before_gpus > 0:
            put_back(world, j)
    return found


@kernel
def place_by_rank(world: World, gangs: Gangs, order: IntArray) -> None:
    """Give GPUs to the first jobs in order; running ones stay where they are, and those ranked last make room."""
    now = world.episode[0].num_rounds
    last = len(order) - 1  # ranks behind it hold nothing
    for rank in range(len(order)):
        while last >= 0 and not holds(world, order[last]):
            last -= 1
        if rank > last and world.episode[0].num_free == 0:
            break
        j = order[rank]
        if holds(world, j):
            if len(gangs.largest) > 1:
                move_up(world, gangs, j)
            continue
        group = gangs.group[world.jobs[j].model, world.jobs[j].num_gpus]
        if gangs.hopeless[group] == now or place_gang(world, gangs, j):
            continue
        if rank > last or not displace(world, gangs, order, rank, last):
            gangs.hopeless[group] = now


@jit
def play_srtf(world: World, gangs: Gangs, by_gpu_time: bool) -> int:
    """Play until the episode ends (END) or the log is full (LOG_FULL; call again to go on).

    Args:
        world: an episode.
        gangs: as `baselines.compiled.gang.gangs_of`.
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
        place_by_rank(world, gangs, jobs[np.argsort(keys, kind="mergesort")])
