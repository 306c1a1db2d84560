"""What servers see: features and action masks, written into preallocated arrays by compiled kernels.

Times enter as log(1 + minutes) / 10, GPU counts as fractions of the largest node. Job features, in order:

 0 present; 1 estimated remaining time on the requested GPUs (0 if unknown); 2 age since submission;
 3 attained service; 4 requested, 5 least, 6 most GPUs; 7 GPUs in the plan so far; 8 ran when the round began;
 9 starting or restarting; 10 changed in this round; 11 time left at its present speed (0 if it does not run);
 then, for each GPU type, its speed on the requested GPUs relative to the fastest type;
 then its efficiency per GPU at 1, 2, 4 and 8 GPUs relative to one (or to the fewest it runs on).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from envs.simulation.jit import jit
from envs.simulation.kernels import QUEUED, RUNNING, attained_service, remaining_work, share_on
from envs.types import FloatArray, IntArray

Records = Any
Features = npt.NDArray[np.float32]
Mask = npt.NDArray[np.int8]

RULES = np.dtype(
    (
        np.record,
        [
            ("max_decisions", np.int64),
            ("queue_order", np.int64),  # index into spec.QUEUE_ORDERS
            ("preemptive", np.int64),
            ("elastic", np.int64),
            # Counters of the episode.
            ("decision", np.int64),  # joint decisions taken in this round so far
            ("decisions", np.int64),
            ("claims", np.int64),  # choices other than nothing
            ("conflicts", np.int64),  # claims refused because another server's won
            ("incomplete", np.int64),  # jobs whose claims never reached their least GPUs by the end of a round
        ],
    ),
    align=True,
)


@jit
def log_minutes(seconds: float) -> float:
    """Compress a time: log(1 + minutes) / 10."""
    return float(np.log1p(max(seconds, 0.0) / 60.0) / 10.0)


@jit
def least_gpus(rules: Records, job: Records) -> int:
    """The fewest GPUs on which the rules let a job run: its least, or those requested without elasticity."""
    return int(job.min_gpus if rules[0].elastic else job.num_gpus)


@jit
def waits(rules: Records, job: Records) -> bool:
    """Whether a job still needs GPUs in the plan as it stands: it has none, or fewer than its least."""
    return bool((job.status == QUEUED or job.status == RUNNING) and job.gpus < least_gpus(rules, job))


@jit
def estimated_time(job: Records, time: float, reference: FloatArray) -> float:
    """Seconds that schedulers believe the rest takes on the requested GPUs of the fastest type."""
    rate = reference[job.model, min(job.num_gpus, reference.shape[1] - 1)]
    return float(remaining_work(job, time) * job.estimate / rate) if rate > 0 else 0.0


@jit
def queue_key(episode: Records, rules: Records, job: Records, reference: FloatArray) -> float:
    """What the queue is sorted by, smallest first."""
    order = rules[0].queue_order
    if order == 1:
        return float(job.submit)
    if order == 2 or episode[0].knows_work == 0:
        return attained_service(job, episode[0].time)
    return estimated_time(job, episode[0].time, reference)


@jit
def head_of_queue(
    episode: Records,
    rules: Records,
    jobs: Records,
    active: IntArray,
    reference: FloatArray,
    heads: IntArray,
    keys: FloatArray,
) -> int:
    """Fill `heads` with the first waiting jobs in queue order (ties by id), -1 behind them; return how many wait."""
    capacity = len(heads)
    heads[:] = -1
    count = 0
    waiting = 0
    for i in range(episode[0].num_active):
        j = active[i]
        if not waits(rules, jobs[j]):
            continue
        waiting += 1
        key = queue_key(episode, rules, jobs[j], reference)
        if count == capacity and key >= keys[count - 1]:
            continue
        place = min(count, capacity - 1)
        while place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            heads[place] = heads[place - 1]
            place -= 1
        keys[place] = key
        heads[place] = j
        count = min(count + 1, capacity)
    return waiting


@jit
def job_features(
    episode: Records,
    job: Records,
    rates: FloatArray,
    levels: IntArray,
    reference: FloatArray,
    node_gpus: int,
    out: Features,
) -> None:
    """Describe one job, as the module's docstring lists."""
    time = episode[0].time
    gpus = min(job.num_gpus, reference.shape[1] - 1)
    best = reference[job.model, gpus]
    out[0] = 1.0
    out[1] = log_minutes(estimated_time(job, time, reference)) if episode[0].knows_work else 0.0
    out[2] = log_minutes(time - job.submit)
    out[3] = log_minutes(attained_service(job, time))
    out[4] = job.num_gpus / node_gpus
    out[5] = job.min_gpus / node_gpus
    out[6] = job.max_gpus / node_gpus
    out[7] = job.gpus / node_gpus
    running = job.status == RUNNING
    out[8] = 1.0 if running else 0.0
    out[9] = 1.0 if running and job.synced > time else 0.0
    out[10] = 1.0 if job.touched else 0.0
    known = running and episode[0].knows_work and job.touched == 0 and job.rate > 0
    out[11] = log_minutes(remaining_work(job, time) * job.estimate / job.rate) if known else 0.0
    place = 12
    fastest = 0
    for kind in range(rates.shape[1]):
        rate = rates[job.model, kind, gpus, max(levels[kind, gpus], 0)]
        if rate == best:
            fastest = kind
        out[place + kind] = rate / best if best > 0 and levels[kind, gpus] >= 0 else 0.0
    place += rates.shape[1]
    single = 0.0
    for i in range(4):
        points = min(1 << i, reference.shape[1] - 1)
        rate = rates[job.model, fastest, points, max(levels[fastest, points], 0)] / points
        if single == 0.0:
            single = rate
        out[place + i] = rate / single if single > 0 else 0.0


@jit
def observe_cluster(
    episode: Records, rules: Records, nodes: Records, waiting: int, restart_delay: float, out: Features
) -> None:
    """Features shared by all servers."""
    out[:] = 0.0
    out[0] = np.log1p(waiting) / 5.0
    out[1] = np.log1p(episode[0].num_running) / 5.0
    out[2] = episode[0].num_free / episode[0].num_gpus
    out[3] = rules[0].decision / rules[0].max_decisions
    out[4] = 1.0 if rules[0].decision == 0 else 0.0
    out[5] = log_minutes(restart_delay)
    out[6] = waiting / episode[0].num_gpus
    for n in range(len(nodes)):
        out[7 + nodes[n].gpu_type] += nodes[n].free / episode[0].num_gpus


@jit
def rank_among_equals(nodes: Records, n: int) -> int:
    """How many servers before this one have the same GPU type and as many free GPUs.

    Without it equal servers could not but choose alike, and would always conflict.
    """
    rank = 0
    for i in range(n):
        if nodes[i].gpu_type == nodes[n].gpu_type and nodes[i].free == nodes[n].free:
            rank += 1
    return rank


@jit
def observe(
    episode: Records,
    rules: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    active: IntArray,
    rates: FloatArray,
    levels: IntArray,
    reference: FloatArray,
    heads: IntArray,
    keys: FloatArray,
    servers: Features,
    slots: Features,
    queue: Features,
    shared: Features,
) -> None:
    """Write all features of one episode.

    `servers` [num_servers, F_server], `slots` [num_servers, num_slots, F_slot], `queue` [num_candidates, F_job],
    `shared` [F_cluster]; `heads` int64[num_candidates] receives the jobs behind the queue's rows.
    """
    node_gpus = slots.shape[1]
    waiting = head_of_queue(episode, rules, jobs, active, reference, heads, keys)
    queue[:] = 0.0
    for i in range(len(heads)):
        if heads[i] >= 0:
            job_features(episode, jobs[heads[i]], rates, levels, reference, node_gpus, queue[i])
    observe_cluster(episode, rules, nodes, waiting, jobs[0].restart_delay, shared)
    servers[:] = 0.0
    slots[:] = 0.0
    for n in range(len(nodes)):
        node = nodes[n]
        servers[n, 0] = node.free / node_gpus
        servers[n, 1] = node.num_gpus / node_gpus
        servers[n, 2] = node.num_jobs / node_gpus
        servers[n, 3] = n / len(nodes)
        servers[n, 4] = rank_among_equals(nodes, n) / len(nodes)
        servers[n, 5 + node.gpu_type] = 1.0
        share = node.first_share
        slot = 0
        while share >= 0 and slot < slots.shape[1]:
            job = jobs[shares[share].job]
            job_features(episode, job, rates, levels, reference, node_gpus, slots[n, slot])
            last = slots.shape[2]
            slots[n, slot, last - 2] = shares[share].gpus / node_gpus
            slots[n, slot, last - 1] = np.log2(1.0 + job.num_shares) / 3.0
            slot += 1
            share = shares[share].next_of_node


@jit
def amount_allowed(rules: Records, job: Records, gpus: int, total: int) -> bool:
    """Whether a job may hold `total` GPUs; without elasticity only the requested number (or a part of a gang)."""
    if total > job.max_gpus:
        return False
    return bool(rules[0].elastic or total <= job.num_gpus)


@jit
def runs_on(rates: FloatArray, model: int, kind: int, total: int) -> bool:
    """Whether a model runs at all on so many GPUs with this type among them."""
    if total >= rates.shape[2]:
        return False
    for level in range(rates.shape[3]):  # noqa: SIM110  compiled code stops at the first; `any` would make an array
        if rates[model, kind, total, level] > 0:
            return True
    return False


@jit
def one_node_holds(rules: Records, job: Records, nodes: Records, rates: FloatArray) -> bool:
    """Whether the job runs within a single node of this cluster, were it free."""
    least = least_gpus(rules, job)
    most = job.max_gpus if rules[0].elastic else job.num_gpus
    for n in range(len(nodes)):
        for gpus in range(least, min(most, nodes[n].num_gpus) + 1):
            if runs_on(rates, job.model, nodes[n].gpu_type, gpus):
                return True
    return False


@jit
def claim_allowed(
    episode: Records, rules: Records, job: Records, node: Records, rates: FloatArray, gpus: int, is_gang: bool
) -> bool:
    """Whether a server may claim a waiting job with so many GPUs.

    A claim below the job's least GPUs is a part of a gang: allowed only where no single node could hold the job,
    and where the cluster has enough free GPUs for the rest.
    """
    total = job.gpus + gpus
    if gpus > node.free or not amount_allowed(rules, job, gpus, total):
        return False
    least = least_gpus(rules, job)
    if total < least:
        if not is_gang or episode[0].num_free < least - job.gpus:
            return False
        total = least
    return runs_on(rates, job.model, node.gpu_type, total)


@jit
def runs_elsewhere(nodes: Records, shares: Records, rates: FloatArray, job: Records, n: int, total: int) -> bool:
    """Whether a job of so many GPUs in all runs on its nodes other than `n`."""
    share = job.first_share
    while share >= 0:
        other = shares[share].node
        if other != n and not runs_on(rates, job.model, nodes[other].gpu_type, total):
            return False
        share = shares[share].next_of_job
    return True


@jit
def change_allowed(
    rules: Records, job: Records, nodes: Records, shares: Records, rates: FloatArray, n: int, here: int, gpus: int
) -> bool:
    """Whether server `n` may set a job that runs there from `here` to so many GPUs."""
    if gpus == here or gpus - here > nodes[n].free:
        return False
    if gpus == 0:
        return bool(rules[0].preemptive or job.status == QUEUED)
    total = job.gpus - here + gpus
    if rules[0].elastic == 0 or total < job.min_gpus or not amount_allowed(rules, job, gpus, total):
        return False
    if not runs_on(rates, job.model, nodes[n].gpu_type, total):
        return False
    return runs_elsewhere(nodes, shares, rates, job, n, total)


@jit
def mask_claims(
    episode: Records,
    rules: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    rates: FloatArray,
    heads: IntArray,
    amounts: int,
    num_levels: int,
    mask: Mask,
) -> int:
    """Allow what servers may claim; return how many choices that are.

    While the whole cluster is idle, a server that could claim a waiting job may not pass: otherwise a policy could
    leave the jobs waiting for ever.
    """
    idle = episode[0].num_free == episode[0].num_gpus
    choices = 0
    for c in range(len(heads)):
        j = heads[c]
        if j < 0:
            continue
        is_gang = not one_node_holds(rules, jobs[j], nodes, rates)
        for n in range(len(nodes)):
            node = nodes[n]
            if node.free == 0 or share_on(jobs, shares, j, n) > 0:
                continue
            for gpus in range(1, node.free + 1):
                if claim_allowed(episode, rules, jobs[j], node, rates, gpus, is_gang):
                    place = 1 + (c * amounts + gpus) * num_levels
                    mask[n, place : place + num_levels] = 1
                    choices += 1
                    if idle:
                        mask[n, 0] = 0
    return choices


@jit
def mask_actions(
    episode: Records,
    rules: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    rates: FloatArray,
    heads: IntArray,
    num_slots: int,
    num_levels: int,
    mask: Mask,
) -> int:
    """Write the mask int8[num_servers, num_actions]; return how many choices there are besides nothing."""
    amounts = num_slots + 1  # as many slots as GPUs of the largest node
    mask[:] = 0
    mask[:, 0] = 1
    choices = mask_claims(episode, rules, jobs, nodes, shares, rates, heads, amounts, num_levels, mask)
    for n in range(len(nodes)):
        share = nodes[n].first_share
        slot = 0
        while share >= 0 and slot < num_slots:
            job = jobs[shares[share].job]
            for gpus in range(amounts):
                if change_allowed(rules, job, nodes, shares, rates, n, shares[share].gpus, gpus):
                    place = 1 + ((len(heads) + slot) * amounts + gpus) * num_levels
                    mask[n, place : place + num_levels] = 1
                    choices += 1
            slot += 1
            share = shares[share].next_of_node
    return choices
