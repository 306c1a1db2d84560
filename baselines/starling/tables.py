"""What Starling knows of an episode before any decision, as arrays for its kernels."""

from typing import NamedTuple, cast

import numpy as np

from baselines.starling.knee import Knees
from envs.performance.contention import MODES, Mode
from envs.simulation.world.ordered_set import num_words
from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray, ResourceTables, SharedResources


class JobTables(NamedTuple):
    """Fixed properties of jobs, by job or by scaling group; see `baselines.starling.knee.Knees`.

    Attributes:
        group: int64[num_jobs].
        model: int64[num_jobs], index into `NodeTables.resources`.
        num_gpus: int64[num_jobs], GPUs requested.
        requested_throughput: float64[num_jobs], samples/s on these.
        throughputs: float64[num_groups, num_gpu_types, sizes].
        most_nodes: int64[num_groups, num_gpu_types, sizes].
        corners: bool[num_groups, num_gpu_types, sizes].
        sizes: int64[num_variants, num_groups, num_gpu_types], GPUs at the knee.
        gpu_factor: float64[num_variants, num_groups], GPUs at the knee to the power `gang`.
        knee_throughput: float64[num_groups].
        knee_gpus: int64[num_groups].
        least: int64[num_groups].
        start_gpus: int64[num_groups], GPUs with which a job starts that is not planned for.
        start_types: int64[num_groups, num_gpu_types], GPU types for it, in this order, padded with -1.
        spanning: int64[num_groups, num_gpu_types], the types that a gang which runs on no one type may span, padded
            with -1.
        shapes: int64[num_groups, 4], what constraints demand, see `envs.simulation.world.shapes`.
    """

    group: IntArray
    model: IntArray
    num_gpus: IntArray
    requested_throughput: FloatArray
    throughputs: FloatArray
    most_nodes: IntArray
    corners: BoolArray
    sizes: IntArray
    gpu_factor: FloatArray
    knee_throughput: FloatArray
    knee_gpus: IntArray
    least: IntArray
    start_gpus: IntArray
    start_types: IntArray
    spanning: IntArray
    shapes: IntArray


class NodeTables(NamedTuple):
    """Fixed properties of the nodes.

    Attributes:
        types: int64[num_nodes], GPU type of each.
        gpus: int64[num_nodes], GPUs of each, also while it is down.
        largest: int64[num_gpu_types], GPUs of the largest node of each type.
        words: number of words of an ordered set of nodes, see `envs.simulation.world.ordered_set`.
        cpus: float64[num_nodes], cores of each; infinite where they are not shared.
        memory: float64[num_nodes], GB of each; infinite where it is not shared.
        link: float64[num_nodes], GB/s to other nodes.
        counted: whether candidates count what jobs share besides GPUs.
        mode: contention, an index into `envs.performance.contention.MODES`.
        resources: the effects on jobs, by model.
    """

    types: IntArray
    gpus: IntArray
    largest: IntArray
    words: int
    cpus: FloatArray
    memory: FloatArray
    link: FloatArray
    counted: bool
    mode: int
    resources: ResourceTables


def tables_of_jobs(knees: Knees, gangs: tuple[float, ...]) -> JobTables:
    """Return the tables of the jobs looked up so far.

    Args:
        knees: the jobs.
        gangs: `gang` of each variant.
    """
    powers = np.array([np.maximum(knees.by_group.gpus, 1.0) ** gang for gang in gangs])
    return JobTables(
        knees.group,
        knees.model,
        knees.num_gpus,
        knees.requested_throughput,
        knees.by_group.throughputs,
        knees.by_group.most_nodes,
        knees.by_group.corners,
        knees.by_group.sizes,
        powers.reshape(len(gangs), -1),
        knees.by_group.throughput,
        knees.by_group.gpus,
        knees.by_group.least,
        knees.by_group.start_gpus,
        knees.by_group.start_types,
        knees.by_group.spanning,
        np.ascontiguousarray(knees.by_group.shapes, np.int64),
    )


def tables_of_nodes(cluster: ClusterSpec, shared: SharedResources, *, counted: bool) -> NodeTables:
    """Return the tables of a cluster.

    Args:
        cluster: the nodes.
        shared: what jobs share.
        counted: whether candidates count it.
    """
    amounts = [np.array([getattr(node, name) for node in cluster.nodes], dtype=np.float64)
               for name in ("cpu_cores", "memory", "inter_node_bandwidth")]  # fmt: skip
    cpus, memory, link = amounts
    if not shared.divides:
        cpus, memory = np.full_like(cpus, np.inf), np.full_like(memory, np.inf)
    largest = np.zeros(len(cluster.gpu_types), np.int64)
    np.maximum.at(largest, cluster.node_types, cluster.node_gpus)
    return NodeTables(
        np.array(cluster.node_types, np.int64),
        np.array(cluster.node_gpus, np.int64),
        largest,
        num_words(cluster.num_nodes),
        cpus,
        memory,
        link,
        counted and (shared.divides or shared.mode != "off"),
        MODES.index(cast(Mode, shared.mode)),
        ResourceTables(*(np.array(table) for table in shared.tables)),  # writable, so that kernels compile only once
    )
