"""The wish of a scheduler: which jobs run where, with what."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from envs.types.cluster import ClusterSpec
from envs.types.errors import AllocationError
from envs.types.plan import ExecutionPlan
from envs.types.units import Gigabytes, IntArray, JobId, NodeId


@dataclass(frozen=True, slots=True)
class Placement:
    """One job's share of the cluster. What is None is filled by the world's rule."""

    gpus: Mapping[NodeId, int]  # GPUs on each node, all positive
    cpus: Mapping[NodeId, float] | None = None
    memory: Mapping[NodeId, Gigabytes] | None = None
    plan: ExecutionPlan | None = None
    batch_size: int | None = None

    @property
    def num_gpus(self) -> int:
        """GPUs on all nodes together."""
        return sum(self.gpus.values())


class Allocation:
    """The whole wish of one scheduling round, under construction.

    A job that the wish leaves out is not running. `view.allocation()` begins with an empty cluster;
    `view.allocation(keep_running=True)` begins with everything as it runs now, so that only the
    changes need be said: the delta form, which costs what changes and not what runs.

    Args:
        cluster: the nodes.
        running: placements now in force.
        free_gpus: int64[num_nodes], GPUs free under `running`.
        prefer: for a job, the GPU types of the cluster (indices) from its fastest to its slowest;
            types on which it cannot run are left out.
        num_gpus: GPUs that a job requests.
        keep_running: whether the wish begins with `running` or with nothing.
        capacity: int64[num_nodes], GPUs of the nodes that are up; all nodes if None.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        running: Mapping[JobId, Placement],
        free_gpus: IntArray,
        prefer: Callable[[JobId], Sequence[int]],
        num_gpus: Callable[[JobId], int],
        *,
        keep_running: bool = False,
        capacity: IntArray | None = None,
    ) -> None:
        self.cluster = cluster
        self.keep_running = keep_running
        whole = cluster.node_gpus if capacity is None else capacity
        self.free_gpus = free_gpus.copy() if keep_running else whole.copy()
        self.changes: dict[JobId, Placement | None] = {}  # what the wish says job by job; None stops it
        self._running = running
        self._prefer = prefer
        self._num_gpus = num_gpus

    def placement(self, job: JobId) -> Placement | None:
        """What the wish has for a job so far; None if it does not run."""
        if job in self.changes:
            return self.changes[job]
        return self._running.get(job) if self.keep_running else None

    def jobs(self) -> set[JobId]:
        """All jobs that run under the wish so far."""
        chosen = set(self._running) if self.keep_running else set()
        for job, placement in self.changes.items():
            if placement:
                chosen.add(job)
            else:
                chosen.discard(job)
        return chosen

    def place(self, job: JobId, placement: Placement | Mapping[NodeId, int]) -> None:
        """Let a job run on these GPUs, instead of whatever the wish had for it.

        Raises:
            AllocationError: a node does not exist or has too few free GPUs, or a count is not positive or not whole.
        """
        if not isinstance(placement, Placement):
            placement = Placement({int(node): _whole(job, node, gpus) for node, gpus in placement.items()})
        elif not isinstance(placement.gpus, Mapping):
            raise AllocationError(f"job {job}: its placement's gpus are {placement.gpus!r}; give {{node: GPUs}}")
        before = self.placement(job)
        given_back = before.gpus if before else {}
        if not placement.gpus:
            raise AllocationError(f"job {job}: a placement needs at least one GPU; use stop() to take all away")
        for node, gpus in placement.gpus.items():
            if not 0 <= node < self.cluster.num_nodes:
                raise AllocationError(
                    f"job {job}: node {node} does not exist; nodes are 0 to {self.cluster.num_nodes - 1}"
                )
            if type(gpus) is not int:
                _whole(job, node, gpus)
            free = int(self.free_gpus[node]) + given_back.get(node, 0)
            if not 1 <= gpus <= free:
                raise AllocationError(f"job {job}: asks for {gpus} GPUs on node {node}, where {free} are free")
        self._release(given_back)
        for node, gpus in placement.gpus.items():
            self.free_gpus[node] -= gpus
        self.changes[job] = placement

    def stop(self, job: JobId) -> None:
        """Take a job off its GPUs; it goes back to the queue."""
        before = self.placement(job)
        if before:
            self._release(before.gpus)
        self.changes[job] = None

    def keep(self, job: JobId) -> None:
        """Let a running job go on where it is.

        Raises:
            AllocationError: it does not run, or its GPUs have gone to another job.
        """
        running = self._running.get(job)
        if running is None:
            raise AllocationError(f"job {job}: does not run, so there is nothing to keep; use place() or pack()")
        self.place(job, running)

    def pack(
        self,
        job: JobId,
        num_gpus: int | None = None,
        *,
        gpu_types: Sequence[int] | None = None,
        scatter: bool = False,
    ) -> bool:
        """Place a job on as few nodes as possible; say whether there was room.

        On one node if one can hold it (best fit, lowest index), else on the fewest nodes of one GPU
        type: a job larger than a node takes whole nodes and one remainder. Types are tried in order.

        Args:
            job: the job.
            num_gpus: GPUs to give; as requested if None.
            gpu_types: indices into `cluster.gpu_types` in order of preference; the job's fastest first if None.
            scatter: if nothing consolidated is free, take free GPUs wherever they are within one type.
        """
        want = self._num_gpus(job) if num_gpus is None else num_gpus
        types = self._prefer(job) if gpu_types is None else gpu_types
        before = self.placement(job)
        if before:
            self._release(before.gpus)
        found = self._find(want, types, scatter)
        if before:
            for node, gpus in before.gpus.items():
                self.free_gpus[node] -= gpus
        if found is None:
            return False
        self.place(job, found)
        return True

    def shares(self) -> Iterable[tuple[JobId, NodeId, int]]:
        """The changes as (job, node, GPUs) rows."""
        for job, placement in self.changes.items():
            if placement:
                for node, gpus in placement.gpus.items():
                    yield job, node, gpus

    def _release(self, gpus: Mapping[NodeId, int]) -> None:
        for node, count in gpus.items():
            self.free_gpus[node] += count

    def _find(self, want: int, types: Sequence[int], scatter: bool) -> dict[NodeId, int] | None:
        for kind in types:
            found = consolidated(self.free_gpus, self.cluster, want, kind)
            if found:
                return found
        if scatter:
            for kind in types:
                found = scattered(self.free_gpus, self.cluster, want, kind)
                if found:
                    return found
        return None


def _whole(job: JobId, node: NodeId, gpus: int) -> int:
    """A count as a Python integer; a fraction is refused rather than trimmed."""
    if int(gpus) != gpus:
        raise AllocationError(f"job {job}: asks for {gpus} GPUs on node {node}; give a whole number of them")
    return int(gpus)


def consolidated(free: IntArray, cluster: ClusterSpec, want: int, gpu_type: int) -> dict[NodeId, int] | None:
    """The fewest nodes of one type that hold `want` GPUs, best fit first; None if they are not free."""
    nodes = np.flatnonzero(cluster.node_types == gpu_type)
    fits = nodes[free[nodes] >= want]
    if fits.size:
        return {int(fits[np.argmin(free[fits])]): want}
    if want <= cluster.node_gpus[nodes].max(initial=0):
        return None
    placed: dict[NodeId, int] = {}
    whole = nodes[free[nodes] == cluster.node_gpus[nodes]]
    for node in whole[np.argsort(-cluster.node_gpus[whole], kind="stable")]:
        left = want - sum(placed.values())
        if left < cluster.node_gpus[node]:
            break
        placed[int(node)] = int(cluster.node_gpus[node])
    left = want - sum(placed.values())
    if left == 0:
        return placed
    rest = np.array([node for node in nodes if node not in placed and free[node] >= left], dtype=np.int64)
    if not rest.size or left > cluster.node_gpus[nodes].max():
        return None
    placed[int(rest[np.argmin(free[rest])])] = left
    return placed


def scattered(free: IntArray, cluster: ClusterSpec, want: int, gpu_type: int) -> dict[NodeId, int] | None:
    """Free GPUs of one type, fullest piles first, on as few nodes as that allows; None if there are too few."""
    nodes = np.flatnonzero((cluster.node_types == gpu_type) & (free > 0))
    if free[nodes].sum() < want:
        return None
    placed: dict[NodeId, int] = {}
    for node in nodes[np.argsort(-free[nodes], kind="stable")]:
        take = min(int(free[node]), want - sum(placed.values()))
        if take == 0:
            break
        placed[int(node)] = take
    return placed
