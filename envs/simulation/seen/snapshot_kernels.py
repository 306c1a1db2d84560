"""Compiled functions that copy an episode for a snapshot: what may be seen of it, and only what has changed.

A job that is done does not change again. So a copy that is brought up to date needs only the rows of jobs that were in
the system at the last copy, and of jobs submitted since.
"""

import numpy as np

from envs.simulation.compiled.jit import Records, kernel, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.heap import heap_push, heap_update
from envs.simulation.world.job_throughput import set_throughput_alone, throughput_under_contention
from envs.simulation.world.kernels import (
    DONE,
    PENDING,
    RUNNING,
    bring_up_to_date,
    mark_colocated,
    predict_finish,
    remaining_work,
)
from envs.simulation.world.ordered_set import insert, next_member
from envs.types import FloatArray, IntArray

OPEN, KNOWN, USED = 0, 1, 2  # sizes of a copy: jobs listed as open, rows copied from the episode, rows in use


@leaf
def set_remaining(job: Records, left: float, time: float) -> None:
    """Set the samples that a job has left at `time`."""
    job.remaining = left
    job.saved = left
    job.least = left
    if job.status == RUNNING:
        job.synced = max(job.synced, time)
        predict_finish(job)


@leaf
def hide_work(episode: Records, job: Records) -> None:
    """Replace work that the scenario hides by its estimate, or by endless work if nothing is known of it."""
    if episode.knows_work and job.estimate == 1.0:
        return
    left = 0.0 if job.status == DONE else np.inf
    if episode.knows_work:
        left = remaining_work(job, episode.time) * job.estimate
    set_remaining(job, left, episode.time)
    job.work = np.nan
    job.estimate = 1.0


@leaf
def copy_job(source: World, target: World, j: int, hide: bool) -> None:
    """Copy the row of a job; the caller puts it into the heap and the sets."""
    target.jobs[j] = source.jobs[j]
    target.heap_places[j] = -1
    if hide:
        hide_work(source.episode[0], target.jobs[j])


@leaf
def forget_job(target: World, j: int) -> None:
    """Make a row that no job uses."""
    job = target.jobs[j]
    job.status = PENDING
    job.submit = np.inf
    target.heap_places[j] = -1


@leaf
def list_held_jobs(source: World, listed: IntArray, count: int, used: int) -> int:
    """List the held jobs too, which may leave before the next copy; return the number of all that are listed."""
    if source.episode[0].num_held > 0:
        for j in range(used):
            if source.jobs[j].status == PENDING:
                listed[count] = j
                count += 1
    return count


@leaf
def copy_sets(source: World, target: World, listed: IntArray) -> int:
    """Copy the sets of waiting and running jobs, which differ in size, and list their members; return the number."""
    for i in range(len(target.queued)):
        target.queued[i] = 0
        target.running[i] = 0
    size = len(source.jobs)
    count = 0
    j = next_member(source.queued, size, 0)
    while j >= 0:
        insert(target.queued, len(target.jobs), j)
        listed[count] = j
        count += 1
        j = next_member(source.queued, size, j + 1)
    j = next_member(source.running, size, 0)
    while j >= 0:
        insert(target.running, len(target.jobs), j)
        listed[count] = j
        count += 1
        j = next_member(source.running, size, j + 1)
    return count


@leaf
def copy_cluster(source: World, target: World) -> None:
    """Copy nodes and shares; the instants of failures and repairs stay behind."""
    for n in range(len(source.nodes)):
        target.nodes[n] = source.nodes[n]
        target.nodes[n].finish = np.inf
        target.nodes[n].outages = 0
    for i in range(len(source.shares)):
        target.shares[i] = source.shares[i]
    for gpu_type in range(source.room.shape[0]):
        for free in range(source.room.shape[1]):
            for word in range(source.room.shape[2]):
                target.room[gpu_type, free, word] = source.room[gpu_type, free, word]
    for i in range(source.episode[0].num_uneven):
        target.uneven[i] = source.uneven[i]
    for i in range(source.episode[0].num_dirty):
        target.dirty[i] = source.dirty[i]


@kernel
def copy_episode(
    source: World, target: World, listed: IntArray, also: IntArray, sizes: IntArray, used: int, hide: bool
) -> None:
    """Copy what has changed of an episode into a copy of it, between rounds.

    Args:
        source: the engine's arrays, or those of another copy.
        target: the copy, with at least `used` rows for jobs; its log is emptied.
        listed: int64[num_jobs], the jobs whose rows may differ from the episode's; overwritten by those that do now.
        also: int64[any], more jobs whose rows may differ.
        sizes: OPEN, KNOWN and USED of the copy, overwritten.
        used: rows of the source that hold jobs.
        hide: whether the source is the engine's, so that hidden work must be replaced.
    """
    for i in range(sizes[OPEN]):
        copy_job(source, target, listed[i], hide)
    for i in range(len(also)):
        copy_job(source, target, also[i], hide)
    for j in range(sizes[KNOWN], used):
        copy_job(source, target, j, hide)
    for j in range(used, sizes[USED]):
        forget_job(target, j)
    sizes[OPEN] = list_held_jobs(source, listed, copy_sets(source, target, listed), used)
    sizes[KNOWN] = used
    sizes[USED] = used
    copy_cluster(source, target)
    target.episode[0] = source.episode[0]
    for i in range(source.episode[0].num_running):
        j = source.heap[i].member
        heap_push(target.heap, target.heap_places, i, target.jobs[j].finish, j)
    episode = target.episode[0]
    episode.log_events = 0
    episode.log_shares = 0
    episode.failing = 0
    episode.holds = 0  # jobs that are held stay so: a copy knows no times and ends of others
    episode.num_held = 0
    episode.first_begin = 0
    episode.knows_limits = 0  # a copy takes what it was told for exact
    episode.window_start = 0.0
    episode.window_end = np.inf


@kernel
def use_own_throughputs(world: World) -> None:
    """Give the running jobs of a copy the throughputs of its own table in place of the engine's.

    Factors by contention stay until the end of the round, as they do after completions.
    """
    episode = world.episode[0]
    size = len(world.jobs)
    j = next_member(world.running, size, 0)
    while j >= 0:
        job = world.jobs[j]
        bring_up_to_date(world, job, episode.time)
        set_throughput_alone(world, j)
        mark_colocated(world, j)
        job.throughput = throughput_under_contention(world, job)
        predict_finish(job)
        heap_update(world.heap, world.heap_places, episode.num_running, job.finish, j)
        j = next_member(world.running, size, j + 1)


@kernel
def assume_remaining(world: World, listed: IntArray, count: int, remaining: FloatArray) -> None:
    """Give the listed jobs, which are in the system, the samples left that a caller assumes; NaN changes nothing."""
    episode = world.episode[0]
    for i in range(count):
        j = listed[i]
        if not np.isnan(remaining[j]):
            set_remaining(world.jobs[j], remaining[j], episode.time)
            if world.jobs[j].status == RUNNING:
                heap_update(world.heap, world.heap_places, episode.num_running, world.jobs[j].finish, j)
