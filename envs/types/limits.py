"""The nodes on which a job with constraints may be placed, and the search for GPUs among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

    def usable(self, free: IntArray, total: IntArray) -> IntArray:
        """int64[num_nodes]: free GPUs that the job may take; an exclusive job takes nothing of a node in use.

        Args:
            free: int64[num_nodes], free GPUs.
            total: int64[num_nodes], GPUs of each node that is up.
        """
        able = self.nodes & (free == total) if self.constraints.exclusive else self.nodes
        found: IntArray = np.where(able, free, 0)
        return found

    def divide(self, free: IntArray, cluster: ClusterSpec, want: int, gpu_types: Sequence[int]) -> dict[NodeId, int]:
        """Divide GPUs among as many nodes of one type as the constraints demand, best fit; empty if there is no room.

        Args:
            free: int64[num_nodes], free GPUs that the job may take.
            cluster: the nodes.
            want: GPUs to give.
            gpu_types: the types to try, in this order.
        """
        each, count = self.constraints.gpus_per_node, self.constraints.num_nodes
        count = count or -(-want // each)
        if count > want or (each and each * count != want):
            return {}
        if self.constraints.max_nodes and count > self.constraints.max_nodes:
            return {}
        low, larger = divmod(want, count)  # so many nodes get one GPU more
        for gpu_type in gpu_types:
            nodes = np.flatnonzero((cluster.node_types == gpu_type) & (free >= low))
            order = nodes[np.argsort(free[nodes], kind="stable")]
            fewer = order[: count - larger]
            more = [node for node in order[count - larger :].tolist() if free[node] > low][:larger]
            if len(fewer) + len(more) == count:
                return {**dict.fromkeys(fewer.tolist(), low), **dict.fromkeys(more, low + 1)}
        return {}
