"""Classes of jobs with the same constraints, each with the set of nodes that are allowed."""

from collections.abc import Mapping

import numpy as np

from envs.performance import allows_type
from envs.simulation.world.throughput import ThroughputTable
from envs.types import AllocationError, ClusterSpec, JobId, NodeId, PlacementLimits, constraints_of


class JobClasses:
    """The classes of the models of a throughput table; most worlds have none.

    Args:
        cluster: the nodes.
        table: its models' names have the constraints of their jobs.

    Attributes:
        table: the table.
        limits: by row of the table, None for jobs without constraints.
        constrained: whether any job has constraints.
        exclusive: the rows of exclusive jobs.
    """

    def __init__(self, cluster: ClusterSpec, table: ThroughputTable) -> None:
        self.cluster, self.table = cluster, table
        known: dict[str, PlacementLimits] = {}
        self.limits: list[PlacementLimits | None] = []
        for model in table.models:
            asked = constraints_of(model)
            name = str(asked) if asked else ""
            if asked and name not in known:
                by_type = [allows_type(asked, gpu_type) for gpu_type in cluster.gpu_types]
                known[name] = PlacementLimits(asked, np.array(by_type)[cluster.node_types])
            self.limits.append(known.get(name))
        self.constrained = bool(known)
        self.exclusive = {row for row, limits in enumerate(self.limits) if limits and limits.constraints.exclusive}

    def check_alone(self, placements: Mapping[JobId, Mapping[NodeId, int]], rows: Mapping[JobId, int]) -> None:
        """Assert that no other job is on a node of an exclusive job.

        Args:
            placements: GPUs by node of all jobs that are to run.
            rows: the row of each of these jobs.

        Raises:
            AllocationError: names the job, the other one and the node.
        """
        holders: dict[NodeId, list[JobId]] = {}
        for job, gpus in placements.items():
            for node in gpus:
                holders.setdefault(node, []).append(job)
        for node, jobs in sorted(holders.items()):
            for job in sorted(jobs):
                if len(jobs) > 1 and rows[job] in self.exclusive:
                    other = min(each for each in jobs if each != job)
                    raise AllocationError(
                        f"job {job}: is exclusive (its constraints: {constraints_of(self.table.models[rows[job]])}), "
                        f"but job {other} is placed on node {node} too; keep other jobs off its nodes"
                    )
