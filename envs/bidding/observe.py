"""Features of jobs, nodes and pairs, written into preallocated arrays by compiled kernels.

`envs.bidding.columns` names and explains every column.
"""

import numpy as np

from envs.bidding import columns as c
from envs.bidding.arrays import (
    NUM_LISTED,
    NUM_WAITING,
    SUM_PROPOSED_CHANGE,
    SUM_PROPOSED_FREE,
    SUM_SPANNING,
    TYPE_FREE,
    TYPE_GPUS,
    TYPE_THROUGHPUT,
    BiddingArrays,
)
from envs.episodes.candidates import Features, estimated_time, fastest_type, log_minutes, scaling_efficiency
from envs.episodes.coupling import (
    SUM_CPUS,
    SUM_LOAD,
    SUM_MEMORY,
    SUM_STAGE,
    add_to_sums,
    nodes_for_size,
    write_coupling,
)
from envs.episodes.physics import (
    CPUS,
    MEMORY,
    delay_share,
    expected_traffic,
    limited,
    runs_on_type,
    size_of,
    type_throughput,
    wanted_amount,
)
from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.seen.market import Changes, gpus_after
from envs.simulation.world.kernels import RUNNING, attained_service
from envs.simulation.world.shares import OFF, WORST_CASE, idle_gpus, share_on


@leaf
def log_count(count: float) -> float:
    """Compress a number of GPUs, nodes or GB/s: log2(1 + number) / 8."""
    return float(np.log2(1.0 + count) / 8.0)


@leaf
def limit_features(out: Features) -> None:
    """Limit all features of a row."""
    for i in range(len(out)):
        out[i] = limited(out[i], c.LIMIT)


@leaf
def proposed_size(a: BiddingArrays, proposal: Changes, b: int, j: int) -> tuple[int, int]:
    """GPUs and nodes of a job under the proposal."""
    at = a.first_row[j]
    if at == -1:
        return a.world.jobs[j].gpus, a.world.jobs[j].num_shares
    gpus = 0
    nodes = 0
    while 0 <= at < proposal.num_rows[b] and proposal.rows[b, at].job == j:
        gpus += proposal.rows[b, at].gpus
        nodes += 1
        at += 1
    return gpus, nodes


@leaf
def time_features(a: BiddingArrays, job: Records, out: Features) -> None:
    """Write what is known about a job's work, service and delays."""
    episode = a.world.episode[0]
    remaining = estimated_time(job, episode.time, a.world.reference) if episode.knows_work else 0.0
    service = attained_service(job, episode.time)
    out[c.JOB_WORK_KNOWN] = 1.0 if episode.knows_work else 0.0
    out[c.JOB_REMAINING_TIME] = log_minutes(remaining)
    out[c.JOB_AGE] = log_minutes(episode.time - job.submit)
    out[c.JOB_ATTAINED_SERVICE] = log_minutes(service)
    out[c.JOB_BEGUN] = 1.0 if service > 0 else 0.0
    out[c.JOB_STARTING] = 1.0 if job.status == RUNNING and job.synced > episode.time else 0.0
    out[c.JOB_RESTART_DELAY] = log_minutes(job.restart_delay)
    out[c.JOB_RESTART_SHARE] = delay_share(job.restart_delay, remaining) if episode.knows_work else 0.0


@leaf
def present_features(a: BiddingArrays, job: Records, size: int, out: Features) -> None:
    """Write how a running job does at present; 0 for a waiting one."""
    best = a.world.reference[job.model, size]
    if job.status == RUNNING:
        out[c.JOB_THROUGHPUT] = job.throughput / best if best > 0 else 0.0
        out[c.JOB_CONTENTION] = 1.0 - job.throughput / job.alone if job.alone > 0 else 0.0
        out[c.JOB_CPU_SHORTAGE] = 1.0 - job.fed_by_cpus
        out[c.JOB_MEMORY_SHORTAGE] = 1.0 - job.fed_by_memory


@leaf
def need_features(a: BiddingArrays, job: Records, size: int, out: Features) -> None:
    """Write what a job needs and gains from, by its model."""
    world = a.world
    best = world.reference[job.model, size]
    fastest = fastest_type(world, job, size)
    slowest = np.inf
    runnable = 0.0
    for t in range(world.throughputs.shape[1]):
        throughput = type_throughput(world, job, t, size)
        if throughput > 0:
            slowest = min(slowest, throughput)
        if runs_on_type(world, job, t, size):
            runnable += a.type_sums[t, TYPE_GPUS]
    out[c.JOB_TYPE_SPREAD] = 1.0 - slowest / best if best > 0 else 0.0
    out[c.JOB_RUNNABLE] = runnable / world.episode[0].num_gpus
    out[c.JOB_CPUS_WANTED] = wanted_amount(world, job, fastest, size, CPUS) / size / 16.0
    out[c.JOB_MEMORY_WANTED] = wanted_amount(world, job, fastest, size, MEMORY) / size / 256.0
    out[c.JOB_CPU_STAGE] = world.cpu_stage_fraction[job.model]
    out[c.JOB_TRAFFIC] = log_count(expected_traffic(world, job, size, min(size, 2)))
    scaling_efficiency(world, job, fastest, out[c.JOB_EFFICIENCY_1 :])


@leaf
def observe_job(a: BiddingArrays, proposal: Changes, b: int, row: int) -> None:
    """Write the features of one job."""
    world, out = a.world, a.jobs[row]
    j = a.listed[row]
    job = world.jobs[j]
    size = size_of(world, job)
    gpus, nodes = proposed_size(a, proposal, b, j)
    out[c.JOB_PRESENT] = 1.0
    out[c.JOB_CANDIDATE] = 1.0 if row < len(a.keys) else 0.0
    out[c.JOB_WAITING] = 1.0 if job.gpus == 0 else 0.0
    out[c.JOB_REQUESTED_GPUS] = log_count(job.num_gpus)
    out[c.JOB_MIN_GPUS] = log_count(job.min_gpus)
    out[c.JOB_MAX_GPUS] = log_count(job.max_gpus)
    out[c.JOB_HELD_GPUS] = log_count(job.gpus)
    out[c.JOB_PROPOSED_GPUS] = log_count(gpus)
    out[c.JOB_HELD_NODES] = log_count(job.num_shares)
    out[c.JOB_PROPOSED_NODES] = log_count(nodes)
    time_features(a, job, out)
    present_features(a, job, size, out)
    need_features(a, job, size, out)
    limit_features(out)


@leaf
def sum_types(a: BiddingArrays) -> None:
    """Sum, by GPU type, its GPUs, its free GPUs, and the relative throughput of the listed jobs on it."""
    world = a.world
    for t in range(len(a.type_sums)):
        for i in range(a.type_sums.shape[1]):
            a.type_sums[t, i] = 0.0
    for n in range(len(world.nodes)):
        node = world.nodes[n]
        a.type_sums[node.gpu_type, TYPE_GPUS] += node.num_gpus
        a.type_sums[node.gpu_type, TYPE_FREE] += node.free
    count = 0
    for row in range(a.sizes[NUM_LISTED]):
        if a.listed[row] >= 0:
            count += 1
            job = world.jobs[a.listed[row]]
            size = size_of(world, job)
            best = world.reference[job.model, size]
            for t in range(len(a.type_sums)):
                if best > 0:
                    a.type_sums[t, TYPE_THROUGHPUT] += type_throughput(world, job, t, size) / best
    for t in range(len(a.type_sums)):
        a.type_sums[t, TYPE_THROUGHPUT] /= max(count, 1)


@leaf
def sum_nodes(a: BiddingArrays, proposal: Changes, b: int) -> None:
    """Sum, by node, what its jobs want and send, and what the proposal changes."""
    world = a.world
    for n in range(len(world.nodes)):
        node, sums = world.nodes[n], a.node_sums[n]
        for i in range(len(sums)):
            sums[i] = 0.0
        sums[SUM_PROPOSED_FREE] = idle_gpus(world, n)
        share = node.first_share
        while share >= 0:
            record = world.shares[share]
            job = world.jobs[record.job]
            add_to_sums(world, n, job, record.gpus, job.traffic, sums)
            if job.num_shares > 1:
                sums[SUM_SPANNING] += 1.0
            if a.first_row[record.job] != -1:
                after = gpus_after(world, proposal, b, a.first_row, record.job, n)
                sums[SUM_PROPOSED_CHANGE] += abs(after - record.gpus)
                sums[SUM_PROPOSED_FREE] += record.gpus
            share = record.next_of_node
    for i in range(proposal.num_rows[b]):
        row = proposal.rows[b, i]
        a.node_sums[row.node, SUM_PROPOSED_FREE] -= row.gpus
        if share_on(world, row.job, row.node) == 0:
            a.node_sums[row.node, SUM_PROPOSED_CHANGE] += row.gpus


@leaf
def observe_node(a: BiddingArrays, n: int) -> None:
    """Write the features of one node."""
    world, out, sums = a.world, a.nodes[n], a.node_sums[n]
    node = world.nodes[n]
    own_type = a.type_sums[node.gpu_type]
    shares = world.episode[0].shares_cpu_memory
    gpus = node.num_gpus
    out[c.NODE_UP] = 0.0 if node.down else 1.0
    out[c.NODE_GPUS] = log_count(gpus)
    out[c.NODE_FREE] = node.free / gpus
    out[c.NODE_JOBS] = node.num_jobs / gpus
    out[c.NODE_CPUS_PER_GPU] = node.cpus / gpus / 16.0
    out[c.NODE_MEMORY_PER_GPU] = node.memory / gpus / 256.0
    out[c.NODE_LINK] = log_count(node.link)
    out[c.NODE_CPU_DEMAND] = sums[SUM_CPUS] / node.cpus if shares else 0.0
    out[c.NODE_MEMORY_DEMAND] = sums[SUM_MEMORY] / node.memory if shares else 0.0
    out[c.NODE_LINK_LOAD] = sums[SUM_LOAD]
    out[c.NODE_CPU_STAGE_DEMAND] = sums[SUM_STAGE]
    out[c.NODE_SPANNING] = sums[SUM_SPANNING] / gpus
    out[c.NODE_TYPE_THROUGHPUT] = own_type[TYPE_THROUGHPUT]
    out[c.NODE_TYPE_GPUS] = own_type[TYPE_GPUS] / world.episode[0].num_gpus
    out[c.NODE_TYPE_FREE] = own_type[TYPE_FREE] / own_type[TYPE_GPUS]
    out[c.NODE_PROPOSED_FREE] = sums[SUM_PROPOSED_FREE] / gpus
    out[c.NODE_PROPOSED_CHANGE] = sums[SUM_PROPOSED_CHANGE] / gpus
    limit_features(out)


@leaf
def coupling_features(a: BiddingArrays, n: int, job: Records, held: int, gpus: int, out: Features) -> None:
    """Write what a job with so many GPUs on a node and the other jobs there do to each other."""
    world = a.world
    nodes = job.num_shares if held else nodes_for_size(world, n, job)
    traffic = expected_traffic(world, job, size_of(world, job), nodes)
    counted = held > 0 and job.traffic > 0
    write_coupling(world, n, job, gpus, traffic, held > 0, counted, a.node_sums[n], out[c.PAIR_CPU_SHORTAGE :])


@leaf
def observe_pair(a: BiddingArrays, proposal: Changes, b: int, n: int, pair: int, row: int, held: int) -> None:
    """Write the features of a job, which holds so many GPUs on the node, in one row of a node."""
    world, out = a.world, a.pairs[n, pair]
    j = a.listed[row]
    job, node, episode = world.jobs[j], world.nodes[n], world.episode[0]
    size = size_of(world, job)
    best = world.reference[job.model, size]
    gpus = held if held > 0 else min(size, node.num_gpus)
    a.pair_jobs[n, pair] = row
    out[c.PAIR_PRESENT] = 1.0
    out[c.PAIR_HOLDS] = 1.0 if held > 0 else 0.0
    out[c.PAIR_GPUS] = log_count(held)
    out[c.PAIR_PROPOSED_GPUS] = log_count(gpus_after(world, proposal, b, a.first_row, j, n))
    out[c.PAIR_THROUGHPUT] = type_throughput(world, job, node.gpu_type, size) / best if best > 0 else 0.0
    out[c.PAIR_FIT] = min((node.free + held) / size, 1.0)
    out[c.PAIR_ROOM] = (node.free + held - gpus) / node.num_gpus
    out[c.PAIR_SPANS] = 1.0 if job.num_shares > 1 or size > node.num_gpus else 0.0
    coupling_features(a, n, job, held, gpus, out)
    out[c.PAIR_MOVE_COST] = 0.0
    if held == 0 and episode.knows_work:
        begun = attained_service(job, episode.time) > 0
        delay = job.restart_delay if begun else job.start_delay
        out[c.PAIR_MOVE_COST] = delay_share(delay, estimated_time(job, episode.time, world.reference))
    limit_features(out)


@leaf
def empty_pair(a: BiddingArrays, n: int, pair: int) -> None:
    """Empty one row of a node."""
    if a.pair_jobs[n, pair] >= 0:
        a.pair_jobs[n, pair] = -1
        for i in range(a.pairs.shape[2]):
            a.pairs[n, pair, i] = 0.0


@leaf
def observe_pairs(a: BiddingArrays, proposal: Changes, b: int, n: int) -> None:
    """Write the rows of one node: the jobs on it, then the candidates that hold no GPUs on it."""
    world = a.world
    slots = a.pairs.shape[1] - len(a.keys)
    share = world.nodes[n].first_share
    for pair in range(slots):
        if share >= 0:
            record = world.shares[share]
            observe_pair(a, proposal, b, n, pair, a.row_of[record.job], record.gpus)
            share = record.next_of_node
        else:
            empty_pair(a, n, pair)
    for row in range(len(a.keys)):
        j = a.listed[row]
        if j >= 0 and share_on(world, j, n) == 0:
            observe_pair(a, proposal, b, n, slots + row, row, 0)
        else:
            empty_pair(a, n, slots + row)


@leaf
def observe_whole(a: BiddingArrays) -> None:
    """Write the features that all nodes share. The backlog is of the listed jobs."""
    world, out = a.world, a.cluster
    episode = world.episode[0]
    backlog = 0.0
    requested = 0.0
    changed = 0
    for row in range(a.sizes[NUM_LISTED]):
        j = a.listed[row]
        if j >= 0:
            job = world.jobs[j]
            if episode.knows_work:
                backlog += estimated_time(job, episode.time, world.reference) * job.num_gpus
            if job.gpus == 0:
                requested += job.num_gpus
            if a.first_row[j] != -1:
                changed += 1
    out[c.CLUSTER_WAITING] = np.log1p(a.sizes[NUM_WAITING]) / 5.0
    out[c.CLUSTER_RUNNING] = np.log1p(episode.num_running) / 5.0
    out[c.CLUSTER_FREE] = episode.num_free / episode.num_gpus
    out[c.CLUSTER_DOWN] = 1.0 - episode.num_up / episode.num_gpus
    out[c.CLUSTER_NODES] = log_count(len(world.nodes))
    out[c.CLUSTER_GPUS] = log_count(episode.num_gpus)
    out[c.CLUSTER_WAITING_GPUS] = requested / episode.num_gpus
    out[c.CLUSTER_BACKLOG] = log_minutes(backlog / episode.num_gpus)
    out[c.CLUSTER_CHANGED] = changed / max(episode.num_active, 1)
    out[c.CLUSTER_SHARES_CPU_MEMORY] = 1.0 if episode.shares_cpu_memory else 0.0
    out[c.CLUSTER_CONTENTION] = 1.0 if episode.contention != OFF else 0.0
    out[c.CLUSTER_WORST_CASE] = 1.0 if episode.contention == WORST_CASE else 0.0
    out[c.CLUSTER_KNOWS_WORK] = 1.0 if episode.knows_work else 0.0
    limit_features(out)
