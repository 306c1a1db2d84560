"""Compiled functions that advance time on a `World`: completions, node changes, arrivals and ticks."""

from typing import Any

import numpy as np

from envs.simulation.compiled.jit import leaf, part, prefetch
from envs.simulation.world.arrays import World
from envs.simulation.world.division import divide_uneven_nodes, renounce
from envs.simulation.world.futile import progress_has_ceased
from envs.simulation.world.heap import heap_remove, heap_update
from envs.simulation.world.holds import (
    NOT_OK,
    OK,
    enter,
    next_begin,
    note_event,
    queue_job,
    release_held,
    tell_dependents,
)
from envs.simulation.world.job_throughput import NO_LIMIT, set_limit
from envs.simulation.world.kernels import (
    DONE,
    DOWN,
    END,
    ENDED_DONE,
    ENDED_NO_PROGRESS,
    ENDED_STALLED,
    FINISH,
    INTERRUPT,
    LIMIT,
    LOG_FULL,
    ROUND,
    UP,
    all_done,
    attained_service,
    bring_up_to_date,
    log_event,
    log_has_room,
    stop_job,
    update_throughputs,
)
from envs.simulation.world.limits import show_limits
from envs.simulation.world.ordered_set import remove
from envs.simulation.world.shares import OFF, clear_named_settings, empty_job, free_list, set_free, unlink_job


@leaf
def look_ahead(world: World) -> None:
    """Prefetch what the next events will read: the jobs that end next and arrive next, and the first one's node.

    A job is among the five that end next for a few events before it ends, so that its record is there in time.
    """
    episode = world.episode[0]
    for i in range(1, min(5, episode.num_running)):
        prefetch(world.jobs, world.heap[i].member, 0)
        prefetch(world.jobs, world.heap[i].member, 1)
    if episode.num_running > 0:
        share = world.jobs[world.heap[0].member].first_share
        prefetch(world.nodes, share >> episode.log2_slots, 0)
        prefetch(world.nodes, share >> episode.log2_slots, 1)
        first = (share >> episode.log2_slots) << episode.log2_slots
        for slot in range(4):
            prefetch(world.shares, first + slot, 0)
    prefetch(world.jobs, episode.next_job + 1, 0)
    prefetch(world.jobs, episode.next_job + 1, 5)


@leaf
def prefetch_jobs(world: World, n: int) -> None:
    """Prefetch the jobs of a node, which change if its cores and memory are divided anew."""
    share = world.nodes[n].first_share
    while share >= 0:
        j = world.shares[share].job
        prefetch(world.jobs, j, 0)
        prefetch(world.jobs, j, 1)
        prefetch(world.jobs, j, 2)
        prefetch(world.heap_places, j, 0)
        share = world.shares[share].next_of_node


@leaf
def release_job(world: World, j: int) -> None:
    """Take all shares from a job for good."""
    if world.episode[0].shares_cpu_memory:
        renounce(world, world.jobs[j].first_share)
    unlink_job(world, j)
    free_list(world, world.jobs[j].first_share)
    empty_job(world, j)


@leaf
def finish_job(world: World) -> int:
    """End the first job of the heap at the present time; return it. Its deadline stays if it has reached its limit."""
    j = world.heap[0].member
    job = world.jobs[j]
    n = world.shares[job.first_share].node
    if world.nodes[n].short:
        prefetch_jobs(world, n)
    job.service = attained_service(job, world.episode[0].time)
    heap_remove(world.heap, world.heap_places, world.episode[0].num_running, j)
    world.episode[0].num_running -= 1
    remove(world.running, len(world.jobs), j)
    release_job(world, j)
    set_limit(world, job, NO_LIMIT)
    if all_done(job) <= job.deadline:
        job.deadline = np.inf
    job.remaining = 0.0
    job.throughput = 0.0
    job.status = DONE
    world.episode[0].num_active -= 1
    world.episode[0].num_restarts -= job.num_restarts
    return int(j)


@leaf
def interrupt_job(world: World, j: int) -> None:
    """Put a job of a failed node back into the queue, at its last checkpoint."""
    job = world.jobs[j]
    bring_up_to_date(world, job, world.episode[0].time)
    job.remaining = job.saved
    job.num_interruptions += 1
    release_job(world, j)
    clear_named_settings(job)
    stop_job(world, j)


@leaf
def log_node(world: World, kind: int, n: int) -> None:
    """Log DOWN or UP: no job, and one share row with the node and its GPUs."""
    episode = world.episode[0]
    if episode.logging:
        log_event(world, kind, -1)
        world.events[episode.log_events - 1]["num_shares"] = 1
        row = world.log_shares[episode.log_shares]
        row["node"] = n
        row["gpus"] = world.nodes[n].num_gpus
        row["cpus"] = 0.0
        row["memory"] = 0.0
        episode.log_shares += 1


@leaf
def take_node_down(world: World, n: int) -> None:
    """Take a failed node out of service and interrupt its jobs."""
    node = world.nodes[n]
    log_node(world, DOWN, n)
    while node.first_share >= 0:
        j = world.shares[node.first_share].job
        interrupt_job(world, j)
        log_event(world, INTERRUPT, j)
    set_free(world, n, 0)
    node.down = 1
    world.episode[0].num_down += 1
    world.episode[0].num_up -= node.num_gpus
    world.episode[0].num_free -= node.num_gpus


@leaf
def bring_node_up(world: World, n: int) -> None:
    """Put a repaired node back into service, without jobs."""
    node = world.nodes[n]
    log_node(world, UP, n)
    set_free(world, n, node.num_gpus)
    node.down = 0
    world.episode[0].num_down -= 1
    world.episode[0].num_up += node.num_gpus
    world.episode[0].num_free += node.num_gpus


@leaf
def change_node(world: World) -> None:
    """Take down or bring up the first node of the outage heap, and schedule its next change."""
    n = world.outage_heap[0].member
    node = world.nodes[n]
    draw = node.outages % world.outages.shape[1]
    if node.down:
        node.outages += 1
        node.finish += world.outages[n, node.outages % world.outages.shape[1], 0]
        bring_node_up(world, n)
    else:
        node.finish += world.outages[n, draw, 1]
        take_node_down(world, n)
    heap_update(world.outage_heap, world.outage_places, len(world.nodes), node.finish, n)


@leaf
def pass_time(world: World, until: float) -> None:
    """Advance simulated time, and integrate the number of jobs and of busy GPUs over it."""
    episode = world.episode[0]
    span = until - episode.time
    if span > 0:
        episode.job_seconds += (episode.num_active + episode.num_held) * span
        episode.busy_seconds += (episode.num_up - episode.num_free) * span
        if episode.shares_cpu_memory or episode.contention != OFF:
            measure_limits(episode, until)
        episode.time = until


@leaf
def measure_limits(episode: Any, until: float) -> None:
    """Integrate the numbers of running jobs, by what limits them, over the part of a span that is in the window."""
    span = min(until, episode.window_end) - max(episode.time, episode.window_start)
    if span > 0:
        episode.running_seconds += episode.num_running * span
        episode.cpus_seconds += episode.limited_by_cpus * span
        episode.memory_seconds += episode.limited_by_memory * span
        episode.network_seconds += episode.limited_by_network * span


@part
def divide_and_recompute(world: World) -> None:
    """Divide the cores and memory of all marked nodes anew, and rate the jobs."""
    divide_uneven_nodes(world)
    update_throughputs(world)


@leaf
def follow_up(world: World) -> None:
    """End an instant after which no decision takes effect."""
    if world.episode[0].num_uneven + world.episode[0].num_dirty + world.episode[0].first_refed > 0:
        divide_and_recompute(world)


@leaf
def count_round(world: World) -> None:
    """Count a round that has ended, and whether it left jobs in the queue."""
    episode = world.episode[0]
    episode.in_round = 0
    if episode.window_start <= episode.time < episode.window_end:
        episode.window_rounds += 1
        if episode.num_active > episode.num_running:
            episode.queue_rounds += 1
    follow_up(world)  # nothing is left to do unless the scheduler gave no allocation


@leaf
def next_submission(world: World) -> float:
    """Time of the next submission; infinite after the last one."""
    episode = world.episode[0]
    return world.jobs[episode.next_job].submit if episode.next_job < len(world.jobs) else np.inf


@leaf
def next_arrival(world: World) -> float:
    """Time of the next submission or begin time; infinite after the last one."""
    submission = next_submission(world)
    return min(submission, next_begin(world)) if world.episode[0].holds else submission


@leaf
def next_finish(world: World) -> float:
    """Time of the next completion; infinite if no job makes progress."""
    return world.heap[0].time if world.episode[0].num_running > 0 else np.inf


@leaf
def node_change(world: World) -> float:
    """Time at which the next node goes down or comes back; infinite without failures."""
    return world.outage_heap[0].time if world.episode[0].failing else np.inf


@leaf
def events_now(world: World) -> int:
    """Process completions, node changes and arrivals of this instant; LOG_FULL if the log has no room for them all."""
    episode = world.episode[0]
    time = episode.time
    while episode.num_running > 0 and world.heap[0].time <= time:
        if not log_has_room(world, 1, 0):
            return LOG_FULL
        j = finish_job(world)
        finished = world.jobs[j].deadline == np.inf
        log_event(world, FINISH if finished else LIMIT, j)
        note_event(episode)
        if episode.holds:
            tell_dependents(world, j, OK if finished else NOT_OK)
    while node_change(world) <= time:
        if not log_has_room(world, 1 + world.nodes[world.outage_heap[0].member].num_jobs, 1):
            return LOG_FULL
        if next_finish(world) == np.inf and next_arrival(world) == np.inf:
            episode.stalls += 1
        change_node(world)
        episode.round_due = episode.round_due or episode.on_events
    if episode.num_held > 0 and release_held(world) == LOG_FULL:
        return LOG_FULL
    while next_submission(world) <= time:
        if not log_has_room(world, 1, 0):
            return LOG_FULL
        j = episode.next_job
        episode.next_job = j + 1
        note_event(episode)
        if episode.holds == 0:
            queue_job(world, j)
        elif world.jobs[j].unmet > 0:
            episode.num_held += 1
        else:
            enter(world, j)
    return ROUND


@leaf
def next_tick(episode: Any, arrival: float) -> float:
    """Time of the next round of the fixed interval; if the system is empty, of the first one after the next arrival."""
    if episode.num_active == 0:
        if arrival == np.inf:
            return np.inf
        first = np.ceil(arrival / episode.interval) * episode.interval
        episode.next_round = max(episode.next_round, first)
    return float(episode.next_round)


@leaf
def end_episode(world: World, reason: int) -> int:
    """End the episode. With jobs left, time advances to a finite horizon, so that leaving jobs undone never pays."""
    episode = world.episode[0]
    if episode.num_active + episode.num_held > 0 and episode.horizon < np.inf:
        pass_time(world, episode.horizon)
    episode.ended = reason
    return END


@leaf
def end_of_stall(episode: Any) -> float:
    """Time of the next round while no event is due."""
    if episode.interval < np.inf:
        return float(max(episode.next_round, episode.time))
    return float(episode.time + episode.stall_interval)


@leaf
def stall(world: World) -> int:
    """Ask again later while jobs wait and no event is due; after `max_stalls` times, end the episode."""
    episode = world.episode[0]
    episode.stalls += 1
    until = end_of_stall(episode)
    if episode.interval < np.inf:
        episode.next_round = until + episode.interval
    if episode.stalls > episode.max_stalls:
        return end_episode(world, ENDED_STALLED)
    if until >= episode.horizon:
        return end_episode(world, ENDED_DONE)
    pass_time(world, until)
    if episode.knows_limits:
        show_limits(world)
    episode.num_rounds += 1
    episode.next_decision = np.inf
    episode.in_round = 1
    return ROUND


@leaf
def pass_to_decision(world: World) -> int:
    """Advance time until a decision is due, the episode ends, or the log is full.

    The order within one instant is: completions free GPUs, nodes change, held jobs leave, jobs are submitted, the
    scheduler decides.
    """
    episode = world.episode[0]
    if episode.ended:
        return END
    look_ahead(world)
    if episode.in_round:
        count_round(world)
        if episode.num_rounds >= episode.next_check and progress_has_ceased(world):
            return end_episode(world, ENDED_NO_PROGRESS)
    while True:
        if episode.round_due == 0:
            arrival = next_arrival(world)
            happening = min(arrival, next_finish(world))
            change = node_change(world)
            if happening == np.inf:
                if episode.num_active == 0:
                    return end_episode(world, ENDED_DONE)
                if episode.stalls > episode.max_stalls:
                    return end_episode(world, ENDED_STALLED)
                waits_for_node = episode.num_down > 0 and change < np.inf  # in a snapshot no node comes back
                if not waits_for_node and change > end_of_stall(episode):
                    return stall(world)
            happening = min(happening, change)
            tick = next_tick(episode, arrival) if episode.interval < np.inf else np.inf
            time = min(happening, tick, episode.next_decision)
            if time > episode.horizon:
                return end_episode(world, ENDED_DONE)
            pass_time(world, time)
            if tick <= time:
                episode.round_due = 1
                episode.next_round = tick + episode.interval
            if episode.next_decision <= time:
                episode.round_due = 1
                episode.next_decision = np.inf
        if events_now(world) == LOG_FULL:
            return LOG_FULL
        if episode.round_due and episode.num_active > 0:
            if episode.knows_limits:
                show_limits(world)
            episode.round_due = 0
            episode.num_rounds += 1
            episode.next_decision = np.inf
            episode.in_round = 1
            return ROUND
        episode.round_due = 0
        follow_up(world)


@part
def advance(world: World) -> int:
    """`pass_to_decision` as a function of its own: a call costs 40 ns, but its callers compile faster."""
    return pass_to_decision(world)
