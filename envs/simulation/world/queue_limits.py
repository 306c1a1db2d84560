"""Hard limits of queues: how many GPUs, of which type, the jobs of a queue may hold at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from envs.types import AllocationError, BoolArray, ClusterError, ClusterSpec, IntArray, NodeId, plain_type
from envs.workloads import Workload

ANY_TYPE = "all"  # of GPUs, in a limit
NO_LIMIT = 1 << 40
ABOVE = "/"  # between a queue and those below it


class QueueRule(NamedTuple):
    """One limit."""

    queue: str  # with all above it, such as research/vision
    gpu_type: str  # without pools and features; ANY_TYPE for all
    most: int  # GPUs

    def __str__(self) -> str:
        what = "" if self.gpu_type == ANY_TYPE else f" of type {self.gpu_type}"
        return f"at most {self.most} GPUs{what} of queue {self.queue}"


def find_path(tenant: str, queues: Iterable[str]) -> str:
    """Return the queue of a tenant with all above it: the one of this name, or whose last part it is; "" for none."""
    return next((queue for queue in queues if tenant and tenant in (queue, queue.rpartition(ABOVE)[2])), "")


class QueueLimits:
    """The limits of a scenario on one cluster.

    Args:
        limits: most GPUs by queue, with all above it, and GPU type.
        cluster: the nodes.

    Attributes:
        rules: one for each queue and GPU type.
        most: int64[num_rules], GPUs.
        counted: bool[num_rules, num_gpu_types], the types that each rule counts.

    Raises:
        ClusterError: a limit is on a GPU type that the cluster does not have.
    """

    def __init__(self, limits: Mapping[str, Mapping[str, int]], cluster: ClusterSpec) -> None:
        self.rules = [QueueRule(queue, name, most) for queue, row in limits.items() for name, most in row.items()]
        types = [plain_type(name) for name in cluster.gpu_types]
        for rule in self.rules:
            if rule.gpu_type not in (ANY_TYPE, *types):
                raise ClusterError(
                    f"scenario.queue_limits.{rule.queue}: {rule.gpu_type} is no GPU type of {cluster.name}; there are "
                    f"{', '.join(dict.fromkeys(types))}, and {ANY_TYPE}"
                )
        self.most: IntArray = np.array([rule.most for rule in self.rules], np.int64)
        counted = [[rule.gpu_type in (ANY_TYPE, name) for name in types] for rule in self.rules]
        self.counted: BoolArray = np.array(counted, np.bool_).reshape(len(counted), len(types))
        self.node_types = cluster.node_types
        self._queues = tuple(limits)
        self._members: dict[str, IntArray] = {}

    def members(self, tenant: str) -> IntArray:
        """int64[num_rules]: 1 where a rule counts the jobs of a tenant, else 0."""
        if tenant not in self._members:
            path = find_path(tenant, self._queues)
            above = [f"{path}{ABOVE}".startswith(f"{rule.queue}{ABOVE}") for rule in self.rules]
            self._members[tenant] = np.array(above, np.int64)
        return self._members[tenant]

    def needs(self, tenant: str, gpus: Mapping[NodeId, int]) -> IntArray:
        """int64[num_rules]: GPUs of a job that each rule counts."""
        by_type = np.zeros(self.counted.shape[1], np.int64)
        for node, count in gpus.items():
            by_type[self.node_types[node]] += count
        needed: IntArray = self.members(tenant) * (self.counted @ by_type)
        return needed

    def held(self, tenants: Sequence[str], of: IntArray, nodes: IntArray, gpus: IntArray) -> IntArray:
        """int64[num_rules]: GPUs that each rule counts of some shares.

        Args:
            tenants: their names.
            of: int64[num_shares], the tenant of each share's job.
            nodes: int64[num_shares].
            gpus: int64[num_shares].
        """
        by_tenant = np.zeros((len(tenants), self.counted.shape[1]), np.int64)
        np.add.at(by_tenant, (of, self.node_types[nodes]), gpus)
        members = np.array([self.members(tenant) for tenant in tenants])
        counted: IntArray = np.einsum("tr,rk,tk->r", members, self.counted.astype(np.int64), by_tenant)
        return counted

    def refuse(self, held: IntArray) -> None:
        """Refuse what exceeds a limit.

        Args:
            held: int64[num_rules].

        Raises:
            AllocationError: names the first queue, its limit, and what its jobs would hold.
        """
        over = np.flatnonzero(held > self.most)
        if over.size:
            raise AllocationError(
                f"queue {self.rules[over[0]].queue}: its jobs are to hold {held[over[0]]} GPUs; scenario.queue_limits "
                f"allow {self.rules[over[0]]}"
            )

    def check_passable(self, workload: Workload) -> None:
        """Assert that every job can run within the limits of its queue.

        Raises:
            ClusterError: names the first job that cannot, its queue and the fix.
        """
        for tenant, name in enumerate(workload.tenants if self.rules else ()):
            mine = np.flatnonzero((workload.jobs["tenant"] == tenant) & (workload.jobs["min_gpus"] > self._room(name)))
            if mine.size:
                job = int(mine[0])
                raise ClusterError(
                    f"workload {workload.name}: {workload.label(job)} needs {workload.jobs['min_gpus'][job]} GPUs, and "
                    f"queue {find_path(name, self._queues)} may have {self._room(name)}; raise scenario.queue_limits, "
                    "or leave the job out"
                )

    def _room(self, tenant: str) -> int:
        """Most GPUs that a tenant may hold on all types together."""
        member, whole = self.members(tenant) > 0, self.counted.all(axis=1)
        least = int(self.most[member & whole].min(initial=NO_LIMIT))
        by_type = [self.most[member & ~whole & column].min(initial=NO_LIMIT) for column in self.counted.T]
        plain = {tuple(column): int(most) for column, most in zip(self.counted.T.tolist(), by_type, strict=True)}
        return min(least, sum(plain.values()))
