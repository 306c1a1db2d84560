"""The nodes on which a job with constraints may be placed, and the search for GPUs among them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from envs.types.cluster import ClusterSpec
from envs.types.constraints import Constraints
from envs.types.errors import AllocationError
from envs.types.units import BoolArray, IntArray, JobId, NodeId

SHOWN_NODES = 6  # in a message


@dataclass(frozen=True, slots=True)
class PlacementLimits:
    """The limits of one class of jobs: of all jobs with the same constraints.

    Attributes:
        constraints: what their users ask for.
        nodes: bool[num_nodes], the nodes that are allowed.
    """

    constraints: Constraints
    nodes: BoolArray

    def check(self, job: JobId, gpus: Mapping[NodeId, int], cluster: ClusterSpec) -> None:
        """Assert that a job may hold these GPUs. Nodes that do not exist are not looked at.

        Raises:
            AllocationError: it may not; names the job, the constraint and the node.
        """
        asked = self.constraints
        for node, count in gpus.items():
            if not 0 <= node < cluster.num_nodes:
                continue
            where = f"job {job}: node {node} ({cluster.nodes[node].gpu_type})"
            if not self.nodes[node]:
                allowed = np.flatnonzero(self.nodes).tolist()
                shown = ", ".join(map(str, allowed[:SHOWN_NODES])) + (", ..." if len(allowed) > SHOWN_NODES else "")
                raise AllocationError(
                    f"{where} is forbidden by its constraints ({asked}); "
                    + (f"allowed are nodes {shown}" if allowed else f"no node of {cluster.name} is allowed")
                )
            if asked.gpus_per_node and count != asked.gpus_per_node:
                raise AllocationError(
                    f"{where}: the job is given {count} of its GPUs; its constraints ({asked}) allow "
                    f"{asked.gpus_per_node}"
                )
        least, most = asked.num_nodes, asked.num_nodes or asked.max_nodes
        if least > len(gpus) or (most and len(gpus) > most):
            raise AllocationError(
                f"job {job}: is given nodes {', '.join(map(str, sorted(gpus)[:SHOWN_NODES]))}, {len(gpus)} in all; its "
                f"constraints ({asked}) allow {'exactly' if least else 'at most'} {most}"
            )


FindOnType: TypeAlias = Callable[[IntArray, ClusterSpec, int, int], dict[NodeId, int] | None]


def find_shaped(
    asked: Constraints, free: IntArray, cluster: ClusterSpec, want: int, gpu_type: int, find: FindOnType
) -> dict[NodeId, int]:
    """Find GPUs of one type on nodes as constraints demand; empty if there is no room.

    The type itself must be allowed. `envs.simulation.world.shapes` has the compiled forms.

    Args:
        asked: the constraints.
        free: int64[num_nodes], GPUs that no job keeps from others.
        cluster: the nodes.
        want: GPUs to give.
        gpu_type: index of the type.
        find: finds GPUs, given `free`, `cluster`, `want` and `gpu_type`, where no division is demanded.
    """
    if asked.exclusive:
        free = np.where(free == cluster.node_gpus, free, 0)
    if asked.num_nodes or asked.gpus_per_node:
        return divide_among(asked, free, cluster, want, gpu_type)
    found = find(free, cluster, want, gpu_type) or {}
    return {} if 0 < asked.max_nodes < len(found) else found


def divide_among(
    asked: Constraints, free: IntArray, cluster: ClusterSpec, want: int, gpu_type: int
) -> dict[NodeId, int]:
    """Divide GPUs among as many nodes of a type as constraints demand; empty if there is no room.

    Evenly on the nodes with fewest free GPUs; where that fails, as many GPUs as possible from the nodes with most.
    """
    each, count = asked.gpus_per_node, asked.demand_nodes(want)
    if count > want or (each and each * count != want) or 0 < asked.max_nodes < count:
        return {}
    low, larger = divmod(want, count)  # so many nodes get one GPU more
    nodes = np.flatnonzero((cluster.node_types == gpu_type) & (free > 0))
    able = nodes[free[nodes] >= low]
    order = able[np.argsort(free[able], kind="stable")].tolist()
    fewer = order[: count - larger]
    more = [node for node in order[count - larger :] if free[node] > low][:larger]
    if len(fewer) + len(more) == count:
        return {**dict.fromkeys(fewer, low), **dict.fromkeys(more, low + 1)}
    placed: dict[NodeId, int] = {}
    if not each:
        for node in nodes[np.argsort(-free[nodes], kind="stable")][:count].tolist():
            others = count - len(placed) - 1
            placed[node] = min(int(free[node]), want - sum(placed.values()) - others)
    return placed if len(placed) == count and sum(placed.values()) == want else {}
