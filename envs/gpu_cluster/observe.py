"""What servers see: features, written into preallocated arrays by compiled kernels.

Times enter as log(1 + minutes) / 10, GPU counts as fractions of the largest node. Job features, in order:

 0 present; 1 estimated remaining time on the requested GPUs (0 if unknown); 2 age since submission;
 3 attained service; 4 requested, 5 least, 6 most GPUs; 7 GPUs in the plan so far; 8 ran when the round began;
 9 starting or restarting; 10 changed in this round; 11 time left at its present speed (0 if it does not run);
 12 what a restart would cost it;
 then, for each GPU type, its speed on the requested GPUs relative to the fastest type;
 then its efficiency per GPU at 1, 2, 4 and 8 GPUs relative to one (or to the fewest it runs on).
"""

import numpy as np

from envs.gpu_cluster.arrays import EnvArrays, Features, Records
from envs.simulation.jit import leaf
from envs.simulation.kernels import QUEUED, RUNNING, attained_service, remaining_work
from envs.simulation.ordered_set import next_member
from envs.simulation.world import World
from envs.types import FloatArray


@leaf
def log_minutes(seconds: float) -> float:
    """Compress a time: log(1 + minutes) / 10."""
    return float(np.log1p(max(seconds, 0.0) / 60.0) / 10.0)


@leaf
def least_gpus(rules: Records, job: Records) -> int:
    """The fewest GPUs on which the rules let a job run: its least, or those requested without elasticity."""
    return int(job.min_gpus if rules[0].elastic else job.num_gpus)


@leaf
def waits(rules: Records, job: Records) -> bool:
    """Whether a job still needs GPUs in the plan as it stands: it has none, or fewer than its least."""
    return bool((job.status == QUEUED or job.status == RUNNING) and job.gpus < least_gpus(rules, job))


@leaf
def estimated_time(job: Records, time: float, reference: FloatArray) -> float:
    """Seconds that schedulers believe the rest takes on the requested GPUs of the fastest type."""
    rate = reference[job.model, min(job.num_gpus, reference.shape[1] - 1)]
    return float(remaining_work(job, time) * job.estimate / rate) if rate > 0 else 0.0


@leaf
def queue_key(a: EnvArrays, job: Records) -> float:
    """What the queue is sorted by, smallest first."""
    episode = a.world.episode[0]
    order = a.rules[0].queue_order
    if order == 1:
        return float(job.submit)
    if order == 2 or episode.knows_work == 0:
        return attained_service(job, episode.time)
    return estimated_time(job, episode.time, a.world.reference)


@leaf
def enter_heads(a: EnvArrays, j: int, count: int) -> int:
    """Insert a waiting job among the `count` first in queue order, ties by id; return how many there are now."""
    key = queue_key(a, a.world.jobs[j])
    capacity = len(a.heads)
    if count == capacity and (key > a.keys[count - 1] or (key == a.keys[count - 1] and j > a.heads[count - 1])):
        return count
    place = min(count, capacity - 1)
    while place > 0 and (a.keys[place - 1] > key or (a.keys[place - 1] == key and a.heads[place - 1] > j)):
        a.keys[place] = a.keys[place - 1]
        a.heads[place] = a.heads[place - 1]
        place -= 1
    a.keys[place] = key
    a.heads[place] = j
    return min(count + 1, capacity)


@leaf
def head_of_queue(a: EnvArrays) -> int:
    """Fill `heads` with the first waiting jobs in queue order (ties by id), -1 behind them; return how many wait."""
    world = a.world
    for c in range(len(a.heads)):
        a.heads[c] = -1
    count = 0
    waiting = 0
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0:
        if waits(a.rules, world.jobs[j]):
            waiting += 1
            count = enter_heads(a, j, count)
        j = next_member(world.queued, len(world.jobs), j + 1)
    for i in range(world.episode[0].num_touched):  # jobs that ran, and that the plan has taken GPUs from
        j = world.touched[i]
        if world.jobs[j].status == RUNNING and waits(a.rules, world.jobs[j]):
            waiting += 1
            count = enter_heads(a, j, count)
    return waiting


@leaf
def job_features(world: World, job: Records, node_gpus: int, out: Features) -> None:
    """Describe one job, as the module's docstring lists."""
    rates, levels, reference = world.rates, world.levels, world.reference
    knows_work = world.episode[0].knows_work
    time = world.episode[0].time
    gpus = min(job.num_gpus, reference.shape[1] - 1)
    best = reference[job.model, gpus]
    out[0] = 1.0
    out[1] = log_minutes(estimated_time(job, time, reference)) if knows_work else 0.0
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
    known = running and knows_work and job.touched == 0 and job.rate > 0
    out[11] = log_minutes(remaining_work(job, time) * job.estimate / job.rate) if known else 0.0
    out[12] = log_minutes(job.restart_delay)
    place = 13
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


@leaf
def observe_cluster(a: EnvArrays, waiting: int) -> None:
    """Features shared by all servers."""
    episode, rules, nodes, out = a.world.episode[0], a.rules[0], a.world.nodes, a.cluster
    for i in range(len(out)):
        out[i] = 0.0
    out[0] = np.log1p(waiting) / 5.0
    out[1] = np.log1p(episode.num_running) / 5.0
    out[2] = episode.num_free / episode.num_gpus
    out[3] = rules.decision / rules.max_decisions
    out[4] = 1.0 if rules.decision == 0 else 0.0
    out[5] = waiting / episode.num_gpus
    for n in range(len(nodes)):
        out[6 + nodes[n].gpu_type] += nodes[n].free / episode.num_gpus


@leaf
def observe_slots(a: EnvArrays, n: int) -> None:
    """Describe the jobs on one server."""
    world = a.world
    node_gpus, last = a.slots.shape[1], a.slots.shape[2]
    share = world.nodes[n].first_share
    for slot in range(node_gpus):
        if share >= 0:
            job = world.jobs[world.shares[share].job]
            job_features(world, job, node_gpus, a.slots[n, slot])
            a.slots[n, slot, last - 2] = world.shares[share].gpus / node_gpus
            a.slots[n, slot, last - 1] = np.log2(1.0 + job.num_shares) / 3.0
            share = world.shares[share].next_of_node
        else:
            for i in range(last):
                a.slots[n, slot, i] = 0.0


@leaf
def observe_servers(a: EnvArrays) -> None:
    """Describe the servers and what runs on them.

    A server knows how many servers before it have the same GPU type and as many free GPUs: without that, equal
    servers could not but choose alike, and would always conflict. Within a round time stands still, so slots change
    only where the plan does.
    """
    nodes, node_gpus = a.world.nodes, a.slots.shape[1]
    now = a.world.episode[0].num_rounds + 1
    for kind in range(a.equals.shape[0]):
        for free in range(a.equals.shape[1]):
            a.equals[kind, free] = 0
    for n in range(len(nodes)):
        node = nodes[n]
        for kind in range(a.equals.shape[0]):
            a.servers[n, 5 + kind] = 0.0
        a.servers[n, 0] = node.free / node_gpus
        a.servers[n, 1] = node.num_gpus / node_gpus
        a.servers[n, 2] = node.num_jobs / node_gpus
        a.servers[n, 3] = n / len(nodes)
        a.servers[n, 4] = a.equals[node.gpu_type, node.free] / len(nodes)
        a.servers[n, 5 + node.gpu_type] = 1.0
        a.equals[node.gpu_type, node.free] += 1
        if a.rules[0].seen == 0 or node.planned == now:
            observe_slots(a, n)
    a.rules[0].seen = 1


@leaf
def observe(a: EnvArrays) -> None:
    """Write all features of one episode, and into `heads` the jobs behind the queue's rows."""
    waiting = head_of_queue(a)
    for c in range(len(a.heads)):
        if a.heads[c] >= 0:
            job_features(a.world, a.world.jobs[a.heads[c]], a.slots.shape[1], a.queue[c])
        else:
            for i in range(a.queue.shape[1]):
                a.queue[c, i] = 0.0
    observe_cluster(a, waiting)
    observe_servers(a)
