"""Place gangs by compiled code in the engine's own arrays: the compiled form of `baselines.parts.placing.best_fit`.

`new_share` extends the draft of the round; a job that finds no room leaves the draft unchanged. Of constraints, limits
on the number of nodes are heeded; no episode with other shapes is played as a whole.
"""

from typing import NamedTuple

import numpy as np

from baselines.parts.placing_kernels import tightest_node
from envs.simulation import SimulatedEpisode
from envs.simulation.compiled.jit import leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.ordered_set import next_member
from envs.simulation.world.shapes import shapes_of, too_many_nodes
from envs.simulation.world.shares import clear_job, clear_named_settings, new_share, store_placement
from envs.types import IntArray


class Gangs(NamedTuple):
    """The tables of an episode that compiled placing needs.

    Attributes:
        types: int64[num_models, max_gpus + 1, num_gpu_types], the GPU types on which a model runs with so many GPUs,
            fastest first, padded with -1 (`baselines.parts.placing.types_by_throughput`).
        largest: int64[num_gpu_types], GPUs of the largest node of each type.
        sizes: int64[num_gpu_types, most GPUs of a node + 1], nodes of each type by size.
        group: int64[num_models, max_gpus + 1], a number for each size, order of types and shape: either all jobs of a
            group find room or none does.
        hopeless: int64[num_groups], the last round in which a job of the group found no room; working memory.
    """

    types: IntArray
    largest: IntArray
    sizes: IntArray
    group: IntArray
    hopeless: IntArray


def gangs_of(simulator: SimulatedEpisode) -> Gangs | None:
    """Build the tables of an episode; None if a gang fits no one type, which compiled placing does not support."""
    throughput = simulator.table.consolidated().transpose(0, 2, 1)
    order = np.argsort(-throughput, axis=2, kind="stable")
    types = np.where(np.take_along_axis(throughput, order, axis=2) > 0, order, -1)
    jobs, cluster = simulator.state.jobs[0], simulator.cluster
    jobs = jobs[jobs["submit"] < np.inf]  # the other rows of a snapshot hold no jobs
    if (jobs["num_gpus"] >= types.shape[1]).any() or (types[jobs["model"], jobs["num_gpus"], 0] < 0).any():
        return None
    gpu_types = range(len(cluster.gpu_types))
    node_sizes = np.zeros((len(cluster.gpu_types), int(cluster.node_gpus.max()) + 1), dtype=np.int64)
    np.add.at(node_sizes, (cluster.node_types, cluster.node_gpus), 1)
    largest = np.array([cluster.node_gpus[cluster.node_types == gpu_type].max() for gpu_type in gpu_types])
    sizes = np.broadcast_to(np.arange(types.shape[1])[None, :, None], (*types.shape[:2], 1))
    shapes = np.array(shapes_of(simulator.table.models))
    alike = np.concatenate([sizes, types, np.repeat(shapes[:, None], types.shape[1], axis=1)], axis=2)
    _, group = np.unique(alike.reshape(-1, alike.shape[2]), axis=0, return_inverse=True)
    return Gangs(types, largest, node_sizes, group.reshape(types.shape[:2]), np.full(group.max() + 1, -1))


@leaf
def find_whole_node_in_world(world: World, gpu_type: int, size: int, first: int) -> int:
    """Find the first wholly free node of a type and size from `first` on; -1 if there is none."""
    n = next_member(world.room[gpu_type, size], len(world.nodes), first)
    while n >= 0 and world.nodes[n].num_gpus != size:
        n = next_member(world.room[gpu_type, size], len(world.nodes), n + 1)
    return n


@leaf
def place_on_whole(world: World, gangs: Gangs, j: int, gpu_type: int, gpus: int) -> bool:
    """Place a gang larger than a node on wholly free nodes, largest first, and the rest on the tightest other node.

    Returns whether there was room. If not, the shares taken so far remain, and the caller clears the job.
    """
    left = gpus
    size = world.room.shape[1] - 1
    while size > 0:
        n = find_whole_node_in_world(world, gpu_type, size, 0) if gangs.sizes[gpu_type, size] > 0 else -1
        if n >= 0 and left < size:
            break
        while n >= 0 and left >= size:
            new_share(world, j, n, size, np.nan, np.nan)
            left -= size
            n = find_whole_node_in_world(world, gpu_type, size, n + 1)
        if n >= 0:
            break
        size -= 1
    if left == 0:
        return True
    n = tightest_node(world.room, len(world.nodes), gpu_type, left)
    if n >= 0:
        new_share(world, j, n, left, np.nan, np.nan)
    return n >= 0


@leaf
def lacks_whole_nodes(world: World, gangs: Gangs, gpu_type: int, gpus: int) -> bool:
    """Return whether `place_on_whole` finds no room because too few nodes are wholly free, without trying."""
    left = gpus
    for size in range(gangs.largest[gpu_type], 0, -1):
        n = find_whole_node_in_world(world, gpu_type, size, 0) if gangs.sizes[gpu_type, size] > 0 else -1
        while n >= 0 and left >= size:
            left -= size
            n = find_whole_node_in_world(world, gpu_type, size, n + 1)
        if n >= 0:
            break
    return bool(left >= gangs.largest[gpu_type])  # for that much only a wholly free node has room, and all are counted


@leaf
def place_on(world: World, gangs: Gangs, j: int, gpu_type: int) -> bool:
    """Give a waiting job its requested GPUs of one type; return whether there was room."""
    job = world.jobs[j]
    gpus = job.num_gpus
    several = gpus > gangs.largest[gpu_type]
    n = -1
    if not several:
        n = tightest_node(world.room, len(world.nodes), gpu_type, gpus)
    if n < 0 and (not several or lacks_whole_nodes(world, gangs, gpu_type, gpus)):
        return False
    if job.touched == 0:
        store_placement(world, j)
        clear_named_settings(job)
    if not several:
        new_share(world, j, n, gpus, np.nan, np.nan)
        return True
    found = place_on_whole(world, gangs, j, gpu_type, gpus)
    found = found and not too_many_nodes(world.shapes[job.model], job.num_shares)
    if not found:
        clear_job(world, j)
    return found


@leaf
def place_gang(world: World, gangs: Gangs, j: int) -> bool:
    """Give a waiting job its requested GPUs on the first of its types with room; return whether there was room."""
    if world.jobs[j].num_gpus > world.episode[0].num_free:
        return False
    types = gangs.types[world.jobs[j].model, world.jobs[j].num_gpus]
    for i in range(len(types)):  # noqa: SIM110  kernels have no generators
        if types[i] >= 0 and place_on(world, gangs, j, types[i]):
            return True
    return False
