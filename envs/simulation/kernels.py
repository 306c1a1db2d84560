"""The engine's moving parts as compiled functions over record arrays of one episode.

Arguments recur under the same names: `episode` EPISODE[1], `jobs` JOB[num_jobs], `nodes` NODE[num_nodes],
`shares` SHARE_RECORD[2 * num_gpus], `heap` int64[num_gpus], `active` and `touched` int64[num_jobs],
`rates` and `levels` of a `SpeedTable`, `events` EVENT[...] and `log_shares` SHARE[...].

Remaining work is kept lazily: it is valid at `synced` and falls at `rate` from then on. A round changes placements
through `set_share` and `clear_job`, which remember what a job held when the round began; `settle` compares and
lets only real changes cost anything.
"""

from typing import Any

import numpy as np

from envs.simulation.heap import heap_pop, heap_push, heap_remove, heap_update
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray

Records = Any  # numba sees the record arrays; mypy does not see into them

PENDING, QUEUED, RUNNING, DONE = 0, 1, 2, 3  # Status
FINISH, ARRIVE, STOP, START, RESIZE = 0, 1, 2, 3, 4  # EventKind
ROUND, END, LOG_FULL = 0, 1, 2  # Outcome


@jit
def remaining_work(job: Records, time: float) -> float:
    """Samples that a job has still to process at `time`."""
    if job.status == RUNNING and time > job.synced:
        return float(max(job.remaining - job.rate * (time - job.synced), 0.0))
    return float(job.remaining)


@jit
def attained_service(job: Records, time: float) -> float:
    """GPU-seconds that a job has held until `time`; what the round under way plans for it does not count yet."""
    if job.status == RUNNING:
        held = job.before_gpus if job.touched else job.gpus
        return float(job.service + held * (time - job.served))
    return float(job.service)


@jit
def placement_rate(
    episode: Records, job: Records, nodes: Records, shares: Records, rates: FloatArray, first_share: int
) -> float:
    """Samples/s of a job on a list of shares.

    Workers on unequal GPU types share the mini-batch in proportion to speed, or equally, in which case the slowest
    sets the pace (sampling-based placement, TPDS'24, proportional workload assignment).
    """
    gpus = 0
    count = 0
    share = first_share
    while share >= 0:
        gpus += shares[share].gpus
        count += 1
        share = shares[share].next_of_job
    level = 0
    while (1 << level) < count and level < rates.shape[3] - 1:
        level += 1
    slowest = np.inf
    fastest = 0.0
    total = 0.0
    share = first_share
    while share >= 0:
        rate = rates[job.model, nodes[shares[share].node].gpu_type, gpus, level]
        slowest = min(slowest, rate)
        fastest = max(fastest, rate)
        total += shares[share].gpus * rate
        share = shares[share].next_of_job
    if slowest == fastest or slowest == 0.0 or episode[0].proportional == 0:
        return slowest if gpus > 0 else 0.0
    return total / gpus


@jit
def log_event(
    episode: Records, jobs: Records, shares: Records, events: Any, log_shares: Any, kind: int, j: int
) -> None:
    """Write one event and, for START and RESIZE, the placement after it."""
    if episode[0].logging == 0:
        return
    event = events[episode[0].log_events]
    event["time"] = episode[0].time
    event["kind"] = kind
    event["job"] = j
    event["first_share"] = episode[0].log_shares
    event["num_shares"] = 0
    episode[0].log_events += 1
    if kind < START:
        return
    share = jobs[j].first_share
    while share >= 0:
        row = log_shares[episode[0].log_shares]
        row["node"] = shares[share].node
        row["gpus"] = shares[share].gpus
        episode[0].log_shares += 1
        event["num_shares"] += 1
        share = shares[share].next_of_job


@jit
def link_to_node(nodes: Records, shares: Records, share: int) -> None:
    """Insert a share into its node's list, by ascending job."""
    node = nodes[shares[share].node]
    node.free -= shares[share].gpus
    node.num_jobs += 1
    before = -1
    after = node.first_share
    while after >= 0 and shares[after].job < shares[share].job:
        before = after
        after = shares[after].next_of_node
    shares[share].next_of_node = after
    if before < 0:
        node.first_share = share
    else:
        shares[before].next_of_node = share


@jit
def unlink_from_node(nodes: Records, shares: Records, share: int) -> None:
    """Take a share out of its node's list."""
    node = nodes[shares[share].node]
    node.free += shares[share].gpus
    node.num_jobs -= 1
    before = -1
    here = node.first_share
    while here != share:
        before = here
        here = shares[here].next_of_node
    if before < 0:
        node.first_share = shares[share].next_of_node
    else:
        shares[before].next_of_node = shares[share].next_of_node


@jit
def new_share(episode: Records, jobs: Records, nodes: Records, shares: Records, j: int, n: int, gpus: int) -> None:
    """Give a job GPUs on a node where it has none; its list stays in order of nodes."""
    share = episode[0].free_share
    episode[0].free_share = shares[share].next_of_job
    shares[share].job = j
    shares[share].node = n
    shares[share].gpus = gpus
    before = -1
    after = jobs[j].first_share
    while after >= 0 and shares[after].node < n:
        before = after
        after = shares[after].next_of_job
    shares[share].next_of_job = after
    if before < 0:
        jobs[j].first_share = share
    else:
        shares[before].next_of_job = share
    jobs[j].num_shares += 1
    jobs[j].gpus += gpus
    episode[0].num_free -= gpus
    link_to_node(nodes, shares, share)


@jit
def free_list(episode: Records, shares: Records, first_share: int) -> None:
    """Return a list of share records to the pool."""
    share = first_share
    while share >= 0:
        after = shares[share].next_of_job
        shares[share].next_of_job = episode[0].free_share
        episode[0].free_share = share
        share = after


@jit
def clear_job(episode: Records, jobs: Records, nodes: Records, shares: Records, touched: IntArray, j: int) -> None:
    """Take all GPUs from a job for the rest of this round's plan; the first time, remember what it held."""
    job = jobs[j]
    share = job.first_share
    while share >= 0:
        unlink_from_node(nodes, shares, share)
        share = shares[share].next_of_job
    episode[0].num_free += job.gpus
    if job.touched == 0:
        job.touched = 1
        touched[episode[0].num_touched] = j
        episode[0].num_touched += 1
        job.before_share = job.first_share
        job.before_shares = job.num_shares
        job.before_gpus = job.gpus
    else:
        free_list(episode, shares, job.first_share)
    job.first_share = -1
    job.num_shares = 0
    job.gpus = 0


@jit
def share_on(jobs: Records, shares: Records, j: int, n: int) -> int:
    """GPUs that a job holds on a node in the plan as it stands."""
    share = jobs[j].first_share
    while share >= 0:
        if shares[share].node == n:
            return int(shares[share].gpus)
        share = shares[share].next_of_job
    return 0


@jit
def set_share(
    episode: Records, jobs: Records, nodes: Records, shares: Records, touched: IntArray, j: int, n: int, gpus: int
) -> None:
    """Set a job's GPUs on one node (0 takes them away) and leave its other nodes as they are.

    The caller has checked that the node has room.
    """
    job = jobs[j]
    if job.touched == 0:  # copy the list, so that the old one stays as it was
        clear_job(episode, jobs, nodes, shares, touched, j)
        share = job.before_share
        while share >= 0:
            new_share(episode, jobs, nodes, shares, j, shares[share].node, shares[share].gpus)
            share = shares[share].next_of_job
    before = -1
    share = job.first_share
    while share >= 0 and shares[share].node != n:
        before = share
        share = shares[share].next_of_job
    if share >= 0:
        unlink_from_node(nodes, shares, share)
        episode[0].num_free += shares[share].gpus
        job.gpus -= shares[share].gpus
        job.num_shares -= 1
        if before < 0:
            job.first_share = shares[share].next_of_job
        else:
            shares[before].next_of_job = shares[share].next_of_job
        shares[share].next_of_job = episode[0].free_share
        episode[0].free_share = share
    if gpus > 0:
        new_share(episode, jobs, nodes, shares, j, n, gpus)


@jit
def unchanged(job: Records, shares: Records) -> bool:
    """Whether a touched job ends the round where it began it."""
    if job.gpus != job.before_gpus or job.num_shares != job.before_shares:
        return False
    now = job.first_share
    then = job.before_share
    while now >= 0:
        if shares[now].node != shares[then].node or shares[now].gpus != shares[then].gpus:
            return False
        now = shares[now].next_of_job
        then = shares[then].next_of_job
    return True


@jit
def bring_up_to_date(job: Records, time: float) -> None:
    """Account a running job's progress and service until `time`."""
    job.remaining = remaining_work(job, time)
    job.service = attained_service(job, time)
    job.served = time
    job.synced = max(job.synced, time)


@jit
def change_job(
    episode: Records, jobs: Records, nodes: Records, shares: Records, heap: IntArray, rates: FloatArray, j: int
) -> int:
    """Let a changed placement take effect; return the kind of event that it is."""
    job = jobs[j]
    time = episode[0].time
    if job.before_gpus > 0:
        bring_up_to_date(job, time)
    if job.gpus == 0:
        heap_remove(jobs, heap, episode[0].num_running, j)
        episode[0].num_running -= 1
        job.status = QUEUED
        job.num_preemptions += 1
        job.rate = 0.0
        job.finish = np.inf
        return STOP
    first = np.isnan(job.start)
    job.synced = time + (job.start_delay if first else job.restart_delay)
    job.rate = placement_rate(episode, job, nodes, shares, rates, job.first_share)
    job.finish = job.synced + job.remaining / job.rate
    if not first:
        job.num_restarts += 1
    if job.before_gpus > 0:
        heap_update(jobs, heap, episode[0].num_running, j)
        return RESIZE
    if first:
        job.start = time
    job.status = RUNNING
    job.served = time
    heap_push(jobs, heap, episode[0].num_running, j)
    episode[0].num_running += 1
    return START


@jit
def settle(
    episode: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    heap: IntArray,
    touched: IntArray,
    rates: FloatArray,
    events: Any,
    log_shares: Any,
) -> int:
    """End a round: changed placements take effect, unchanged ones go on free of charge; return how many changed.

    Order of effect and log: stops, starts, resizes, each by ascending job.
    """
    count = episode[0].num_touched
    touched[:count].sort()
    changed = 0
    for kind in (STOP, START, RESIZE):
        for i in range(count):
            j = touched[i]
            job = jobs[j]
            is_kind = RESIZE
            if job.gpus == 0:
                is_kind = STOP
            elif job.before_gpus == 0:
                is_kind = START
            if is_kind != kind or unchanged(job, shares):
                continue
            change_job(episode, jobs, nodes, shares, heap, rates, j)
            log_event(episode, jobs, shares, events, log_shares, kind, j)
            changed += 1
    for i in range(count):
        job = jobs[touched[i]]
        free_list(episode, shares, job.before_share)
        job.before_share = -1
        job.touched = 0
    episode[0].num_touched = 0
    return changed


@jit
def finish_job(
    episode: Records, jobs: Records, nodes: Records, shares: Records, heap: IntArray, active: IntArray
) -> int:
    """Complete the first job of the heap at the present time; return it."""
    j = heap[0]
    job = jobs[j]
    job.service = attained_service(job, episode[0].time)
    heap_pop(jobs, heap, episode[0].num_running)
    episode[0].num_running -= 1
    share = job.first_share
    while share >= 0:
        unlink_from_node(nodes, shares, share)
        share = shares[share].next_of_job
    episode[0].num_free += job.gpus
    free_list(episode, shares, job.first_share)
    job.first_share = -1
    job.num_shares = 0
    job.gpus = 0
    job.remaining = 0.0
    job.rate = 0.0
    job.status = DONE
    place = np.searchsorted(active[: episode[0].num_active], j)
    for i in range(place, episode[0].num_active - 1):
        active[i] = active[i + 1]
    episode[0].num_active -= 1
    return int(j)


@jit
def pass_time(episode: Records, until: float) -> None:
    """Let simulated time pass and account what was in the system meanwhile."""
    span = until - episode[0].time
    if span > 0:
        episode[0].job_seconds += episode[0].num_active * span
        episode[0].busy_seconds += (episode[0].num_gpus - episode[0].num_free) * span
        episode[0].time = until


@jit
def note_event(episode: Records) -> None:
    """Count a completion or arrival; it is a reason to decide, at once or at the next tick, and so ends a stall."""
    episode[0].num_events += 1
    episode[0].round_due = episode[0].round_due or episode[0].on_events
    episode[0].stalls = 0 if episode[0].on_events else -1  # the tick to come is asked for the first time


@jit
def events_at(
    episode: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    heap: IntArray,
    active: IntArray,
    events: Any,
    log_shares: Any,
    time: float,
) -> int:
    """Process completions, then arrivals, at one instant; LOG_FULL if the log ran out before all were."""
    while episode[0].num_running > 0 and jobs[heap[0]].finish <= time:
        if episode[0].logging and episode[0].log_events == len(events):
            return LOG_FULL
        j = finish_job(episode, jobs, nodes, shares, heap, active)
        log_event(episode, jobs, shares, events, log_shares, FINISH, j)
        note_event(episode)
    while episode[0].next_job < len(jobs) and jobs[episode[0].next_job].submit <= time:
        if episode[0].logging and episode[0].log_events == len(events):
            return LOG_FULL
        j = episode[0].next_job
        jobs[j].status = QUEUED
        active[episode[0].num_active] = j
        episode[0].num_active += 1
        episode[0].next_job = j + 1
        log_event(episode, jobs, shares, events, log_shares, ARRIVE, j)
        note_event(episode)
    return ROUND


@jit
def next_tick(episode: Records, arrival: float) -> float:
    """The next round of the fixed interval; while the system is empty, the first one that has jobs to decide on."""
    if episode[0].num_active == 0:
        if arrival == np.inf:
            return np.inf
        first = np.ceil(arrival / episode[0].interval) * episode[0].interval
        episode[0].next_round = max(episode[0].next_round, first)
    return float(episode[0].next_round)


@jit
def stall(episode: Records) -> int:
    """Jobs wait, nothing runs, nothing will come: ask again a little later, but not for ever."""
    episode[0].stalls += 1
    until = episode[0].time + episode[0].stall_interval
    if episode[0].interval < np.inf:
        until = max(episode[0].next_round, episode[0].time)
        episode[0].next_round = until + episode[0].interval
    if episode[0].stalls > episode[0].max_stalls or until >= episode[0].horizon:
        return end_episode(episode)
    pass_time(episode, until)
    episode[0].num_rounds += 1
    return ROUND


@jit
def end_episode(episode: Records) -> int:
    """Stop the clock: at the horizon if jobs are left and there is one, so that leaving jobs undone never pays."""
    if episode[0].num_active > 0 and episode[0].horizon < np.inf:
        pass_time(episode, episode[0].horizon)
    episode[0].ended = 1
    return END


@jit
def advance(
    episode: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    heap: IntArray,
    active: IntArray,
    events: Any,
    log_shares: Any,
) -> int:
    """Let time pass until a decision is due, the episode ends, or the log is full.

    At one instant completions free GPUs before arrivals are admitted before anyone decides (law 5).
    """
    while True:
        arrival = jobs[episode[0].next_job].submit if episode[0].next_job < len(jobs) else np.inf
        finish = jobs[heap[0]].finish if episode[0].num_running > 0 else np.inf
        happening = min(arrival, finish)
        if episode[0].round_due == 0:
            if happening == np.inf:
                if episode[0].num_active == 0:
                    return end_episode(episode)
                return stall(episode)
            tick = next_tick(episode, arrival) if episode[0].interval < np.inf else np.inf
            time = min(happening, tick)
            if time > episode[0].horizon:
                return end_episode(episode)
            pass_time(episode, time)
            if tick <= time:
                episode[0].round_due = 1
                episode[0].next_round = tick + episode[0].interval
        outcome = events_at(episode, jobs, nodes, shares, heap, active, events, log_shares, episode[0].time)
        if outcome == LOG_FULL:
            return outcome
        if episode[0].round_due and episode[0].num_active > 0:
            episode[0].round_due = 0
            episode[0].num_rounds += 1
            return ROUND
        episode[0].round_due = 0
