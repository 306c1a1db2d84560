"""Reordering of GPU types: a network knows them by the order of its features, a cluster by its own list."""

import numpy as np

from envs.gpu_cluster import EnvSpec, Observation
from envs.gpu_cluster.columns import CLUSTER_FREE_BY_TYPE, JOB_THROUGHPUT, NODE_POSITION, NODE_TYPE
from envs.types import CheckpointError, ClusterSpec

# The first of the columns that stand for GPU types, one each.
BY_TYPE = {"nodes": NODE_TYPE, "queue": JOB_THROUGHPUT, "slots": JOB_THROUGHPUT, "cluster": CLUSTER_FREE_BY_TYPE}


def check_types(gpu_types: tuple[str, ...], spec: EnvSpec) -> None:
    """Check that the names are distinct, and that there is one for each of the network's GPU types.

    Raises:
        CheckpointError: they are not distinct, or too few or too many.
    """
    if len(set(gpu_types)) != len(gpu_types) or len(gpu_types) != spec.num_gpu_types:
        raise CheckpointError(
            f"policy: gpu_types are {', '.join(gpu_types) or 'none'}; they must be {spec.num_gpu_types} different names"
        )


class TypeOrder:
    """Rewrites observations of a cluster as if it listed its GPU types in another order.

    The columns by type are permuted: a node's one-hot type, a job's relative throughputs, the cluster's free GPUs (see
    `envs.gpu_cluster.columns`). A node's position in the cluster, from which a network may have learnt types too,
    becomes its position in a list of the same nodes sorted by type. Nothing else depends on the order.

    Args:
        cluster: a cluster with its own order of types.
        wanted: the same types in the order that the network expects.
    """

    def __init__(self, cluster: ClusterSpec, wanted: tuple[str, ...]) -> None:
        self._order = np.array([cluster.gpu_types.index(name) for name in wanted])
        by_type = np.argsort(np.argsort(self._order)[cluster.node_types], kind="stable")
        self._positions = np.argsort(by_type).astype(np.float32) / cluster.num_nodes

    def apply(self, observation: Observation) -> Observation:
        """Return the observation in the other order; arrays without columns by type are shared."""
        shown = dict(observation)
        for name, first in BY_TYPE.items():
            array = observation[name]
            columns = np.arange(array.shape[-1])
            columns[first : first + len(self._order)] = first + self._order
            shown[name] = np.ascontiguousarray(array[..., columns])
        shown["nodes"][..., NODE_POSITION] = self._positions
        return shown
