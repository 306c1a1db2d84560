"""How fast a placement is: alone, from the tables; and among its neighbours."""

import math

import numpy as np

from envs.simulation.jit import leaf, part
from envs.simulation.shares import MEASURED, NAMED_CPUS, NAMED_MEMORY, OFF, WORST_CASE, take_cpus, take_memory
from envs.simulation.world import Records, World
from envs.types import FloatArray

PARTS = 64.0  # envs.simulation.exact.PARTS


@leaf
def placement_rate(world: World, job: Records, first_share: int) -> float:
    """Samples/s of a job on a list of shares by the table, with ample cores and memory and no neighbours.

    Workers on unequal GPU types share the mini-batch in proportion to speed, or equally, in which case the slowest
    sets the pace (sampling-based placement, TPDS'24, proportional workload assignment).
    """
    rates, shares = world.rates, world.shares
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
        rate = rates[job.model, world.nodes[shares[share].node].gpu_type, gpus, level]
        slowest = min(slowest, rate)
        fastest = max(fastest, rate)
        total += shares[share].gpus * rate
        share = shares[share].next_of_job
    if slowest == fastest or slowest == 0.0 or world.episode[0].proportional == 0:
        return slowest if gpus > 0 else 0.0
    return total / gpus


@leaf
def cell_of(grid: FloatArray, amount: float) -> int:
    """The last grid point that is at most the amount and has one behind it."""
    cell = 0
    while cell < len(grid) - 2 and grid[cell + 1] <= amount:
        cell += 1
    return cell


@leaf
def host_factor(world: World, job: Records) -> float:
    """Share of its speed that a job keeps with the cores and memory that it holds; what it names is not in here."""
    cpus = np.inf
    memory = np.inf
    width = 0
    share = job.first_share
    while share >= 0:
        record = world.shares[share]
        if job.named & NAMED_CPUS == 0:
            cpus = min(cpus, record.cpus / record.gpus)
        if job.named & NAMED_MEMORY == 0:
            memory = min(memory, record.memory / record.gpus)
        width = max(width, record.gpus)
        share = record.next_of_job
    width = min(width, world.host_factor.shape[1] - 1)
    cpus = min(cpus, world.host_cpus[len(world.host_cpus) - 1])
    memory = min(memory, world.host_memory[len(world.host_memory) - 1])
    i = cell_of(world.host_cpus, cpus)
    k = cell_of(world.host_memory, memory)
    t = (cpus - world.host_cpus[i]) / (world.host_cpus[i + 1] - world.host_cpus[i])
    u = (memory - world.host_memory[k]) / (world.host_memory[k + 1] - world.host_memory[k])
    model = job.model
    above = world.host_factor[model, width, i, k] * (1 - u) + world.host_factor[model, width, i, k + 1] * u
    below = world.host_factor[model, width, i + 1, k] * (1 - u) + world.host_factor[model, width, i + 1, k + 1] * u
    return float(above * (1 - t) + below * t)


@leaf
def fair_amount(total: float, free: float, num_gpus: int, bare: int, gpus: int, saturating: float) -> float:
    """What a share gets of a node's cores or memory: up to saturation, but every bare GPU keeps its proportional share.

    `total` and `free` are the node's, `bare` its GPUs that have none yet, the `gpus` of the share among them.
    """
    proportional = total / num_gpus
    spare = max(free - (bare - gpus) * proportional, free * gpus / bare)
    return min(math.ceil(saturating * gpus * PARTS), math.floor(spare * PARTS)) / PARTS


@leaf
def take_named(world: World, j: int) -> None:
    """Give a job's shares the cores and memory that the wish names."""
    share = world.jobs[j].first_share
    while share >= 0:
        record = world.shares[share]
        if not np.isnan(record.cpus):
            take_cpus(world, share, record.cpus)
        if not np.isnan(record.memory):
            take_memory(world, share, record.memory)
        share = record.next_of_job


@leaf
def take_fair(world: World, j: int) -> None:
    """Give a job's shares cores and memory by the world's rule where the wish names none."""
    model = world.jobs[j].model
    share = world.jobs[j].first_share
    while share >= 0:
        record = world.shares[share]
        node = world.nodes[record.node]
        width = min(record.gpus, world.saturating.shape[1] - 1)
        if np.isnan(record.cpus):
            enough = world.saturating[model, width, 0]
            bare = node.bare_of_cpus
            take_cpus(world, share, fair_amount(node.cpus, node.free_cpus, node.num_gpus, bare, record.gpus, enough))
        if np.isnan(record.memory):
            enough = world.saturating[model, width, 1]
            bare = node.bare_of_memory
            take_memory(
                world, share, fair_amount(node.memory, node.free_memory, node.num_gpus, bare, record.gpus, enough)
            )
        share = record.next_of_job


@leaf
def rate_alone(world: World, j: int) -> None:
    """Set a job's speed without neighbours, and the traffic that goes with it."""
    job = world.jobs[j]
    alone = job.exact if job.exact > 0 else placement_rate(world, job, job.first_share)
    if world.episode[0].shares_host and job.named != NAMED_CPUS + NAMED_MEMORY:
        alone = alone * host_factor(world, job)
    job.alone = alone
    job.rate = alone
    if world.episode[0].contention != OFF and job.num_shares > 1:
        per_sample = job.sample_traffic if job.sample_traffic > 0 else world.traffic[job.model, job.gpus]
        job.traffic = per_sample * alone * (job.num_shares - 1) / job.num_shares
    else:
        job.traffic = 0.0


@leaf
def share_link(world: World, node: Records) -> None:
    """Divide a node's link among the jobs with traffic: max-min fairly, or in the worst case all at once."""
    talkers = 0
    share = node.first_share
    while share >= 0:
        if world.jobs[world.shares[share].job].traffic > 0:
            talkers += 1
            world.shares[share].network = -1.0  # not served yet
        share = world.shares[share].next_of_node
    left = node.link
    waiting = talkers
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
        if world.episode[0].contention == MEASURED:
            world.shares[chosen].network = granted / wanted
        else:
            world.shares[chosen].network = 1.0 / (1.0 + wanted / node.link * (talkers - 1))


@leaf
def share_host(world: World, node: Records) -> None:
    """In the worst case, stretch the host stages of a node's jobs by what they ask of it together.

    As measured, jobs that keep to their share of the host do not slow each other (`envs.performance.contention`).
    """
    if world.episode[0].contention != WORST_CASE:
        return
    demand = 0.0
    share = node.first_share
    while share >= 0:
        record = world.shares[share]
        demand += world.host_stage[world.jobs[record.job].model]
        share = record.next_of_node
    stretch = max(1.0, demand)
    share = node.first_share
    while share >= 0:
        record = world.shares[share]
        stage = min(world.host_stage[world.jobs[record.job].model], 1.0)
        record.host = 1.0 / (1.0 + stage * (stretch - 1.0))
        share = record.next_of_node


@leaf
def rate_among_neighbours(world: World, job: Records) -> float:
    """Samples/s of a job under the factors of its nodes."""
    network = 1.0
    host = 1.0
    share = job.first_share
    while share >= 0:
        network = min(network, world.shares[share].network)
        host = min(host, world.shares[share].host)
        share = world.shares[share].next_of_job
    return float(job.alone * network * host)


@part
def share_node(world: World, n: int) -> None:
    """Compute the factors of all shares on a node."""
    share_link(world, world.nodes[n])
    share_host(world, world.nodes[n])
