"""Allocations: the placements that a scheduler requests for jobs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from envs.types.cluster import ClusterSpec
from envs.types.errors import AllocationError
from envs.types.limits import PlacementLimits, find_shaped
from envs.types.plan import ExecutionPlan
from envs.types.units import Gigabytes, IntArray, JobId, NodeId, Seconds


@dataclass(frozen=True, slots=True)
class Placement:
    """One job's share of the cluster. The simulator chooses the values that are None."""

    gpus: Mapping[NodeId, int]  # GPUs on each node, all positive
    cpus: Mapping[NodeId, float] | None = None
    memory: Mapping[NodeId, Gigabytes] | None = None
    plan: ExecutionPlan | None = None
    batch_size: int | None = None
    beside: JobId | None = None  # the job that holds these GPUs already; both then share them (`Scenario.sharing`)

    @property
    def num_gpus(self) -> int:
        """GPUs on all nodes together."""
        return sum(self.gpus.values())


class Allocation:
    """A builder for the requested allocation of one scheduling round.

    A job that the allocation leaves out does not run. `view.allocation()` begins with an empty cluster.
    `view.allocation(keep_running=True)` begins with the current placements, so that the scheduler states only the
    changes; its cost then depends on the number of changes and not of running jobs.

    A scheduler that wants to decide again at a certain instant, for example when a job reaches the limit of its queue,
    assigns that instant to `next_decision`. It must lie in the future and holds until the next round.

    A placement `beside` another job shares that job's GPUs and takes no free ones. When one of the two leaves, the
    other keeps the GPUs for itself.

    Args:
        cluster: the nodes.
        running: the current placements.
        free_gpus: int64[num_nodes], GPUs free under `running`.
        prefer: returns for a job the GPU types of the cluster (indices) from its fastest to its slowest, without types
            on which it cannot run.
        num_gpus: returns the GPUs that a job requests.
        keep_running: whether the allocation begins with `running` or empty.
        capacity: int64[num_nodes], GPUs of the nodes that are up; those of all nodes if None.
        pairs: under `running`, the job beside each job that shares its GPUs, by the job that names none.
        limits: returns for a job what its constraints allow, None if it has none; without it, no job has any. GPUs of a
            node that an exclusive job holds are not free.
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
        pairs: Mapping[JobId, JobId] | None = None,
        limits: Callable[[JobId], PlacementLimits | None] | None = None,
    ) -> None:
        self.cluster = cluster
        self.keep_running = keep_running
        whole = cluster.node_gpus if capacity is None else capacity
        self.free_gpus = free_gpus.copy() if keep_running else whole.copy()
        self.changes: dict[JobId, Placement | None] = {}  # the requested placement by job; None stops the job
        self.next_decision: Seconds = math.inf  # a round takes place at this instant, if none does before it
        self._running = running
        self._beside: dict[JobId, JobId] = dict(pairs or {}) if keep_running else {}  # its guest, by each owner
        self._alone: set[JobId] = set()  # running guests whose owners have left
        self._prefer = prefer
        self._num_gpus = num_gpus
        self._limits = limits
        self._whole = whole

    def placement(self, job: JobId) -> Placement | None:
        """Return a job's placement under the allocation so far; None if it does not run."""
        if job in self.changes:
            return self.changes[job]
        running = self._running.get(job) if self.keep_running else None
        return replace(running, beside=None) if running is not None and job in self._alone else running

    def guest(self, job: JobId) -> JobId | None:
        """Return the job that was placed beside a job under the allocation so far; None if there is none."""
        return self._beside.get(job)

    def jobs(self) -> set[JobId]:
        """Return all jobs that run under the allocation so far."""
        chosen = set(self._running) if self.keep_running else set()
        for job, placement in self.changes.items():
            if placement:
                chosen.add(job)
            else:
                chosen.discard(job)
        return chosen

    def place(self, job: JobId, placement: Placement | Mapping[NodeId, int]) -> None:
        """Place a job on these GPUs. This replaces any earlier placement of the job.

        Raises:
            AllocationError: a node does not exist or has too few free GPUs, or a count is not a positive whole number;
                or the job that it names beside it holds other GPUs, shares them already, or does not run.
        """
        if not isinstance(placement, Placement):
            placement = Placement({int(node): _whole(job, node, gpus) for node, gpus in placement.items()})
        elif not isinstance(placement.gpus, Mapping):
            raise AllocationError(f"job {job}: its placement's gpus are {placement.gpus!r}; give {{node: GPUs}}")
        before = self.placement(job)
        if not placement.gpus:
            raise AllocationError(f"job {job}: a placement needs at least one GPU; use stop() to take all GPUs away")
        if placement.beside is not None:
            self._place_beside(job, placement, placement.beside)
            return
        if before is not None and job in self._beside and dict(before.gpus) == dict(placement.gpus):
            self.changes[job] = placement  # the other one stays beside it
            return
        given_back = self._frees(job, before)
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
        held = self.held(job, placement.gpus)
        for node, gpus in held.items():
            if self.free_gpus[node] + given_back.get(node, 0) < gpus:
                raise AllocationError(f"job {job}: is exclusive, but another job holds GPUs of node {node}")
        self._leave(job, before)
        for node, gpus in held.items():
            self.free_gpus[node] -= gpus
        self.changes[job] = placement

    def _place_beside(self, job: JobId, placement: Placement, owner: JobId) -> None:
        """Place a job on the GPUs that another one holds for itself."""
        held = self.placement(owner) if owner != job else None
        if held is None:
            raise AllocationError(
                f"job {job}: is to share the GPUs of job {owner}, which holds none; place that one first"
            )
        if held.beside is not None or self._beside.get(owner, job) != job:
            third = held.beside if held.beside is not None else self._beside[owner]
            raise AllocationError(
                f"job {job}: is to share the GPUs of job {owner}, which shares them with job {third}; at most two may"
            )
        if dict(held.gpus) != dict(placement.gpus):
            raise AllocationError(
                f"job {job}: asks for GPUs {dict(placement.gpus)} beside job {owner}, which holds {dict(held.gpus)}; "
                "both must hold the same"
            )
        if job in self._beside:
            raise AllocationError(
                f"job {job}: is to share the GPUs of job {owner}, while job {self._beside[job]} shares its own; place "
                "that one elsewhere first"
            )
        self._leave(job, self.placement(job))
        self._beside[owner] = job
        self.changes[job] = placement

    def has_room(self, job: JobId, gpus: Mapping[NodeId, int]) -> bool:
        """Return whether what a job without GPUs keeps from others on these is free: whole nodes if it is exclusive."""
        return all(self.free_gpus[node] >= count for node, count in self.held(job, gpus).items())

    def _frees(self, job: JobId, before: Placement | None) -> Mapping[NodeId, int]:
        """Return the GPUs that become free when a job leaves its placement."""
        shared = before is None or before.beside is not None or job in self._beside
        return {} if before is None or shared else self.held(job, before.gpus)

    def held(self, job: JobId, gpus: Mapping[NodeId, int]) -> Mapping[NodeId, int]:
        """Return the GPUs that a placement keeps from other jobs: all of its nodes' if the job is exclusive."""
        limits = None if self._limits is None else self._limits(job)
        if limits is None or not limits.constraints.exclusive:
            return gpus
        return {node: int(self._whole[node]) for node in gpus}

    def _leave(self, job: JobId, before: Placement | None) -> None:
        """Take a job off its placement; another one that shares its GPUs keeps them."""
        self._release(self._frees(job, before))
        if before is not None and before.beside is not None:
            del self._beside[before.beside]
        guest = self._beside.pop(job, None)
        if guest is not None:
            changed = self.changes.get(guest)
            if changed is not None:
                self.changes[guest] = replace(changed, beside=None)
            else:
                self._alone.add(guest)

    def stop(self, job: JobId) -> None:
        """Take all GPUs from a job, which returns to the queue."""
        self._leave(job, self.placement(job))
        self.changes[job] = None

    def keep(self, job: JobId) -> None:
        """Keep a running job where it is.

        Raises:
            AllocationError: the job does not run, or its GPUs were given to another job.
        """
        running = self._running.get(job)
        if running is None:
            raise AllocationError(f"job {job}: does not run, so it has no placement to keep; use place() or pack()")
        self.place(job, running)

    def pack(
        self,
        job: JobId,
        num_gpus: int | None = None,
        *,
        gpu_types: Sequence[int] | None = None,
        scatter: bool = False,
    ) -> bool:
        """Place a job on as few nodes as possible. Return False and change nothing if there is no room.

        A job goes to one node if a node has enough free GPUs (best fit, lowest index), else to the fewest nodes of one
        GPU type: a job larger than a node takes whole nodes and one remainder. Types are tried in order.

        Args:
            job: the job.
            num_gpus: GPUs to give; as requested if None.
            gpu_types: indices into `cluster.gpu_types` in order of preference; the job's fastest first if None.
            scatter: if no consolidated placement is free, take any free GPUs of one type.
        """
        want = self._num_gpus(job) if num_gpus is None else num_gpus
        types = self._prefer(job) if gpu_types is None else gpu_types
        given_back = self._frees(job, self.placement(job))
        self._release(given_back)
        limits = None if self._limits is None else self._limits(job)
        found = self._find(self.free_gpus, want, types, scatter) if limits is None else None
        if limits is not None:
            found = self._find_within(limits, want, types, scatter)
        for node, gpus in given_back.items():
            self.free_gpus[node] -= gpus
        if found is None:
            return False
        self.place(job, found)
        return True

    def check_next_decision(self, time: Seconds) -> None:
        """Check that `next_decision` lies in the future.

        Raises:
            AllocationError: it does not.
        """
        if not self.next_decision > time:
            raise AllocationError(
                f"the allocation asks for its next decision at t = {self.next_decision:g} s, which is not after "
                f"t = {time:g} s; name a later instant, or leave next_decision infinite"
            )

    def shares(self) -> Iterable[tuple[JobId, NodeId, int]]:
        """Yield the changes as (job, node, GPUs) rows."""
        for job, placement in self.changes.items():
            if placement:
                for node, gpus in placement.gpus.items():
                    yield job, node, gpus

    def _release(self, gpus: Mapping[NodeId, int]) -> None:
        for node, count in gpus.items():
            self.free_gpus[node] += count

    def _find(self, free: IntArray, want: int, types: Sequence[int], scatter: bool) -> dict[NodeId, int] | None:
        for gpu_type in types:
            found = consolidated(free, self.cluster, want, gpu_type)
            if found:
                return found
        if scatter:
            for gpu_type in types:
                found = scattered(free, self.cluster, want, gpu_type)
                if found:
                    return found
        return None

    def _find_within(
        self, limits: PlacementLimits, want: int, types: Sequence[int], scatter: bool
    ) -> dict[NodeId, int] | None:
        """Find GPUs that the constraints of a job allow."""
        free = np.where(limits.nodes, self.free_gpus, 0)
        for find in (consolidated, scattered)[: 1 + scatter]:
            for gpu_type in types:
                found = find_shaped(limits.constraints, free, self.cluster, want, gpu_type, find)
                if found:
                    return found
        return None


def _whole(job: JobId, node: NodeId, gpus: int) -> int:
    """Return a count as a Python integer; raise an error for a fraction instead of rounding it."""
    if int(gpus) != gpus:
        raise AllocationError(f"job {job}: asks for {gpus} GPUs on node {node}; give a whole number")
    return int(gpus)


def consolidated(free: IntArray, cluster: ClusterSpec, want: int, gpu_type: int) -> dict[NodeId, int] | None:
    """Find the fewest nodes of one GPU type with `want` free GPUs, best fit first; None if there are none."""
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
    """Find `want` free GPUs of one type, from the nodes with most free GPUs first; None if there are too few."""
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
