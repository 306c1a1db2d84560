"""Compiled functions over a `World` for the progress of jobs and the end of a round.

Remaining work is updated lazily: it is valid at `synced` and falls at `throughput` from then on. A round changes
placements through `shares`, which stores what a job held when the round began; `settle` compares, and only real changes
cost time. `docs/world.md` defines the order of events.
"""

import math
from typing import Any

import numpy as np

from envs.simulation.compiled.jit import Records, leaf, part
from envs.simulation.world.arrays import World
from envs.simulation.world.division import claim, divide_uneven_nodes, renounce
from envs.simulation.world.heap import heap_adjust, heap_push, heap_remove
from envs.simulation.world.job_throughput import (
    NO_LIMIT,
    UNLIMITED,
    feed,
    set_limit,
    set_throughput_alone,
    share_node,
    throughput_under_contention,
)
from envs.simulation.world.ordered_set import insert, remove
from envs.simulation.world.shares import (
    NAMED_CPUS,
    NAMED_MEMORY,
    WORST_CASE,
    forget_partner,
    free_list,
    mark_dirty,
    restore_named_settings,
    same_gpus,
)
from envs.types import IntArray

# Event kinds are NumPy integers: numba would compile a separate version for a literal argument.
PENDING, QUEUED, RUNNING, DONE = 0, 1, 2, 3  # Status
_EVENT_KINDS: Any = [np.int64(kind) for kind in range(10)]
NO_CHANGE: Any = np.int64(-1)
FINISH, DOWN, INTERRUPT, UP, ARRIVE, STOP, START, RESIZE, LIMIT, NEVER = _EVENT_KINDS  # EventKind
ROUND, END, LOG_FULL = 0, 1, 2  # AdvanceResult
ENDED_DONE, ENDED_STALLED, ENDED_NO_PROGRESS = 1, 2, 3  # EndReason
CHANGED, UNCHANGED = 1, 2  # values of a job's `touched` at the end of the round


@leaf
def remaining_work(job: Records, time: float) -> float:
    """Samples that a job has left at `time`."""
    if job.status == RUNNING and time > job.synced:
        return float(max(job.remaining - job.throughput * (time - job.synced), 0.0))
    return float(job.remaining)


@leaf
def attained_service(job: Records, time: float) -> float:
    """GPU-seconds that a job has held until `time`, by its placement before the current round."""
    if job.status == RUNNING:
        held = job.before_gpus if job.touched else job.gpus
        return float(job.service + held * (time - job.served))
    return float(job.service)


@leaf
def log_event(world: World, kind: int, j: int) -> None:
    """Log one event of a job and, for START and RESIZE, the placement after it."""
    episode = world.episode[0]
    if episode.logging == 0:
        return
    event = world.events[episode.log_events]
    event["time"] = episode.time
    event["kind"] = kind
    event["job"] = j
    event["first_share"] = episode.log_shares
    event["num_shares"] = 0
    event["plan"] = -1
    event["batch_size"] = 0
    event["beside"] = -1
    episode.log_events += 1
    if kind < START or kind >= LIMIT:
        return
    job = world.jobs[j]
    event["plan"] = job.plan
    event["batch_size"] = job.batch_size
    event["beside"] = job.partner if job.guest else -1
    share = job.first_share
    while share >= 0:
        record = world.shares[share]
        row = world.log_shares[episode.log_shares]
        row["node"] = record.node
        row["gpus"] = record.gpus
        row["cpus"] = record.cpus if episode.shares_cpu_memory else 0.0
        row["memory"] = record.memory if episode.shares_cpu_memory else 0.0
        episode.log_shares += 1
        event["num_shares"] += 1
        share = record.next_of_job


@leaf
def log_has_room(world: World, events: int, shares: int) -> bool:
    """Return whether so many more events and shares fit into the log; True without a log."""
    episode = world.episode[0]
    return bool(
        episode.logging == 0
        or (episode.log_events + events <= len(world.events) and episode.log_shares + shares <= len(world.log_shares))
    )


@leaf
def note_least(world: World, job: Records) -> None:
    """Note the samples that a job had left at the last check for net progress, before they or its status change.

    Checks do not visit the jobs. Between two changes, what a job has left only falls, so the last check counts.
    """
    checked = world.episode[0].checked_time
    if checked >= job.served:  # its last change
        job.least = min(job.least, remaining_work(job, checked))


@leaf
def counts_checkpoints(episode: Any, next_change: float, time: float) -> bool:
    """Return whether a checkpoint up to `time` can be the last one before the next failure.

    Where the next node changes more than two intervals later, a later checkpoint will count, and most updates of a job
    need not look for its last one. One interval would do, but for rounding.
    """
    return bool(time + 2.0 * episode.checkpoint_interval >= next_change)


@part
def save_checkpoint(world: World, job: Records, time: float) -> None:
    """Note the samples that a running job had left at its last checkpoint, if that was since its last update."""
    if time <= job.synced:
        return
    interval = world.episode[0].checkpoint_interval
    if interval == 0.0:
        job.saved = remaining_work(job, time)
    elif interval < np.inf:
        last = job.segment + math.floor((time - job.segment) / interval) * interval
        if last > job.synced:
            job.saved = max(job.remaining - job.throughput * (last - job.synced), 0.0)


@leaf
def bring_up_to_date(world: World, job: Records, time: float) -> None:
    """Update a running job's progress, checkpoints and service to `time`."""
    note_least(world, job)
    if world.episode[0].failing and counts_checkpoints(world.episode[0], world.outage_heap[0].time, time):
        save_checkpoint(world, job, time)
    job.remaining = remaining_work(job, time)
    job.service = attained_service(job, time)
    job.served = time
    job.synced = max(job.synced, time)


@leaf
def same_places(world: World, job: Records) -> bool:
    """Return whether a touched job ends the round on the GPUs that it had at the start."""
    return bool(same_gpus(world, job.first_share, job.before_share) and not changes_pair(world, job))


@leaf
def changes_pair(world: World, job: Records) -> bool:
    """Return whether a touched job joins another one, or leaves its owner, which stays: it moves to other GPUs."""
    if job.guest:
        return bool(job.before_partner != job.partner or not job.before_guest)
    if job.before_partner < 0 or not job.before_guest:
        return False
    owner = world.jobs[job.before_partner]
    return bool(owner.guest == 0 and same_gpus(world, job.before_share, owner.first_share))


@leaf
def same_names(world: World, job: Records) -> bool:
    """Return whether a job on its old GPUs names the same plan, batch size, cores and memory as before."""
    if job.plan != job.before_plan or job.batch_size != job.before_batch_size or job.named != job.before_named:
        return False
    now = job.first_share
    then = job.before_share
    while now >= 0 and job.named:
        for_now, before = world.shares[now], world.shares[then]
        if job.named & NAMED_CPUS and for_now.cpus != before.cpus:
            return False
        if job.named & NAMED_MEMORY and for_now.memory != before.memory:
            return False
        now = for_now.next_of_job
        then = before.next_of_job
    return True


@leaf
def keep_as_it_was(world: World, j: int) -> None:
    """Restore the cores, memory, named settings and contention factors of an unchanged job."""
    job = world.jobs[j]
    restore_named_settings(job)
    now = job.first_share
    then = job.before_share
    while now >= 0:
        record, before = world.shares[now], world.shares[then]
        record.network = before.network
        record.cpu_stage = before.cpu_stage
        record.cpus = before.cpus
        record.memory = before.memory
        record.most_cpus = before.most_cpus
        record.most_memory = before.most_memory
        now = record.next_of_job
        then = before.next_of_job


@leaf
def stop_job(world: World, j: int) -> None:
    """Put a running job back into the queue."""
    job = world.jobs[j]
    set_limit(world, job, NO_LIMIT)
    heap_remove(world.heap, world.heap_places, world.episode[0].num_running, j)
    world.episode[0].num_running -= 1
    remove(world.running, len(world.jobs), j)
    insert(world.queued, len(world.jobs), j)
    job.status = QUEUED
    job.throughput = 0.0
    job.alone = 0.0
    job.traffic = 0.0
    job.finish = np.inf
    job.deadline = np.inf


@leaf
def mark_colocated(world: World, j: int) -> None:
    """Mark the nodes of a job: the set of jobs on them has changed."""
    share = world.jobs[j].first_share
    while share >= 0:
        mark_dirty(world, world.shares[share].node, world.jobs[j].traffic > 0)
        share = world.shares[share].next_of_job


@leaf
def predict_finish(job: Records) -> None:
    """Set when a job will end at its present throughput, by its time limit at the latest."""
    job.finish = min(all_done(job), job.deadline)


@leaf
def all_done(job: Records) -> float:
    """Time at which a job will have processed its last sample at its present throughput; infinite at 0."""
    return float(job.synced + job.remaining / job.throughput if job.throughput > 0 else np.inf)


@leaf
def change_job(world: World, j: int, kind: int) -> None:
    """Apply a changed placement at the present time."""
    job = world.jobs[j]
    time = world.episode[0].time
    if kind == START:
        note_least(world, job)
    else:
        bring_up_to_date(world, job, time)
    if kind == STOP:
        job.saved = job.remaining
        job.num_preemptions += 1
        stop_job(world, j)
        return
    first = np.isnan(job.start)
    if (
        kind == RESIZE
        and same_places(world, job)
        and job.plan == job.before_plan
        and (job.batch_size == job.before_batch_size)
    ):
        job.synced = max(job.synced, time)  # only cores and memory changed: no restart
    else:
        job.synced = time + (job.start_delay if first else job.restart_delay)
        job.segment = job.synced
        job.saved = job.remaining
        if not first:
            job.num_restarts += 1
            world.episode[0].num_restarts += 1
    if kind == START:
        job.deadline = time + job.time_limit
    set_throughput_alone(world, j)
    if min(job.fed_by_cpus, job.fed_by_memory) < UNLIMITED or job.limit != NO_LIMIT:
        throughput_under_contention(world, job)  # notes what limits it; its other factors are 1 until jobs are rated
    mark_colocated(world, j)
    predict_finish(job)
    if kind == RESIZE:
        heap_adjust(world.heap, world.heap_places, world.episode[0].num_running, job.finish, j)
        return
    if first:
        job.start = time
    if job.throughput > 0:
        world.episode[0].stalls = 0
    job.status = RUNNING
    job.served = time
    heap_push(world.heap, world.heap_places, world.episode[0].num_running, job.finish, j)
    world.episode[0].num_running += 1
    remove(world.queued, len(world.jobs), j)
    insert(world.running, len(world.jobs), j)


@leaf
def update_throughput(world: World, j: int) -> None:
    """Give a running job the throughput of its present cores, memory and contention factors."""
    job = world.jobs[j]
    throughput = throughput_under_contention(world, job)
    if throughput != job.throughput:
        bring_up_to_date(world, job, world.episode[0].time)
        job.throughput = throughput
        predict_finish(job)
        heap_adjust(world.heap, world.heap_places, world.episode[0].num_running, job.finish, j)


@leaf
def update_changed_partners(world: World) -> None:
    """Give the jobs that this round has changed, and their partners, the throughputs that they have together."""
    for i in range(world.episode[0].num_touched):
        j = world.touched[i]
        if world.jobs[j].touched == CHANGED and world.jobs[j].partner >= 0:
            update_throughput(world, j)
            update_throughput(world, world.jobs[j].partner)


@leaf
def feed_jobs(world: World) -> int:
    """Compute the throughputs alone of jobs whose cores, memory or partner have changed; mark nodes with new traffic.

    A job without traffic gets its throughput at once; the number of the others is returned.
    """
    left = 0
    j = world.episode[0].first_refed - 1
    while j >= 0:
        job = world.jobs[j]
        if job.status != RUNNING or job.refed == 2:  # it lost its GPUs too, or has the throughput of a new placement
            job.refed = 0
        else:
            traffic = job.traffic
            feed(world, j)
            if traffic == 0.0 and job.traffic == 0.0 and world.episode[0].contention != WORST_CASE:
                job.refed = 0
                update_throughput(world, j)
            else:
                left += 1
                if job.traffic != traffic:
                    mark_links(world, job)
        j = job.next_refed - 1
    return left


@leaf
def mark_links(world: World, job: Records) -> None:
    """Mark all nodes of a job whose traffic has changed."""
    share = job.first_share
    while share >= 0:
        mark_dirty(world, world.shares[share].node, True)
        share = world.shares[share].next_of_job


@leaf
def recompute_refed_jobs(world: World) -> None:
    """Update the throughputs of the jobs that `feed_jobs` has left."""
    j = world.episode[0].first_refed - 1
    while j >= 0:
        job = world.jobs[j]
        if job.refed:
            job.refed = 0
            update_throughput(world, j)
        j = job.next_refed - 1


@leaf
def update_throughputs(world: World) -> None:
    """Recompute the throughput of all jobs with other cores or memory, and of all jobs on nodes with other traffic."""
    left = feed_jobs(world)
    for i in range(world.episode[0].num_dirty):
        share_node(world, world.dirty[i])
    for i in range(world.episode[0].num_dirty):
        node = world.nodes[world.dirty[i]]
        node.dirty = 0
        share = node.first_share
        while share >= 0:
            update_throughput(world, world.shares[share].job)
            share = world.shares[share].next_of_node
    world.episode[0].num_dirty = 0
    if left > 0:
        recompute_refed_jobs(world)
    world.episode[0].first_refed = 0
    for i in range(world.episode[0].num_uneven):
        world.nodes[world.uneven[i]].uneven = 0
    world.episode[0].num_uneven = 0


@leaf
def sort_ascending(values: IntArray, count: int) -> None:
    """Sort the first values in place (Shell's method, gaps 3 k + 1)."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            value = values[i]
            place = i
            while place >= gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@leaf
def event_of_change(job: Records) -> int:
    """STOP, START or RESIZE, by a touched job's new placement; -1 for a waiting job that gets nothing."""
    kind = RESIZE if job.before_gpus > 0 else START
    if job.gpus == 0:
        kind = STOP if job.before_gpus > 0 else NO_CHANGE
    return int(kind)


@leaf
def divide_cpu_memory(world: World) -> None:
    """Divide the cores and memory of all nodes whose jobs have changed, in this round or before it at this instant."""
    for i in range(world.episode[0].num_touched):
        j = world.touched[i]
        if world.jobs[j].touched == CHANGED:
            renounce(world, world.jobs[j].before_share)
            claim(world, j)
    if world.episode[0].num_uneven > 0:
        divide_uneven_nodes(world)


@leaf
def shares_to_log(world: World) -> int:
    """Shares of all touched jobs: the most rows that the end of a round logs."""
    shares = 0
    for i in range(world.episode[0].num_touched):
        shares += world.jobs[world.touched[i]].num_shares
    return shares


@leaf
def take_effect(world: World) -> int:
    """End a round: apply changed placements; unchanged jobs continue without delay.

    Order of effect and log: stops, starts, resizes, each by ascending job. Returns the number of changed jobs, or -1
    if the log has no room for them; nothing has changed then.
    """
    episode = world.episode[0]
    count = episode.num_touched
    if episode.logging and not log_has_room(world, count, shares_to_log(world)):
        return -1
    sort_ascending(world.touched, count)
    for i in range(count):
        j = world.touched[i]
        job = world.jobs[j]
        if event_of_change(job) < 0:
            job.touched = UNCHANGED
        elif job.gpus > 0 and same_places(world, job) and same_names(world, job):
            job.touched = UNCHANGED
            keep_as_it_was(world, j)
    if episode.shares_cpu_memory:
        divide_cpu_memory(world)
    changed = 0
    for kind in (STOP, START, RESIZE):
        for i in range(count):
            j = world.touched[i]
            if world.jobs[j].touched == CHANGED and event_of_change(world.jobs[j]) == kind:
                change_job(world, j, kind)
                log_event(world, kind, j)
                changed += 1
    update_changed_partners(world)
    for i in range(count):
        job = world.jobs[world.touched[i]]
        free_list(world, job.before_share)
        job.before_share = -1
        job.touched = 0
        forget_partner(world, job)
    episode.num_touched = 0
    if episode.num_uneven + episode.num_dirty + episode.first_refed > 0:
        update_throughputs(world)
    return changed


@part
def settle(world: World) -> int:
    """`take_effect` as a function of its own: a call costs 40 ns, but its callers compile faster."""
    return take_effect(world)
