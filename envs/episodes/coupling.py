"""What a job and the other jobs on a node do to each other, as features of both environments.

A node's sums are over the jobs that it holds. `envs.episodes.physics` has the formulas.
"""

from envs.episodes.candidates import Features
from envs.episodes.physics import (
    CPUS,
    MEMORY,
    link_harm,
    link_loss,
    shortage,
    size_of,
    stage_harm,
    stage_loss,
    wanted_amount,
)
from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.world.arrays import World
from envs.types import FloatArray

# Sums over the jobs on a node.
(
    SUM_CPUS,  # cores that they can use
    SUM_MEMORY,  # GB that they can use
    SUM_STAGE,  # CPU stages
    SUM_LOAD,  # traffic, each at most the link / link
    SUM_WITH_TRAFFIC,  # jobs with traffic
) = range(5)

# What `write_coupling` writes.
(
    COUPLING_CPU_SHORTAGE,  # fraction of the cores wanted on the node that it would lack, with the job there
    COUPLING_CPU_HARM,  # how much of that the job adds
    COUPLING_MEMORY_SHORTAGE,  # the same two for memory
    COUPLING_MEMORY_HARM,
    COUPLING_STAGE_SUFFERED,  # fraction of its throughput that the CPU stages of the others would take (worst case)
    COUPLING_STAGE_HARM,  # how much it would stretch the CPU stages of the others, as a fraction
    COUPLING_LINK_SUFFERED,  # fraction of its throughput that the traffic of the others would take
    COUPLING_LINK_HARM,  # the same from the others' side
) = range(8)


@leaf
def add_to_sums(world: World, n: int, job: Records, gpus: int, traffic: float, sums: FloatArray) -> None:
    """Add a job with so many GPUs on a node and so much traffic (GB/s) to the node's sums."""
    node = world.nodes[n]
    sums[SUM_CPUS] += wanted_amount(world, job, node.gpu_type, gpus, CPUS)
    sums[SUM_MEMORY] += wanted_amount(world, job, node.gpu_type, gpus, MEMORY)
    sums[SUM_STAGE] += world.cpu_stage_fraction[job.model]
    if traffic > 0:
        sums[SUM_LOAD] += min(traffic, node.link) / node.link
        sums[SUM_WITH_TRAFFIC] += 1.0


@leaf
def nodes_for_size(world: World, n: int, job: Records) -> int:
    """Nodes like this one that a job needs for its size."""
    gpus = world.nodes[n].num_gpus
    return int((size_of(world, job) + gpus - 1) // gpus)


@leaf
def write_coupling(
    world: World,
    n: int,
    job: Records,
    gpus: int,
    traffic: float,
    held: bool,
    counted: bool,
    sums: FloatArray,
    out: Features,
) -> None:
    """Write what a job with so many GPUs on a node and the other jobs there do to each other.

    Args:
        world: the episode.
        n: the node.
        job: the job.
        gpus: its GPUs there.
        traffic: GB/s that it sends or would send.
        held: whether it is in the node's sums.
        counted: whether its traffic is.
        sums: float64[5 or more], the node's.
        out: float32[8 or more], overwritten.
    """
    node = world.nodes[n]
    own = wanted_amount(world, job, node.gpu_type, gpus, CPUS)
    others = sums[SUM_CPUS] - own if held else sums[SUM_CPUS]
    out[COUPLING_CPU_SHORTAGE] = shortage(others + own, node.cpus)
    out[COUPLING_CPU_HARM] = shortage(others + own, node.cpus) - shortage(others, node.cpus)
    own = wanted_amount(world, job, node.gpu_type, gpus, MEMORY)
    others = sums[SUM_MEMORY] - own if held else sums[SUM_MEMORY]
    out[COUPLING_MEMORY_SHORTAGE] = shortage(others + own, node.memory)
    out[COUPLING_MEMORY_HARM] = shortage(others + own, node.memory) - shortage(others, node.memory)
    own = world.cpu_stage_fraction[job.model]
    count = node.num_jobs - 1 if held else node.num_jobs
    others = 0.0
    if count > 0:
        others = max(sums[SUM_STAGE] - own, 0.0) if held else sums[SUM_STAGE]
    out[COUPLING_STAGE_SUFFERED] = stage_loss(world, own, others)
    out[COUPLING_STAGE_HARM] = stage_harm(world, own, others)
    own = min(traffic, node.link) / node.link
    with_traffic = int(sums[SUM_WITH_TRAFFIC])
    others = sums[SUM_LOAD]
    if counted:
        with_traffic -= 1
        others = max(others - own, 0.0) if with_traffic > 0 else 0.0
    out[COUPLING_LINK_SUFFERED] = link_loss(world, own, others, with_traffic)
    out[COUPLING_LINK_HARM] = link_harm(world, own, others, with_traffic)
