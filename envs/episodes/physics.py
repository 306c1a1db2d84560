"""Compiled formulas for what a job and a node do to each other; the reference implementation has its own."""

import numpy as np

from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.job_throughput import level_of
from envs.simulation.world.kernels import RUNNING
from envs.simulation.world.shares import MEASURED, OFF, WORST_CASE

CPUS, MEMORY = 0, 1  # last axis of `world.saturating`


@leaf
def size_of(world: World, job: Records) -> int:
    """GPUs that a job holds, or requests if it holds none, within the throughput table."""
    return int(min(job.gpus if job.gpus > 0 else job.num_gpus, world.reference.shape[1] - 1))


@leaf
def type_throughput(world: World, job: Records, gpu_type: int, gpus: int) -> float:
    """Consolidated throughput on so many GPUs of a type; 0 where the cluster has too few or the job does not run."""
    return float(world.consolidated[job.model, gpu_type, gpus])


@leaf
def wanted_amount(world: World, job: Records, gpu_type: int, gpus: int, resource: int) -> float:
    """Cores (or GB) that a job can use with so many GPUs on a node of a type; 0 where they are not shared."""
    if world.episode[0].shares_cpu_memory == 0:
        return 0.0
    width = min(gpus, world.saturating.shape[2] - 1)
    return float(world.saturating[job.model, gpu_type, width, resource] * gpus)


@leaf
def expected_traffic(world: World, job: Records, gpus: int, nodes: int) -> float:
    """GB/s that a job sends between nodes: at present, or with so many GPUs on so many nodes of the fastest type."""
    return float(job.traffic) if job.traffic > 0 else spread_traffic(world, job, gpus, nodes)


@leaf
def spread_traffic(world: World, job: Records, gpus: int, nodes: int) -> float:
    """GB/s that a job sends between nodes with so many GPUs on so many nodes of the fastest type."""
    if nodes < 2 or world.episode[0].contention == OFF:
        return 0.0
    return float(world.traffic[job.model, gpus] * world.reference[job.model, gpus] * (nodes - 1) / nodes)


@leaf
def planned_traffic(world: World, job: Records, nodes: int) -> float:
    """GB/s that a job sends between nodes: at present, or with its size on so many nodes if the draft changes it."""
    if job.status == RUNNING and job.touched == 0 and job.traffic > 0:
        return float(job.traffic)
    return spread_traffic(world, job, size_of(world, job), nodes)


@leaf
def shortage(wanted: float, amount: float) -> float:
    """Fraction of a wanted amount that is lacking; 0 if nothing is wanted."""
    return max(0.0, 1.0 - amount / wanted) if wanted > 0 else 0.0


@leaf
def stage_loss(world: World, own: float, others: float) -> float:
    """Fraction of its throughput that a job loses to the CPU stages of others on a node, see `share_cpu_stage`."""
    if world.episode[0].contention != WORST_CASE:
        return 0.0
    stretch = max(1.0, own + others)
    return 1.0 - 1.0 / (1.0 + min(own, 1.0) * (stretch - 1.0))


@leaf
def stage_harm(world: World, own: float, others: float) -> float:
    """Fraction by which a job slows the CPU stages of the others on a node; 0 on an empty node."""
    if world.episode[0].contention != WORST_CASE or others == 0.0:
        return 0.0
    return 1.0 - max(1.0, others) / max(1.0, others + own)


@leaf
def link_loss(world: World, own: float, others: float, count: int) -> float:
    """Fraction of its throughput that a job with traffic loses on a node's link, see `share_link`.

    Loads are fractions of the link. Where the total exceeds the link, every job is taken to get its proportion; the
    engine divides max-min fairly, so this is a feature and not a forecast.

    Args:
        world: the episode.
        own: load of the job, at most 1.
        others: load of the others.
        count: number of others with traffic.
    """
    if own == 0.0 or count == 0:
        return 0.0
    mode = world.episode[0].contention
    if mode == WORST_CASE:
        return 1.0 - 1.0 / (1.0 + own * count)
    factor = 1.0 / (1.0 + own * others) if mode == MEASURED else 1.0
    if own + others > 1.0:
        factor = min(factor, 1.0 / (own + others))
    return 1.0 - factor


@leaf
def link_harm(world: World, own: float, others: float, count: int) -> float:
    """Fraction of their throughput that the others with traffic on a node's link lose to a job."""
    if own == 0.0 or count == 0:
        return 0.0
    if world.episode[0].contention == WORST_CASE:
        return 1.0 - 1.0 / (1.0 + others / count)
    return link_loss(world, own, others, count)


@leaf
def delay_share(delay: float, remaining: float) -> float:
    """A delay as a fraction of itself and the remaining time; 0 without delay, and 1 for a job that is all but done."""
    return delay / (delay + remaining) if delay > 0 else 0.0


@leaf
def runs_on_type(world: World, job: Records, gpu_type: int, gpus: int) -> bool:
    """Return whether a job runs on so many GPUs when this type is among them, spread over as few nodes as possible."""
    if world.levels[gpu_type, gpus] >= 0:
        return bool(world.consolidated[job.model, gpu_type, gpus] > 0)
    level = level_of(gpus, world.throughputs.shape[3] - 1)
    return bool(world.throughputs[job.model, gpu_type, gpus, level] > 0)


@leaf
def limited(value: float, limit: float) -> float:
    """Limit a feature to -limit ... limit; 0 for NaN."""
    if np.isnan(value):
        return 0.0
    return min(max(value, -limit), limit)
