"""Throughput of a job on its placement: alone, from the table; and under contention with co-located jobs."""

import numpy as np

from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.shares import MEASURED, NAMED_CPUS, NAMED_MEMORY, OFF, WORST_CASE
from envs.simulation.world.throughput import EXACT_NODES
from envs.types import FloatArray, IntArray

NO_LIMIT, CPU_LIMIT, MEMORY_LIMIT, NETWORK_LIMIT = 0, 1, 2, 3  # of a running job, besides its GPUs
UNLIMITED = 0.99  # a factor on throughput of at least this limits no job


@leaf
def level_of(num_nodes: int, last: int) -> int:
    """`envs.simulation.world.throughput.node_level`, compiled; at most the last level of a table."""
    if num_nodes <= EXACT_NODES:
        return min(max(num_nodes - 1, 0), last)
    level = EXACT_NODES
    while (1 << (level - EXACT_NODES + 4)) < num_nodes and level < last:
        level += 1
    return level


@leaf
def placement_throughput(world: World, job: Records, first_share: int) -> float:
    """Samples/s of a job on a list of shares by the table, with ample cores and memory and no co-located jobs."""
    return combined_throughput(world, world.throughputs, job, first_share)


@leaf
def combined_throughput(world: World, throughputs: FloatArray, job: Records, first_share: int) -> float:
    """Samples/s of a job on a list of shares.

    Workers on unequal GPU types divide the mini-batch in proportion to throughput, or equally; in the latter case the
    slowest decides (sampling-based placement, TPDS'24, proportional workload assignment).

    Args:
        world: the world.
        throughputs: float64[num_models, num_gpu_types, max_gpus + 1, levels], those on GPUs of one type.
        job: the job.
        first_share: begin of the list.
    """
    shares = world.shares
    gpus = 0
    count = 0
    share = first_share
    while share >= 0:
        gpus += shares[share].gpus
        count += 1
        share = shares[share].next_of_job
    level = level_of(count, throughputs.shape[3] - 1)
    slowest = np.inf
    fastest = 0.0
    total = 0.0
    share = first_share
    while share >= 0:
        throughput = throughputs[job.model, world.nodes[shares[share].node].gpu_type, gpus, level]
        slowest = min(slowest, throughput)
        fastest = max(fastest, throughput)
        total += shares[share].gpus * throughput
        share = shares[share].next_of_job
    if slowest == fastest or slowest == 0.0 or world.episode[0].proportional == 0:
        return slowest if gpus > 0 else 0.0
    return total / gpus


@leaf
def cell_of(grid: FloatArray, cells: IntArray, amount: float) -> int:
    """Index of the last grid point that is at most the amount and has a successor.

    Args:
        grid: float64[points].
        cells: see `envs.simulation.world.throughput.cells_of`.
        amount: from 0 to the last grid point.
    """
    cell = cells[int(amount)]
    return int(cell + int(cell + 2 < len(grid) and grid[cell + 1] <= amount))


@leaf
def least_per_gpu(world: World, job: Records) -> tuple[float, float, int]:
    """Least cores and GB of a job for each GPU, over its shares, and its most GPUs on one node; cores as at scale 1."""
    cpus = np.inf
    memory = np.inf
    width = 0
    share = job.first_share
    while share >= 0:
        record = world.shares[share]
        cpus = min(cpus, record.cpus / record.gpus / world.cpu_scale[job.model, world.nodes[record.node].gpu_type])
        memory = min(memory, record.memory / record.gpus)
        width = max(width, record.gpus)
        share = record.next_of_job
    return cpus, memory, width


@leaf
def cpu_memory_factors(world: World, job: Records) -> tuple[float, float, float]:
    """Fractions of its throughput that a job keeps with its cores and memory, with its cores alone, its memory alone.

    What does not count is ample. The least cores and memory for each GPU decide, and of several GPU types the one with
    the smallest fraction.
    """
    cpus, memory, width = least_per_gpu(world, job)
    width = min(width, world.cpu_memory_factor.shape[2] - 1)
    most_cpus = len(world.cpu_grid) - 1
    most_memory = len(world.memory_grid) - 1
    cpus = min(cpus, world.cpu_grid[most_cpus])
    memory = min(memory, world.memory_grid[most_memory])
    i = cell_of(world.cpu_grid, world.cpu_cells, cpus)
    k = cell_of(world.memory_grid, world.memory_cells, memory)
    t = (cpus - world.cpu_grid[i]) / (world.cpu_grid[i + 1] - world.cpu_grid[i])
    u = (memory - world.memory_grid[k]) / (world.memory_grid[k + 1] - world.memory_grid[k])
    both = np.inf
    by_cpus = np.inf
    by_memory = np.inf
    before = -1
    share = job.first_share
    while share >= 0:
        gpu_type = world.nodes[world.shares[share].node].gpu_type
        if gpu_type != before:
            grid = world.cpu_memory_factor[job.model, gpu_type, width]
            above = grid[i, k] * (1 - u) + grid[i, k + 1] * u
            below = grid[i + 1, k] * (1 - u) + grid[i + 1, k + 1] * u
            both = min(both, above * (1 - t) + below * t)
            by_cpus = min(by_cpus, grid[i, most_memory] * (1 - t) + grid[i + 1, most_memory] * t)
            by_memory = min(by_memory, grid[most_cpus, k] * (1 - u) + grid[most_cpus, k + 1] * u)
        before = gpu_type
        share = world.shares[share].next_of_job
    return both, by_cpus, by_memory


@leaf
def set_throughput_alone(world: World, j: int) -> None:
    """Set a changed job's throughput without co-located jobs, and the traffic at that throughput."""
    job = world.jobs[j]
    job.ample = job.exact if job.exact > 0 else placement_throughput(world, job, job.first_share)
    if job.refed:
        job.refed = 2  # it stays in the list, so that it is not added to it once more
    feed(world, j)
    job.throughput = job.alone


@leaf
def feed(world: World, j: int) -> None:
    """Set a job's throughput without co-located jobs by its present cores and memory, and its traffic.

    A named amount is part of the exact throughput already; `fed_by_cpus` and `fed_by_memory` count it nevertheless.
    """
    job = world.jobs[j]
    job.alone = job.ample
    job.fed_by_cpus = 1.0
    job.fed_by_memory = 1.0
    if world.episode[0].shares_cpu_memory:
        both, by_cpus, by_memory = cpu_memory_factors(world, job)
        if job.named == 0:
            job.alone = job.ample * both
        elif job.named == NAMED_CPUS:
            job.alone = job.ample * by_memory
        elif job.named == NAMED_MEMORY:
            job.alone = job.ample * by_cpus
        if job.named or both < UNLIMITED:
            job.fed_by_cpus = by_cpus
            job.fed_by_memory = by_memory
    job.kept_by_links = 1.0
    if world.episode[0].contention != OFF and job.num_shares > 1:
        per_sample = job.sample_traffic if job.sample_traffic > 0 else world.traffic[job.model, job.gpus]
        if world.links_limit[job.model] > (job.plan >= 0):
            limit_by_links(world, job, per_sample * (job.num_shares - 1) / job.num_shares)
        job.traffic = per_sample * job.alone * (job.num_shares - 1) / job.num_shares
    else:
        job.traffic = 0.0


@leaf
def slowest_link(world: World, job: Records) -> float:
    """GB/s of the slowest link of a job's nodes."""
    link = np.inf
    share = job.first_share
    while share >= 0:
        link = min(link, world.nodes[world.shares[share].node].link)
        share = world.shares[share].next_of_job
    return float(link)


@leaf
def limit_by_links(world: World, job: Records, sample_traffic: float) -> None:
    """Lower a job's throughput alone to what the slowest link of its nodes carries.

    Args:
        world: the world.
        job: a job on several nodes.
        sample_traffic: GB that it sends over the link of each of its nodes for a useful sample.
    """
    link = slowest_link(world, job)
    if sample_traffic > 0 and link / sample_traffic < job.alone:
        job.kept_by_links = link / sample_traffic / job.alone
        job.alone = link / sample_traffic


@leaf
def share_link(world: World, node: Records) -> None:
    """Compute how much jobs with traffic slow each other on a node's link; see `Contention.network_factors`."""
    mode = world.episode[0].contention
    total = 0.0
    num_with_traffic = 0
    share = node.first_share
    while share >= 0:
        traffic = world.jobs[world.shares[share].job].traffic
        if traffic > 0:
            total += min(traffic, node.link) / node.link
            num_with_traffic += 1
        share = world.shares[share].next_of_node
    share = node.first_share
    while share >= 0:
        record = world.shares[share]
        traffic = world.jobs[record.job].traffic
        if traffic > 0:
            load = min(traffic, node.link) / node.link
            if mode == WORST_CASE:
                record.network = 1.0 / (1.0 + load * (num_with_traffic - 1))
            elif mode == MEASURED:
                record.network = 1.0 / (1.0 + load * (total - load))
            else:
                record.network = 1.0
        share = record.next_of_node
    if total > 1.0 and mode != WORST_CASE:
        limit_to_fair_share(world, node, num_with_traffic)


@leaf
def limit_to_fair_share(world: World, node: Records, num_with_traffic: int) -> None:
    """Limit the factors of the jobs with traffic on a node to those of max-min fairness."""
    share = node.first_share
    while share >= 0:
        record = world.shares[share]
        if world.jobs[record.job].traffic > 0:
            record.network = -record.network  # the sign marks jobs that are not served yet
        share = record.next_of_node
    left = node.link
    waiting = num_with_traffic
    while waiting > 0:
        wanted = np.inf
        chosen = -1
        share = node.first_share
        while share >= 0:  # ascending job: ties go to the lower
            record = world.shares[share]
            traffic = min(world.jobs[record.job].traffic, node.link)
            if record.network < 0 and traffic < wanted:
                wanted = traffic
                chosen = share
            share = record.next_of_node
        granted = min(wanted, left / waiting)
        left -= granted
        waiting -= 1
        world.shares[chosen].network = min(-world.shares[chosen].network, granted / wanted)


@leaf
def share_cpu_stage(world: World, node: Records) -> None:
    """In the worst case, stretch the CPU stages of a node's jobs by their total demand.

    As measured, jobs that keep to their own cores do not slow each other (`envs.performance.contention`).
    """
    if world.episode[0].contention != WORST_CASE:
        return
    demand = 0.0
    share = node.first_share
    while share >= 0:
        record = world.shares[share]
        demand += world.cpu_stage_fraction[world.jobs[record.job].model]
        share = record.next_of_node
    stretch = max(1.0, demand)
    share = node.first_share
    while share >= 0:
        record = world.shares[share]
        stage = min(world.cpu_stage_fraction[world.jobs[record.job].model], 1.0)
        record.cpu_stage = 1.0 / (1.0 + stage * (stretch - 1.0))
        share = record.next_of_node


@leaf
def kept_beside(world: World, model: int, other: int, first_share: int) -> float:
    """Fraction of its throughput that a model keeps beside another on a list of shares: the least over their types."""
    kept = 1.0
    share = first_share
    while share >= 0:
        kept = min(kept, world.pair_factors[world.nodes[world.shares[share].node].gpu_type, model, other])
        share = world.shares[share].next_of_job
    return kept


@leaf
def kept_beside_partner(world: World, job: Records) -> float:
    """Fraction of its throughput that a job keeps beside its partner; 1 without one."""
    if job.partner < 0:
        return 1.0
    return kept_beside(world, job.model, world.jobs[job.partner].model, job.first_share)


@leaf
def throughput_under_contention(world: World, job: Records) -> float:
    """Samples/s of a job under the smallest contention factors of its shares and beside its partner.

    Also notes what limits the job.
    """
    network = 1.0
    cpu_stage = 1.0
    share = job.first_share
    while share >= 0:
        network = min(network, world.shares[share].network)
        cpu_stage = min(cpu_stage, world.shares[share].cpu_stage)
        share = world.shares[share].next_of_job
    least = UNLIMITED
    limit = NO_LIMIT
    if job.fed_by_cpus * cpu_stage < least:
        least = job.fed_by_cpus * cpu_stage
        limit = CPU_LIMIT
    if job.fed_by_memory < least:
        least = job.fed_by_memory
        limit = MEMORY_LIMIT
    if network * job.kept_by_links < least:
        limit = NETWORK_LIMIT
    set_limit(world, job, limit)
    return float(job.alone * network * cpu_stage * kept_beside_partner(world, job))


@leaf
def set_limit(world: World, job: Records, limit: int) -> None:
    """Set what limits a running job, and count the jobs by it; NO_LIMIT for a job that stops."""
    if job.limit != limit:
        count_limited(world.episode[0], job.limit, -1)
        count_limited(world.episode[0], limit, 1)
        job.limit = limit


@leaf
def count_limited(episode: Records, limit: int, change: int) -> None:
    """Add to the number of running jobs that cores, memory or the network limit."""
    if limit == CPU_LIMIT:
        episode.limited_by_cpus += change
    elif limit == MEMORY_LIMIT:
        episode.limited_by_memory += change
    elif limit == NETWORK_LIMIT:
        episode.limited_by_network += change


@leaf
def share_node(world: World, n: int) -> None:
    """Compute the contention factors of all shares on a node."""
    share_link(world, world.nodes[n])
    share_cpu_stage(world, world.nodes[n])


@leaf
def runs_beside(world: World, job: Records, owner: Records) -> bool:
    """Whether a job runs on the GPUs of another one, and both fit there together."""
    if owner.gpus >= world.throughputs.shape[2]:
        return False
    level = level_of(owner.num_shares, world.throughputs.shape[3] - 1)
    share = owner.first_share
    while share >= 0:
        gpu_type = world.nodes[world.shares[share].node].gpu_type
        if world.throughputs[job.model, gpu_type, owner.gpus, level] <= 0:
            return False
        if world.pair_factors[gpu_type, job.model, owner.model] <= 0:
            return False
        share = world.shares[share].next_of_job
    return True
