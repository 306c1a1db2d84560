"""Features of every choice of a node where jobs share cores, memory and links: `effects` of the observation.

They describe the plan of the round as it is, with all decisions so far. `envs.gpu_cluster.columns` names every column.
"""

import numpy as np

from envs.episodes.candidates import estimated_time
from envs.episodes.coupling import add_to_sums, nodes_for_size, write_coupling
from envs.episodes.physics import (
    CPUS,
    MEMORY,
    delay_share,
    limited,
    planned_traffic,
    size_of,
    type_throughput,
    wanted_amount,
)
from envs.gpu_cluster.arrays import EnvArrays
from envs.gpu_cluster.columns import (
    CORES_PER_GPU,
    EFFECT_CONTENTION,
    EFFECT_CPU_SHORTAGE,
    EFFECT_CPUS,
    EFFECT_CPUS_WANTED,
    EFFECT_FIT,
    EFFECT_LACKS_CPUS,
    EFFECT_LACKS_MEMORY,
    EFFECT_LIMIT,
    EFFECT_MEMORY,
    EFFECT_MEMORY_WANTED,
    EFFECT_MOVE_COST,
    EFFECT_PRESENT,
    EFFECT_THROUGHPUT,
    GIGABYTES_PER_GPU,
)
from envs.simulation.jit import Records, leaf
from envs.simulation.kernels import RUNNING, attained_service
from envs.simulation.shares import share_on


@leaf
def empty_effects(a: EnvArrays, n: int, choice: int) -> None:
    """Empty the row of a choice."""
    for i in range(a.effects.shape[2]):
        a.effects[n, choice, i] = 0.0


@leaf
def sum_planned(a: EnvArrays, n: int) -> None:
    """Sum what the jobs on a node want and send in the plan, into `sums`."""
    world = a.world
    for i in range(len(a.sums)):
        a.sums[i] = 0.0
    share = world.nodes[n].first_share
    while share >= 0:
        record = world.shares[share]
        job = world.jobs[record.job]
        add_to_sums(world, n, job, record.gpus, planned_traffic(world, job, job.num_shares), a.sums)
        share = record.next_of_node


@leaf
def change_cost(a: EnvArrays, job: Records) -> float:
    """What a start or change costs a job, as a fraction of that and its remaining time; see EFFECT_MOVE_COST."""
    world, episode = a.world, a.world.episode[0]
    if episode.knows_work == 0 or job.touched:
        return 0.0
    delay = job.restart_delay if attained_service(job, episode.time) > 0 else job.start_delay
    return delay_share(delay, estimated_time(job, episode.time, world.reference))


@leaf
def observe_effect(a: EnvArrays, n: int, choice: int, j: int, held: int, cpus: float, memory: float) -> None:
    """Write the row of a choice: a job with so many GPUs on the node, and the cores and GB of its share there."""
    world, out = a.world, a.effects[n, choice]
    job, node = world.jobs[j], world.nodes[n]
    size = size_of(world, job)
    gpus = held if held > 0 else min(size, node.num_gpus)
    best = world.reference[job.model, size]
    nodes = job.num_shares
    if held == 0:
        nodes = job.num_shares + 1 if job.gpus > 0 else nodes_for_size(world, n, job)
    traffic = planned_traffic(world, job, nodes)
    out[EFFECT_PRESENT] = 1.0
    out[EFFECT_THROUGHPUT] = type_throughput(world, job, node.gpu_type, size) / best if best > 0 else 0.0
    out[EFFECT_FIT] = min((node.free + held) / size, 1.0)
    write_coupling(world, n, job, gpus, traffic, held > 0, held > 0 and traffic > 0, a.sums, out[EFFECT_CPU_SHORTAGE:])
    out[EFFECT_MOVE_COST] = change_cost(a, job)
    running = job.status == RUNNING
    out[EFFECT_CONTENTION] = 1.0 - job.throughput / job.alone if running and job.alone > 0 else 0.0
    out[EFFECT_LACKS_CPUS] = 1.0 - job.fed_by_cpus if running else 0.0
    out[EFFECT_LACKS_MEMORY] = 1.0 - job.fed_by_memory if running else 0.0
    out[EFFECT_CPUS_WANTED] = wanted_amount(world, job, node.gpu_type, gpus, CPUS) / gpus / CORES_PER_GPU
    out[EFFECT_MEMORY_WANTED] = wanted_amount(world, job, node.gpu_type, gpus, MEMORY) / gpus / GIGABYTES_PER_GPU
    out[EFFECT_CPUS] = cpus / gpus / CORES_PER_GPU
    out[EFFECT_MEMORY] = memory / gpus / GIGABYTES_PER_GPU
    for i in range(a.effects.shape[2]):
        out[i] = limited(out[i], EFFECT_LIMIT)  # 0 for amounts that nothing names


@leaf
def observe_effects(a: EnvArrays) -> None:
    """Write the rows of all choices: candidates that hold no GPUs on a node, then the jobs in its slots."""
    world, candidates = a.world, len(a.heads)
    if a.effects.shape[2] == 0:
        return
    shares_amounts = world.episode[0].shares_cpu_memory
    for n in range(len(world.nodes)):
        sum_planned(a, n)
        for c in range(candidates):
            j = a.heads[c]
            if j >= 0 and share_on(world, j, n) == 0:
                observe_effect(a, n, c, j, 0, 0.0, 0.0)
            else:
                empty_effects(a, n, c)
        share = world.nodes[n].first_share
        for slot in range(a.slots.shape[1]):
            if share >= 0:
                record = world.shares[share]
                cpus = record.cpus if shares_amounts else np.nan
                memory = record.memory if shares_amounts else np.nan
                observe_effect(a, n, candidates + slot, record.job, record.gpus, cpus, memory)
                share = record.next_of_node
            else:
                empty_effects(a, n, candidates + slot)
