"""Tunings of jobs in the draft of a round, by compiled kernels; `envs.options.tuning` says what there is."""

import numpy as np

from envs.options.arrays import OptionArrays
from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.exact import PARTS
from envs.simulation.world.job_throughput import combined_throughput, slowest_link
from envs.simulation.world.requested import least_amount
from envs.simulation.world.shares import (
    NAMED_CPUS,
    NAMED_MEMORY,
    OFF,
    begin_change,
    clear_named_settings,
    idle_gpus,
)


@leaf
def names_nothing(job: Records) -> bool:
    """Whether the placement of a job names its GPUs only."""
    return bool(job.plan < 0 and job.batch_size == 0 and job.named == 0)


@leaf
def named_bits(a: OptionArrays, job: Records, tuning: int) -> int:
    """Which of cores and memory a tuning names, as in a job's `named`."""
    parts = a.tunings.parts[tuning, job.model]
    return (NAMED_CPUS if parts[0] > 0 else 0) + (NAMED_MEMORY if parts[1] > 0 else 0)


@leaf
def has_tuning(a: OptionArrays, job: Records, tuning: int) -> bool:
    """Whether the draft has a job with this tuning already."""
    if tuning == 0:
        return names_nothing(job)
    if job.plan >= 0 or job.batch_size != a.tunings.batch_size[tuning, job.model, job.gpus]:
        return False
    if job.named != named_bits(a, job, tuning):
        return False
    share = job.first_share
    while share >= 0 and job.named > 0:
        record, parts = a.world.shares[share], a.tunings.parts[tuning, job.model]
        if job.named & NAMED_CPUS and record.cpus * PARTS != parts[0] * record.gpus:
            return False
        if job.named & NAMED_MEMORY and record.memory * PARTS != parts[1] * record.gpus:
            return False
        share = record.next_of_job
    return True


@leaf
def leaves_enough(a: OptionArrays, j: int, n: int, gpus: int, resource: int, parts: int) -> bool:
    """Whether a node has so many 64ths of a resource for each GPU of a job there, besides what others must have."""
    world, memory = a.world, resource == 1
    node = world.nodes[n]
    left = (node.memory if memory else node.cpus) - idle_gpus(world, n) / PARTS - parts * gpus / PARTS
    share = node.first_share
    while share >= 0:
        if world.shares[share].job != j:
            left -= least_amount(world, share, memory)
        share = world.shares[share].next_of_node
    return bool(left >= 0)


@leaf
def tuned_throughput(a: OptionArrays, job: Records, tuning: int) -> float:
    """Useful samples/s of a job on its GPUs in the draft under a tuning other than 0; 0 where it is not offered.

    Without co-located jobs and limits of links, and with ample cores and memory unless it names them: what
    `ExactThroughputs.useful_throughput` says of such a placement.
    """
    tunings = a.tunings
    size = tunings.batch_size[tuning, job.model, job.gpus]
    if job.num_shares > tunings.throughputs.shape[4]:
        return 0.0
    if size > 0 and (size < job.min_batch or (job.max_batch > 0 and size > job.max_batch)):
        return 0.0
    found = combined_throughput(a.world, tunings.throughputs[tuning], job, job.first_share)
    return float(found * tunings.efficiency[tuning, job.model, job.gpus])


@leaf
def can_tune(a: OptionArrays, j: int, tuning: int) -> bool:
    """Whether a job that holds enough GPUs in the draft can be given a tuning that it does not have."""
    job = a.world.jobs[j]
    if job.gpus >= a.tunings.batch_size.shape[2] or has_tuning(a, job, tuning):
        return False
    if tuning == 0:
        return True
    if not tuned_throughput(a, job, tuning) > 0:
        return False
    for resource in range(2):
        parts = a.tunings.parts[tuning, job.model, resource]
        share = job.first_share
        while share >= 0 and parts > 0:
            record = a.world.shares[share]
            if not leaves_enough(a, j, record.node, record.gpus, resource, parts):
                return False
            share = record.next_of_job
    return True


@leaf
def tune_job(a: OptionArrays, j: int, tuning: int) -> None:
    """Give a job of the draft a tuning that is offered."""
    world, tunings = a.world, a.tunings
    begin_change(world, j)
    job = world.jobs[j]
    clear_named_settings(job)
    if tuning == 0:
        return
    job.exact = tuned_throughput(a, job, tuning)
    job.batch_size = tunings.batch_size[tuning, job.model, job.gpus]
    job.named = named_bits(a, job, tuning)
    job.sample_traffic = tunings.sample_traffic[tuning, job.model, job.gpus]
    parts = tunings.parts[tuning, job.model]
    share = job.first_share
    while share >= 0:
        record = world.shares[share]
        record.cpus = parts[0] * record.gpus / PARTS if parts[0] > 0 else np.nan
        record.memory = parts[1] * record.gpus / PARTS if parts[1] > 0 else np.nan
        share = record.next_of_job


@leaf
def throughput_when_tuned(a: OptionArrays, job: Records, tuning: int) -> float:
    """`tuned_throughput`, at most what the slowest link of the job's nodes carries."""
    world = a.world
    found = tuned_throughput(a, job, tuning)
    if job.num_shares < 2 or world.episode[0].contention == OFF or world.links_limit[job.model] == 0:
        return found
    per_sample = a.tunings.sample_traffic[tuning, job.model, job.gpus]
    if per_sample == 0:
        per_sample = world.traffic[job.model, job.gpus]
    per_sample = per_sample * (job.num_shares - 1) / job.num_shares
    if per_sample > 0:
        found = min(found, slowest_link(world, job) / per_sample)
    return found


@leaf
def named_level(world: World, job: Records, saturating: int, memory: bool) -> float:
    """Return JOB_CPUS or JOB_MEMORY: what a job's placement names on its first node, of what saturates its GPUs."""
    if job.named & (NAMED_MEMORY if memory else NAMED_CPUS) == 0 or job.first_share < 0 or saturating == 0:
        return 0.0
    record = world.shares[job.first_share]
    return float((record.memory if memory else record.cpus) * PARTS / (record.gpus * saturating))
