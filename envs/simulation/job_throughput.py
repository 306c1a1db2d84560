"""Throughput of a job on its placement: alone, from the table; and under contention with co-located jobs."""

import math

import numpy as np

from envs.simulation.exact import PARTS
from envs.simulation.jit import Records, leaf, part
from envs.simulation.shares import MEASURED, NAMED_CPUS, NAMED_MEMORY, OFF, WORST_CASE, take_cpus, take_memory
from envs.simulation.world import World
from envs.types import FloatArray


@leaf
def placement_throughput(world: World, job: Records, first_share: int) -> float:
    """Samples/s of a job on a list of shares by the table, with ample cores and memory and no co-located jobs.

    Workers on unequal GPU types divide the mini-batch in proportion to throughput, or equally; in the latter case the
    slowest decides (sampling-based placement, TPDS'24, proportional workload assignment).
    """
    throughputs, shares = world.throughputs, world.shares
    gpus = 0
    count = 0
    share = first_share
    while share >= 0:
        gpus += shares[share].gpus
        count += 1
        share = shares[share].next_of_job
    level = 0
    while (1 << level) < count and level < throughputs.shape[3] - 1:
        level += 1
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
def cell_of(grid: FloatArray, amount: float) -> int:
    """Index of the last grid point that is at most the amount and has a successor."""
    cell = 0
    while cell < len(grid) - 2 and grid[cell + 1] <= amount:
        cell += 1
    return cell


@leaf
def cpu_memory_factor(world: World, job: Records) -> float:
    """Fraction of its throughput that a job keeps with its cores and memory; amounts that it names do not count."""
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
    width = min(width, world.cpu_memory_factor.shape[1] - 1)
    cpus = min(cpus, world.cpu_grid[len(world.cpu_grid) - 1])
    memory = min(memory, world.memory_grid[len(world.memory_grid) - 1])
    i = cell_of(world.cpu_grid, cpus)
    k = cell_of(world.memory_grid, memory)
    t = (cpus - world.cpu_grid[i]) / (world.cpu_grid[i + 1] - world.cpu_grid[i])
    u = (memory - world.memory_grid[k]) / (world.memory_grid[k + 1] - world.memory_grid[k])
    model = job.model
    above = world.cpu_memory_factor[model, width, i, k] * (1 - u) + world.cpu_memory_factor[model, width, i, k + 1] * u
    below = (
        world.cpu_memory_factor[model, width, i + 1, k] * (1 - u)
        + world.cpu_memory_factor[model, width, i + 1, k + 1] * u
    )
    return float(above * (1 - t) + below * t)


@leaf
def fair_amount(total: float, free: float, num_gpus: int, bare: int, gpus: int, saturating: float) -> float:
    """Cores or memory of a share: up to saturation, while every other bare GPU keeps its proportional amount.

    `total` and `free` are amounts of the node; `bare` counts its GPUs without any yet, including the share's `gpus`.
    """
    proportional = total / num_gpus
    spare = max(free - (bare - gpus) * proportional, free * gpus / bare)
    return min(math.ceil(saturating * gpus * PARTS), math.floor(spare * PARTS)) / PARTS


@leaf
def take_named(world: World, j: int) -> None:
    """Give a job's shares the cores and memory that its placement names."""
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
    """Give a job's shares cores and memory by `fair_amount` where its placement names none."""
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
def set_throughput_alone(world: World, j: int) -> None:
    """Set a job's throughput without co-located jobs, and the traffic at that throughput."""
    job = world.jobs[j]
    alone = job.exact if job.exact > 0 else placement_throughput(world, job, job.first_share)
    if world.episode[0].shares_cpu_memory and job.named != NAMED_CPUS + NAMED_MEMORY:
        alone = alone * cpu_memory_factor(world, job)
    job.alone = alone
    job.throughput = alone
    if world.episode[0].contention != OFF and job.num_shares > 1:
        per_sample = job.sample_traffic if job.sample_traffic > 0 else world.traffic[job.model, job.gpus]
        job.traffic = per_sample * alone * (job.num_shares - 1) / job.num_shares
    else:
        job.traffic = 0.0


@leaf
def share_link(world: World, node: Records) -> None:
    """Divide a node's link among the jobs with traffic: max-min fairly; in the worst case all transfers collide."""
    num_with_traffic = 0
    share = node.first_share
    while share >= 0:
        if world.jobs[world.shares[share].job].traffic > 0:
            num_with_traffic += 1
            world.shares[share].network = -1.0  # not served yet
        share = world.shares[share].next_of_node
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
        if world.episode[0].contention == MEASURED:
            world.shares[chosen].network = granted / wanted
        else:
            world.shares[chosen].network = 1.0 / (1.0 + wanted / node.link * (num_with_traffic - 1))


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
def throughput_under_contention(world: World, job: Records) -> float:
    """Samples/s of a job under the smallest contention factors of its shares."""
    network = 1.0
    cpu_stage = 1.0
    share = job.first_share
    while share >= 0:
        network = min(network, world.shares[share].network)
        cpu_stage = min(cpu_stage, world.shares[share].cpu_stage)
        share = world.shares[share].next_of_job
    return float(job.alone * network * cpu_stage)


@part
def share_node(world: World, n: int) -> None:
    """Compute the contention factors of all shares on a node."""
    share_link(world, world.nodes[n])
    share_cpu_stage(world, world.nodes[n])
