"""Features that nodes observe, written into preallocated arrays by compiled kernels.

`envs.gpu_cluster.columns` names and explains every column.
"""

import numpy as np

from envs.episodes.candidates import (
    Features,
    enter_sorted,
    estimated_time,
    fastest_type,
    log_minutes,
    queue_key,
    scaling_efficiency,
)
from envs.gpu_cluster.arrays import EnvArrays
from envs.gpu_cluster.columns import (
    CLUSTER_DECISION,
    CLUSTER_FIRST_DECISION,
    CLUSTER_FREE_BY_TYPE,
    CLUSTER_FREE_GPUS,
    CLUSTER_RUNNING,
    CLUSTER_WAITING,
    CLUSTER_WAITING_PER_GPU,
    JOB_AGE,
    JOB_ATTAINED_SERVICE,
    JOB_CHANGED,
    JOB_MAX_GPUS,
    JOB_MIN_GPUS,
    JOB_PLANNED_GPUS,
    JOB_PRESENT,
    JOB_REMAINING_TIME,
    JOB_REQUESTED_GPUS,
    JOB_RESTART_DELAY,
    JOB_RUNNING,
    JOB_STARTING,
    JOB_THROUGHPUT,
    JOB_TIME_LEFT,
    NODE_EQUALS_BEFORE,
    NODE_FREE_GPUS,
    NODE_GPUS,
    NODE_JOBS,
    NODE_POSITION,
    NODE_TYPE,
    SLOT_GPUS,
    SLOT_NUM_NODES,
    efficiency_column,
    slot_column,
)
from envs.simulation.jit import Records, leaf
from envs.simulation.kernels import QUEUED, RUNNING, attained_service, remaining_work
from envs.simulation.ordered_set import next_member
from envs.simulation.world import World


@leaf
def least_gpus(rules: Records, job: Records) -> int:
    """The fewest GPUs on which the rules let a job run: its minimum, or the requested number without elasticity."""
    return int(job.min_gpus if rules[0].elastic else job.num_gpus)


@leaf
def waits(rules: Records, job: Records) -> bool:
    """Whether a job still needs GPUs in the present plan: it has none, or fewer than its minimum."""
    return bool((job.status == QUEUED or job.status == RUNNING) and job.gpus < least_gpus(rules, job))


@leaf
def head_of_queue(a: EnvArrays) -> int:
    """Fill `heads` with the first waiting jobs in queue order (ties by id), then -1; return how many jobs wait."""
    world, order = a.world, a.rules[0].queue_order
    for c in range(len(a.heads)):
        a.heads[c] = -1
    count = 0
    waiting = 0
    j = next_member(world.queued, len(world.jobs), 0)
    while j >= 0:
        if waits(a.rules, world.jobs[j]):
            waiting += 1
            count = enter_sorted(a.heads, a.keys, len(a.heads), count, j, queue_key(world, order, world.jobs[j]))
        j = next_member(world.queued, len(world.jobs), j + 1)
    for i in range(world.episode[0].num_touched):  # jobs that ran and from which the plan has taken GPUs
        j = world.touched[i]
        if world.jobs[j].status == RUNNING and waits(a.rules, world.jobs[j]):
            waiting += 1
            count = enter_sorted(a.heads, a.keys, len(a.heads), count, j, queue_key(world, order, world.jobs[j]))
    return waiting


@leaf
def job_features(world: World, job: Records, node_gpus: int, out: Features) -> None:
    """Write the columns of one job."""
    knows_work = world.episode[0].knows_work
    time = world.episode[0].time
    out[JOB_PRESENT] = 1.0
    out[JOB_REMAINING_TIME] = log_minutes(estimated_time(job, time, world.reference)) if knows_work else 0.0
    out[JOB_AGE] = log_minutes(time - job.submit)
    out[JOB_ATTAINED_SERVICE] = log_minutes(attained_service(job, time))
    out[JOB_REQUESTED_GPUS] = job.num_gpus / node_gpus
    out[JOB_MIN_GPUS] = job.min_gpus / node_gpus
    out[JOB_MAX_GPUS] = job.max_gpus / node_gpus
    out[JOB_PLANNED_GPUS] = job.gpus / node_gpus
    running = job.status == RUNNING
    out[JOB_RUNNING] = 1.0 if running else 0.0
    out[JOB_STARTING] = 1.0 if running and job.synced > time else 0.0
    out[JOB_CHANGED] = 1.0 if job.touched else 0.0
    known = running and knows_work and job.touched == 0 and job.throughput > 0
    out[JOB_TIME_LEFT] = log_minutes(remaining_work(job, time) * job.estimate / job.throughput) if known else 0.0
    out[JOB_RESTART_DELAY] = log_minutes(job.restart_delay)
    scaling_features(world, job, out)


@leaf
def scaling_features(world: World, job: Records, out: Features) -> None:
    """Write a job's throughputs by GPU type, then its scaling efficiencies on the fastest type."""
    throughputs, reference = world.consolidated, world.reference
    gpus = min(job.num_gpus, reference.shape[1] - 1)
    best = reference[job.model, gpus]
    for gpu_type in range(throughputs.shape[1]):
        throughput = throughputs[job.model, gpu_type, gpus]
        out[JOB_THROUGHPUT + gpu_type] = throughput / best if best > 0 else 0.0
    efficiency = efficiency_column(throughputs.shape[1])
    scaling_efficiency(world, job, fastest_type(world, job, gpus), out[efficiency:])


@leaf
def observe_cluster(a: EnvArrays, waiting: int) -> None:
    """Write the features that all nodes share."""
    episode, rules, nodes, out = a.world.episode[0], a.rules[0], a.world.nodes, a.cluster
    for i in range(len(out)):
        out[i] = 0.0
    out[CLUSTER_WAITING] = np.log1p(waiting) / 5.0
    out[CLUSTER_RUNNING] = np.log1p(episode.num_running) / 5.0
    out[CLUSTER_FREE_GPUS] = episode.num_free / episode.num_gpus
    out[CLUSTER_DECISION] = rules.decision / rules.max_decisions
    out[CLUSTER_FIRST_DECISION] = 1.0 if rules.decision == 0 else 0.0
    out[CLUSTER_WAITING_PER_GPU] = waiting / episode.num_gpus
    for n in range(len(nodes)):
        out[CLUSTER_FREE_BY_TYPE + nodes[n].gpu_type] += nodes[n].free / episode.num_gpus


@leaf
def observe_slots(a: EnvArrays, n: int) -> None:
    """Write the features of the jobs on one node."""
    world = a.world
    node_gpus, own = a.slots.shape[1], slot_column(world.throughputs.shape[1])
    share = world.nodes[n].first_share
    for slot in range(node_gpus):
        if share >= 0:
            job = world.jobs[world.shares[share].job]
            job_features(world, job, node_gpus, a.slots[n, slot])
            a.slots[n, slot, own + SLOT_GPUS] = world.shares[share].gpus / node_gpus
            a.slots[n, slot, own + SLOT_NUM_NODES] = np.log2(1.0 + job.num_shares) / 3.0
            share = world.shares[share].next_of_node
        else:
            for i in range(a.slots.shape[2]):
                a.slots[n, slot, i] = 0.0


@leaf
def observe_nodes(a: EnvArrays) -> None:
    """Write the features of the nodes and of the jobs on them.

    A node sees how many nodes before it have the same GPU type and as many free GPUs. Without that, equal nodes would
    always choose alike and always conflict. No time passes within a round, so slots change only where the plan does.
    """
    nodes, node_gpus = a.world.nodes, a.slots.shape[1]
    now = a.world.episode[0].num_rounds + 1
    for gpu_type in range(a.equals.shape[0]):
        for free in range(a.equals.shape[1]):
            a.equals[gpu_type, free] = 0
    for n in range(len(nodes)):
        node = nodes[n]
        for gpu_type in range(a.equals.shape[0]):
            a.nodes[n, NODE_TYPE + gpu_type] = 0.0
        a.nodes[n, NODE_FREE_GPUS] = node.free / node_gpus
        a.nodes[n, NODE_GPUS] = node.num_gpus / node_gpus
        a.nodes[n, NODE_JOBS] = node.num_jobs / node_gpus
        a.nodes[n, NODE_POSITION] = n / len(nodes)
        a.nodes[n, NODE_EQUALS_BEFORE] = a.equals[node.gpu_type, node.free] / len(nodes)
        a.nodes[n, NODE_TYPE + node.gpu_type] = 1.0
        a.equals[node.gpu_type, node.free] += 1
        if a.rules[0].seen == 0 or node.planned == now:
            observe_slots(a, n)
    a.rules[0].seen = 1


@leaf
def observe(a: EnvArrays) -> None:
    """Write all features of one episode, and into `heads` the jobs behind the rows of the queue."""
    waiting = head_of_queue(a)
    for c in range(len(a.heads)):
        if a.heads[c] >= 0:
            job_features(a.world, a.world.jobs[a.heads[c]], a.slots.shape[1], a.queue[c])
        else:
            for i in range(a.queue.shape[1]):
                a.queue[c, i] = 0.0
    observe_cluster(a, waiting)
    observe_nodes(a)
