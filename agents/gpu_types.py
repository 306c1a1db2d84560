"""GPU types by name: a network knows them by their place among its inputs, a cluster by their order in its list."""

import numpy as np

from envs.gpu_cluster import EnvSpec, Observation
from envs.gpu_cluster.spec import SCALING_POINTS
from envs.types import CheckpointError, ClusterSpec

PLACE = 3  # column of a server's features


def check_types(gpu_types: tuple[str, ...], spec: EnvSpec) -> None:
    """Assert that the names are different, and as many as the network knows types.

    Raises:
        CheckpointError: they are not.
    """
    if len(set(gpu_types)) != len(gpu_types) or len(gpu_types) != spec.num_gpu_types:
        raise CheckpointError(
            f"policy: gpu_types are {', '.join(gpu_types) or 'none'}; they must be {spec.num_gpu_types} different names"
        )


class TypeOrder:
    """Shows observations of a cluster as if it listed its GPU types in another order.

    The columns that stand for types change places: of a server its one-hot type, of a job its relative speeds, of the
    cluster its free GPUs (see `envs.gpu_cluster.observe`). A server's place in the cluster, from which a network may
    have learnt types too, becomes its place in a list of the same nodes by type. Nothing else depends on the order.

    Args:
        cluster: lists its types in an order of its own.
        wanted: the same types as the network sees them.
    """

    def __init__(self, cluster: ClusterSpec, wanted: tuple[str, ...]) -> None:
        self._order = np.array([cluster.gpu_types.index(name) for name in wanted])
        by_type = np.argsort(np.argsort(self._order)[cluster.node_types], kind="stable")
        self._places = np.argsort(by_type).astype(np.float32) / cluster.num_nodes
        self._behind = {"servers": 0, "queue": len(SCALING_POINTS), "slots": len(SCALING_POINTS) + 2, "cluster": 0}

    def apply(self, observation: Observation) -> Observation:
        """The same observation in the other order; arrays that hold no type are shared."""
        shown = dict(observation)
        for name, behind in self._behind.items():
            array = observation[name]
            columns = np.arange(array.shape[-1])
            end = len(columns) - behind
            columns[end - len(self._order) : end] = end - len(self._order) + self._order
            shown[name] = np.ascontiguousarray(array[..., columns])
        shown["servers"][..., PLACE] = self._places
        return shown
