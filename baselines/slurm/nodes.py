"""Choose nodes as select/cons_tres does: the lowest weight first, then packed, or the least loaded."""

from typing import NamedTuple

import numpy as np

from baselines.parts.placing import Gpus
from envs.types import BoolArray, ClusterSpec, FloatArray, IntArray


class Site(NamedTuple):
    """The nodes of a cluster, for both forms of the policy.

    Attributes:
        gpu_types: int64[num_nodes].
        total: int64[num_nodes], GPUs of each.
        largest: int64[num_gpu_types], GPUs of the largest node of each type.
        weights: float64[num_gpu_types], Slurm's weight of a type's nodes.
        by_weight: int64[num_gpu_types], the types by weight.
        by_size: int64[num_nodes], nodes from the largest.
    """

    gpu_types: IntArray
    total: IntArray
    largest: IntArray
    weights: FloatArray
    by_weight: IntArray
    by_size: IntArray


def site_of(cluster: ClusterSpec, weights: FloatArray) -> Site:
    """Return the nodes of a cluster with the weights of their types."""
    gpu_types, total = cluster.node_types.copy(), cluster.node_gpus.copy()
    largest = np.array([total[gpu_types == each].max() for each in range(len(cluster.gpu_types))])
    return Site(
        gpu_types, total, largest, weights, np.argsort(weights, kind="stable"), np.argsort(-total, kind="stable")
    )


def choose_nodes(site: Site, types: BoolArray, lln: bool, size: int, free: IntArray) -> Gpus:
    """Return GPUs by node for a job; empty if there is no room.

    One node is taken if one has room. A job larger than every node of a type takes wholly free nodes of one type, the
    largest first, and one further node for the rest. Slurm would also take more nodes, and of several types.

    Args:
        site: the nodes.
        types: bool[num_gpu_types], those that the job may use.
        lln: whether nodes with the most free GPUs come first.
        size: GPUs of the job.
        free: int64[num_nodes], GPUs that it may take.
    """
    free = np.where(types[site.gpu_types], free, 0)
    if (node := _best(site, free, size, lln)) >= 0:
        return {node: size}
    for gpu_type in site.by_weight.tolist():
        if types[gpu_type] and size > site.largest[gpu_type]:
            found = _whole_nodes(site, np.where(site.gpu_types == gpu_type, free, 0), size, lln)
            if found:
                return found
    return {}


def _best(site: Site, free: IntArray, size: int, lln: bool) -> int:
    nodes = np.flatnonzero(free >= size)
    if not nodes.size:
        return -1
    tightness = -free[nodes] if lln else free[nodes]
    return int(nodes[np.lexsort((nodes, tightness, site.weights[site.gpu_types[nodes]]))[0]])


def _whole_nodes(site: Site, free: IntArray, size: int, lln: bool) -> Gpus:
    found: Gpus = {}
    left, rest = size, free.copy()
    for node in site.by_size.tolist():
        if free[node] < site.total[node]:
            continue
        if site.total[node] > left:
            break
        found[node] = int(site.total[node])
        rest[node], left = 0, left - found[node]
    if left == 0:
        return found
    node = _best(site, rest, left, lln)
    return {**found, node: left} if node >= 0 else {}
