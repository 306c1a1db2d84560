"""Jobs that are held: submitted, but not in the queue before their begin times and the ends of other jobs.

Lists hold rows of jobs and edges plus 1; 0 ends a list.
"""

from typing import Any

import numpy as np

from envs.simulation.compiled.jit import leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.kernels import (
    ARRIVE,
    DONE,
    LOG_FULL,
    NEVER,
    PENDING,
    QUEUED,
    ROUND,
    log_event,
    log_has_room,
)
from envs.simulation.world.ordered_set import insert
from envs.types import dependency

OK: Any = np.int64(dependency.OK)
NOT_OK: Any = np.int64(dependency.NOT_OK)
UNMEETABLE = 1 << 24  # what a dependency that can no longer be met takes from the number of things to wait for


@leaf
def wake(episode: Any) -> None:
    """Make a round due, now or at the next tick, and so end a stall."""
    episode.round_due = episode.round_due or episode.on_events
    episode.stalls = 0 if episode.on_events else -1  # the next tick is the first request, not a stall


@leaf
def note_event(episode: Any) -> None:
    """Count a completion or submission, which makes a round due."""
    episode.num_events += 1
    wake(episode)


@leaf
def meet(world: World, j: int, count: int) -> None:
    """Take a number from what a job waits for. A held job that waits for nothing more is ready to leave."""
    episode = world.episode[0]
    job = world.jobs[j]
    before = job.unmet
    job.unmet -= count
    if before > 0 and job.unmet <= 0 and j < episode.next_job and job.status == PENDING:
        last, following = 0, episode.first_ready
        while following > 0 and following <= j:
            last, following = following, world.jobs[following - 1].next_ready
        job.next_ready = following
        if last > 0:
            world.jobs[last - 1].next_ready = j + 1
        else:
            episode.first_ready = j + 1


@leaf
def tell_dependents(world: World, j: int, how: int) -> None:
    """Tell the jobs that depend on one that it has ended: OK or NOT_OK."""
    edge = world.jobs[j].first_edge
    while edge > 0:
        met = world.edges[edge - 1, 1] & how
        meet(world, world.edges[edge - 1, 0], 1 if met else UNMEETABLE)
        edge = world.edges[edge - 1, 2]


@leaf
def queue_job(world: World, j: int) -> None:
    """Put a submitted job into the queue."""
    episode = world.episode[0]
    world.jobs[j].status = QUEUED
    insert(world.queued, len(world.jobs), j)
    episode.num_active += 1
    log_event(world, ARRIVE, j)
    wake(episode)


@leaf
def enter(world: World, j: int) -> None:
    """Put a submitted job that waits for nothing more into the queue, or end it where it can never run."""
    episode = world.episode[0]
    job = world.jobs[j]
    if job.unmet < 0:
        job.status = DONE
        job.remaining = 0.0
        job.finish = episode.time
        job.deadline = episode.time  # as at a time limit, it has not finished
        log_event(world, NEVER, j)
        note_event(episode)
        tell_dependents(world, j, NOT_OK)
    else:
        queue_job(world, j)


@leaf
def next_begin(world: World) -> float:
    """The next begin time of a job that has not left; infinite without one."""
    episode = world.episode[0]
    while episode.first_begin > 0 and world.jobs[episode.first_begin - 1].status == DONE:
        episode.first_begin = world.jobs[episode.first_begin - 1].next_begin
    return float(world.jobs[episode.first_begin - 1].begin if episode.first_begin > 0 else np.inf)


@leaf
def release_held(world: World) -> int:
    """Let all held jobs leave that wait for nothing more; LOG_FULL if the log has no room for them."""
    episode = world.episode[0]
    while next_begin(world) <= episode.time:
        j = episode.first_begin - 1
        episode.first_begin = world.jobs[j].next_begin
        meet(world, j, 1)
    while episode.first_ready > 0:
        if not log_has_room(world, 1, 0):
            return LOG_FULL
        j = episode.first_ready - 1
        episode.first_ready = world.jobs[j].next_ready
        episode.num_held -= 1
        enter(world, j)
    return ROUND
