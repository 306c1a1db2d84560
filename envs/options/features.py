"""The feature rows of options, jobs, nodes and the cluster, written by compiled kernels.

`envs.options.columns` names and explains every column. All rows describe the draft of the round as it is at the present
decision. Remaining work is used only where schedulers know it, and only as their estimate of it.
"""

import numpy as np

from envs.episodes.candidates import Features, estimated_time, fastest_type, scaling_efficiency
from envs.episodes.coupling import SUM_CPUS, SUM_LOAD, SUM_MEMORY, add_to_sums, write_coupling
from envs.episodes.physics import delay_share, planned_traffic, spread_traffic, type_throughput
from envs.options.arrays import OPTION_ACTION, OPTION_AMOUNT, OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.by_node import drawn_rank
from envs.options.columns import (
    CLUSTER_AGE,
    CLUSTER_DECISIONS,
    CLUSTER_FREE,
    CLUSTER_GANG,
    CLUSTER_RUNNING,
    CLUSTER_WAITING,
    CLUSTER_WAITING_PER_GPU,
    EVICT,
    JOB_AGE,
    JOB_ATTAINED_SERVICE,
    JOB_BATCH,
    JOB_CHANGED,
    JOB_CONTENTION,
    JOB_CPUS,
    JOB_DOUBT,
    JOB_EFFICIENCY,
    JOB_FIRST,
    JOB_GPU_TIME,
    JOB_GPUS,
    JOB_LACKS_CPUS,
    JOB_LACKS_MEMORY,
    JOB_LOSES,
    JOB_MAX_GPUS,
    JOB_MEMORY,
    JOB_MIN_GPUS,
    JOB_RANK,
    JOB_REMAINING_TIME,
    JOB_REQUESTED_GPUS,
    JOB_RESTART_DELAY,
    JOB_RUNS,
    JOB_SAMPLES,
    JOB_SHARES,
    JOB_SPREAD,
    JOB_TIME_LOW,
    JOB_WAITS,
    MOVE,
    NODE_CPU_DEMAND,
    NODE_DOWN,
    NODE_FREE,
    NODE_GPUS,
    NODE_JOBS,
    NODE_LINK_LOAD,
    NODE_MEMORY_DEMAND,
    NODE_RANK,
    NODE_TYPE_THROUGHPUT,
    NUM_SCALING_COLUMNS,
    OPTION_BATCH,
    OPTION_CPU_SHORTAGE,
    OPTION_CPUS,
    OPTION_DOUBT,
    OPTION_DOUBT_CHANGE,
    OPTION_EFFICIENCY,
    OPTION_FREE_AFTER,
    OPTION_FULL,
    OPTION_GPU_TIME,
    OPTION_GPUS,
    OPTION_GPUS_CHANGE,
    OPTION_GPUS_HERE,
    OPTION_LOSES,
    OPTION_MEMORY,
    OPTION_OF_FAIR_SHARE,
    OPTION_OF_REQUEST,
    OPTION_PARTNER_LOSES,
    OPTION_PARTNER_REGAINS,
    OPTION_PARTNER_TIME,
    OPTION_RESTART,
    OPTION_RUN_TIME,
    OPTION_SAMPLES,
    OPTION_SHARE,
    OPTION_SPREAD,
    OPTION_THROUGHPUT,
    OPTION_TIME_SAVED,
    OPTION_TUNE,
    OPTION_TYPE_LOSS,
    RATIO_LIMIT,
    SHARE,
    TUNE,
    WAIT,
)
from envs.options.demanded import keeps
from envs.options.listing import needs_gpus
from envs.options.tuned import named_level, throughput_when_tuned
from envs.options.units import doublings, relative
from envs.simulation.compiled.jit import Records, leaf, part
from envs.simulation.world.arrays import World
from envs.simulation.world.job_throughput import combined_throughput, kept_beside, kept_beside_partner, level_of
from envs.simulation.world.kernels import RUNNING, attained_service, remaining_work
from envs.simulation.world.shares import OFF, share_on
from envs.types import FloatArray


@leaf
def ratio(value: float, unit: float) -> float:
    """Return a quotient of at most RATIO_LIMIT; 0 where the unit is 0."""
    return min(value / unit, RATIO_LIMIT) if unit > 0 else 0.0


@leaf
def write_place(a: OptionArrays, row: int) -> None:
    """Write the columns `CHANGING_JOB` of a job, which depend on its place in the list: rows begin with `heads`."""
    candidates = a.rules[0].num_candidates
    a.jobs[row, JOB_RANK] = 0.0
    a.jobs[row, JOB_FIRST] = 0.0
    if row < candidates:
        first = row
        while first > 0 and a.keys[first - 1] == a.keys[row]:
            first -= 1
        a.jobs[row, JOB_RANK] = first / candidates
        a.jobs[row, JOB_FIRST] = 1.0 if first == 0 else 0.0


@leaf
def write_job(a: OptionArrays, row: int) -> None:
    """Write the row of a job."""
    world, out = a.world, a.jobs[row]
    job, episode, rules = world.jobs[a.job_ids[row]], world.episode[0], a.rules[0]
    is_waiting = needs_gpus(job)
    runs = job.status == RUNNING
    estimate = estimated_time(job, episode.time, world.reference) if episode.knows_work else 0.0
    out[JOB_WAITS] = 1.0 if is_waiting else 0.0
    out[JOB_RUNS] = 1.0 if runs else 0.0
    out[JOB_CHANGED] = 1.0 if job.touched else 0.0
    write_place(a, row)
    out[JOB_REMAINING_TIME] = relative(estimate, rules.time_unit)
    out[JOB_GPU_TIME] = relative(estimate * job.num_gpus, rules.gpu_time_unit)
    out[JOB_AGE] = relative(episode.time - job.submit, rules.age_unit)
    out[JOB_ATTAINED_SERVICE] = relative(attained_service(job, episode.time), rules.service_unit)
    out[JOB_REQUESTED_GPUS] = ratio(job.num_gpus, rules.node_gpus)
    out[JOB_MIN_GPUS] = job.min_gpus / job.num_gpus
    out[JOB_MAX_GPUS] = doublings(job.max_gpus, job.num_gpus)
    out[JOB_GPUS] = doublings(job.gpus, job.num_gpus)
    out[JOB_SPREAD] = np.log2(1.0 + job.num_shares) / 3.0
    out[JOB_RESTART_DELAY] = delay_share(
        job.restart_delay, estimate if episode.knows_work else episode.time - job.submit
    )
    out[JOB_CONTENTION] = 1.0 - job.throughput / job.alone if runs and job.alone > 0 else 0.0
    out[JOB_LACKS_CPUS] = 1.0 - job.fed_by_cpus if runs else 0.0
    out[JOB_LACKS_MEMORY] = 1.0 - job.fed_by_memory if runs else 0.0
    gpus = min(job.num_gpus, world.reference.shape[1] - 1)
    fastest = fastest_type(world, job, gpus)
    scaling_efficiency(world, job, fastest, out[JOB_EFFICIENCY : JOB_EFFICIENCY + NUM_SCALING_COLUMNS])
    out[JOB_DOUBT] = doubt_of(a, job, fastest, gpus, 1)
    out[JOB_SAMPLES] = samples_of(a, job, fastest, gpus, 1)
    if len(a.likely) > 0:
        write_quantiles(a, row)
    out[JOB_SHARES] = 1.0 if job.partner >= 0 else 0.0
    out[JOB_LOSES] = 1.0 - kept_beside_partner(world, job)
    if len(a.tunings.parts) > 1:
        usual, saturating = a.tunings.usual[job.model], a.tunings.saturating[job.model]
        out[JOB_BATCH] = doublings(job.batch_size, usual[min(job.gpus, len(usual) - 1)])
        out[JOB_CPUS] = named_level(world, job, saturating[0], False)
        out[JOB_MEMORY] = named_level(world, job, saturating[1], True)


@leaf
def write_quantiles(a: OptionArrays, row: int) -> None:
    """Write the columns of predicted work of a job."""
    j, out, reference = a.job_ids[row], a.jobs[row], a.world.reference
    job = a.world.jobs[j]
    throughput = reference[job.model, min(job.num_gpus, reference.shape[1] - 1)]
    for k in range(a.likely.shape[1]):
        out[JOB_TIME_LOW + k] = relative(a.likely[j, k] / throughput, a.rules[0].time_unit) if throughput > 0 else 0.0


@leaf
def sum_jobs(a: OptionArrays, n: int, without: int, sums: FloatArray) -> None:
    """Write the sums over the jobs on a node, except one."""
    world = a.world
    for i in range(len(sums)):
        sums[i] = 0.0
    share = world.nodes[n].first_share
    while share >= 0:
        record = world.shares[share]
        job = world.jobs[record.job]
        if record.job != without:
            add_to_sums(world, n, job, record.gpus, planned_traffic(world, job, job.num_shares), sums)
        share = record.next_of_node


@leaf
def write_node(a: OptionArrays, n: int) -> None:
    """Write the row of a node, and the sums over its jobs."""
    world, out, sums = a.world, a.nodes[n], a.sums[n]
    node, unit = world.nodes[n], a.rules[0].node_gpus
    sum_jobs(a, n, -1, sums)
    out[NODE_FREE] = node.free / unit
    out[NODE_GPUS] = node.num_gpus / unit
    out[NODE_JOBS] = node.num_jobs / unit
    out[NODE_TYPE_THROUGHPUT] = a.type_throughput[node.gpu_type] if a.rules[0].sees_own == 0 else 0.0
    out[NODE_CPU_DEMAND] = ratio(sums[SUM_CPUS], node.cpus)
    out[NODE_MEMORY_DEMAND] = ratio(sums[SUM_MEMORY], node.memory)
    out[NODE_LINK_LOAD] = min(sums[SUM_LOAD], RATIO_LIMIT)
    out[NODE_DOWN] = 1.0 if node.down else 0.0
    out[NODE_RANK] = drawn_rank(world.episode[0].num_rounds, a.rules[0].subround, n) if a.rules[0].ranks else 0.0


@leaf
def write_cluster(a: OptionArrays) -> None:
    """Write the row of the cluster; zeros where nodes see their own alone."""
    if a.rules[0].sees_own:
        for i in range(len(a.cluster)):
            a.cluster[i] = 0.0
        return
    episode, rules, out = a.world.episode[0], a.rules[0], a.cluster
    out[CLUSTER_WAITING] = rules.waiting / max(rules.active, 1)
    out[CLUSTER_RUNNING] = ratio(episode.num_running, episode.num_gpus)
    out[CLUSTER_FREE] = episode.num_free / episode.num_gpus
    out[CLUSTER_WAITING_PER_GPU] = ratio(rules.waiting, episode.num_gpus)
    out[CLUSTER_DECISIONS] = min(rules.decision / rules.max_decisions, 1.0)  # a gang may end after the last decision
    out[CLUSTER_GANG] = 1.0 if rules.gang >= 0 else 0.0
    out[CLUSTER_AGE] = relative(rules.age_unit, rules.time_unit)


@leaf
def throughput_after(world: World, job: Records, action: int, n: int, here: int, total: int, count: int) -> float:
    """Samples/s of a job after an option, with ample cores and memory and without contention for links.

    Args:
        world: the episode.
        job: the job.
        action: the action of option.
        n: its node.
        here: GPUs on this node after it.
        total: GPUs of the job.
        count: nodes of the job.
    """
    throughputs = world.throughputs
    level = level_of(count, throughputs.shape[3] - 1)
    slowest = throughputs[job.model, world.nodes[n].gpu_type, total, level] if here > 0 else np.inf
    link = world.nodes[n].link if here > 0 else np.inf
    weighted = here * slowest if here > 0 else 0.0
    held = here
    unequal = False
    if action != MOVE:
        share = job.first_share
        while share >= 0:
            record = world.shares[share]
            if record.node != n:
                throughput = throughputs[job.model, world.nodes[record.node].gpu_type, total, level]
                unequal = unequal or (held > 0 and throughput != slowest)
                slowest = min(slowest, throughput)
                weighted += record.gpus * throughput
                held += record.gpus
                link = min(link, world.nodes[record.node].link)
            share = record.next_of_job
    throughput = slowest
    if unequal and slowest > 0 and world.episode[0].proportional:
        throughput = weighted / held
    if count > 1 and world.episode[0].contention != OFF and world.links_limit[job.model]:
        per_sample = world.traffic[job.model, total] * (count - 1) / count
        if per_sample > 0:
            throughput = min(throughput, link / per_sample)
    return float(throughput)


@leaf
def write_throughput(a: OptionArrays, j: int, throughput: float, n: int, total: int, out: Features) -> None:
    """Write what an option means for the throughput of a job, and for the time until it is done.

    Args:
        a: the episode.
        j: the job.
        throughput: its samples/s after the option, without contention.
        n: the option's node.
        total: GPUs of the job after it.
        out: the option's row.
    """
    world, episode = a.world, a.world.episode[0]
    job = world.jobs[j]
    requested = min(job.num_gpus, world.reference.shape[1] - 1)
    best = world.reference[job.model, requested]
    out[OPTION_THROUGHPUT] = ratio(throughput, best)
    out[OPTION_EFFICIENCY] = ratio(throughput * requested, best * total)
    fastest = world.reference[job.model, total]
    out[OPTION_TYPE_LOSS] = 1.0 - ratio(type_throughput(world, job, world.nodes[n].gpu_type, total), fastest)
    left = remaining_work(job, episode.time) * job.estimate
    delay = job.restart_delay if attained_service(job, episode.time) > 0 else job.start_delay
    if episode.knows_work == 0 or throughput <= 0:
        return
    time, unit = left / throughput, a.rules[0].time_unit
    out[OPTION_RUN_TIME] = relative(time, unit)
    out[OPTION_GPU_TIME] = relative(time * total, a.rules[0].gpu_time_unit)
    out[OPTION_RESTART] = delay_share(delay, time)
    if job.status == RUNNING and job.touched == 0 and job.throughput > 0:
        out[OPTION_TIME_SAVED] = relative(left / job.throughput, unit) - out[OPTION_RUN_TIME]


@leaf
def job_gpus_after(a: OptionArrays, option: int) -> int:
    """GPUs that the job of an option other than waiting has after it."""
    action, here = a.what[option, OPTION_ACTION], a.what[option, OPTION_AMOUNT]
    if action in (MOVE, EVICT):
        return int(here)
    j = a.job_ids[a.what[option, OPTION_ROW]]
    if action == TUNE:
        return int(a.world.jobs[j].gpus)
    if action == SHARE:
        return int(a.world.jobs[here].gpus)
    return int(a.world.jobs[j].gpus - share_on(a.world, j, a.what[option, OPTION_NODE]) + here)


@leaf
def write_tuning(a: OptionArrays, job: Records, tuning: int, out: Features) -> None:
    """Write what a tuning names."""
    parts, saturating = a.tunings.parts[tuning, job.model], a.tunings.saturating[job.model]
    size, usual = a.tunings.batch_size[tuning, job.model, job.gpus], a.tunings.usual[job.model, job.gpus]
    out[OPTION_BATCH] = doublings(size, usual)
    out[OPTION_CPUS] = ratio(parts[0], saturating[0])
    out[OPTION_MEMORY] = ratio(parts[1], saturating[1])


@leaf
def doubt_of(a: OptionArrays, job: Records, gpu_type: int, gpus: int, nodes: int) -> float:
    """Return OPTION_DOUBT of a throughput on so many GPUs of a type over so many nodes."""
    spread = a.doubt.spread
    if len(spread) == 0:
        return 0.0
    return float(spread[job.model, gpu_type, gpus, level_of(nodes, spread.shape[3] - 1)])


@leaf
def samples_of(a: OptionArrays, job: Records, gpu_type: int, gpus: int, nodes: int) -> float:
    """Return OPTION_SAMPLES of a throughput on so many GPUs of a type over so many nodes."""
    samples = a.doubt.num_samples
    if len(samples) == 0:
        return 0.0
    return float(np.log1p(samples[job.model, gpu_type, gpus, level_of(nodes, samples.shape[3] - 1)]) / 2.0)


@leaf
def write_doubt(a: OptionArrays, job: Records, n: int, gpus: int, nodes: int, out: Features) -> None:
    """Write how sure the throughput is that a job would have on GPUs of the type of a node."""
    world = a.world
    out[OPTION_DOUBT] = doubt_of(a, job, world.nodes[n].gpu_type, gpus, nodes)
    out[OPTION_SAMPLES] = samples_of(a, job, world.nodes[n].gpu_type, gpus, nodes)
    if job.status == RUNNING and job.touched == 0:
        now = world.nodes[world.shares[job.first_share].node].gpu_type
        out[OPTION_DOUBT_CHANGE] = out[OPTION_DOUBT] - doubt_of(a, job, now, job.gpus, job.num_shares)


@leaf
def write_sharing(a: OptionArrays, job: Records, action: int, owner: int, out: Features) -> None:
    """Write what a job and its partner lose of their throughputs after an option, and what a present partner regains.

    Args:
        a: the episode.
        job: the job of the option.
        action: the kind of option.
        owner: the job whose GPUs it would share, if it is of that kind.
        out: the option's row.
    """
    world, episode = a.world, a.world.episode[0]
    leaves = action in (MOVE, EVICT)
    if job.partner >= 0 and leaves:
        out[OPTION_PARTNER_REGAINS] = 1.0 - kept_beside_partner(world, world.jobs[job.partner])
    if action != SHARE and (leaves or job.partner < 0):
        return
    partner = world.jobs[owner if action == SHARE else job.partner]
    out[OPTION_LOSES] = 1.0 - kept_beside(world, job.model, partner.model, partner.first_share)
    out[OPTION_PARTNER_LOSES] = 1.0 - kept_beside(world, partner.model, job.model, partner.first_share)
    if episode.knows_work:
        estimate = estimated_time(partner, episode.time, world.reference)
        out[OPTION_PARTNER_TIME] = relative(estimate, a.rules[0].time_unit)


@leaf
def flag_of(action: int) -> int:
    """Return the column that marks an action: one of the first, except for those that came later."""
    if action == TUNE:
        return int(OPTION_TUNE)
    return int(OPTION_SHARE) if action == SHARE else int(action)


@leaf
def write_option(a: OptionArrays, option: int) -> None:
    """Write the row of an option."""
    world, out, unit = a.world, a.options[option], a.rules[0].node_gpus
    action, n, here = a.what[option, OPTION_ACTION], a.what[option, OPTION_NODE], a.what[option, OPTION_AMOUNT]
    for i in range(len(out)):
        out[i] = 0.0
    out[flag_of(action)] = 1.0
    if action == WAIT:
        return
    j = a.job_ids[a.what[option, OPTION_ROW]]
    job, node = world.jobs[j], world.nodes[n]
    held = share_on(world, j, n)
    tuning = 0
    if action == TUNE:
        tuning, here = here, held
        write_tuning(a, job, tuning, out)
    total = job_gpus_after(a, option)
    owner = 0
    if action == SHARE:
        owner, here = here, share_on(world, here, n)
    write_sharing(a, job, action, owner, out)
    count = job.num_shares + (1 if held == 0 else 0) - (1 if here == 0 else 0)
    if action == SHARE:
        count = world.jobs[owner].num_shares
    elif action in (MOVE, EVICT):
        count = 1 if action == MOVE else 0
    out[OPTION_GPUS] = ratio(total, unit)
    out[OPTION_GPUS_HERE] = here / unit
    out[OPTION_GPUS_CHANGE] = max(ratio(total - job.gpus, job.num_gpus), -RATIO_LIMIT)
    out[OPTION_OF_REQUEST] = doublings(total, job.num_gpus)
    fair_share = world.episode[0].num_gpus / max(a.rules[0].active, 1)
    out[OPTION_OF_FAIR_SHARE] = total / (total + fair_share)
    out[OPTION_SPREAD] = np.log2(1.0 + count) / 3.0
    own = keeps(a, job, n, held) - keeps(a, job, n, here)
    free = node.free if action == SHARE else node.free + (own if job.partner < 0 else -here)
    out[OPTION_FREE_AFTER] = free / unit
    out[OPTION_FULL] = 1.0 if free == 0 else 0.0
    if action == EVICT:
        return
    if total < job.min_gpus:  # a gang: what it will have, on as many nodes like the largest as the rest needs
        count += (job.min_gpus - total + unit - 1) // unit
        total = job.min_gpus
    if tuning > 0:
        throughput = throughput_when_tuned(a, job, tuning)
    elif action == SHARE:
        throughput = combined_throughput(world, world.throughputs, job, world.jobs[owner].first_share)
        throughput *= kept_beside(world, job.model, world.jobs[owner].model, world.jobs[owner].first_share)
    else:
        throughput = throughput_after(world, job, action, n, here, total, count)
    write_throughput(a, j, throughput, n, total, out)
    write_doubt(a, job, n, total, count, out)
    if here == 0:
        return
    others = n
    if held > 0:  # its GPUs and traffic there change, so that the sums less what it has after the option would be wrong
        others = len(world.nodes)
        sum_jobs(a, n, j, a.sums[others])
    traffic = spread_traffic(world, job, total, count)
    write_coupling(world, n, job, here, traffic, False, False, a.sums[others], out[OPTION_CPU_SHORTAGE:])


@leaf
def compare_types(a: OptionArrays) -> None:
    """Write `type_throughput`, see NODE_TYPE_THROUGHPUT; 0 for all types if no job has an option."""
    types, single = a.type_throughput, a.world.consolidated
    for t in range(len(types)):
        types[t] = 0.0
    for row in range(a.rules[0].num_jobs):
        model = a.world.jobs[a.job_ids[row]].model
        best = 0.0
        for t in range(len(types)):
            best = max(best, single[model, t, 1])
        for t in range(len(types)):
            types[t] += ratio(single[model, t, 1], best) / a.rules[0].num_jobs


@part
def write_features(a: OptionArrays) -> None:
    """Write all rows for the listed options."""
    compare_types(a)
    for n in range(len(a.world.nodes)):
        write_node(a, n)
    write_cluster(a)
    for row in range(a.rules[0].num_jobs):
        write_job(a, row)
    for option in range(a.rules[0].num_options):
        write_option(a, option)
