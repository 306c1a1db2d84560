"""The rules of `docs/world.md` for constraints, in the reference engine: straight from what users ask for."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from envs.performance.gpus import MIG_PROFILES, find_gpu_type
from envs.simulation.reference.objects import Job, Node
from envs.types import AllocationError, BoolArray, JobId, Placement, PlacementLimits


def is_allowed(job: Job, node: Node) -> bool:
    """Whether the constraints of a job allow a node."""
    asked, name = job.spec.constraints, node.spec.gpu_type
    rest, _, features = name.partition("#")
    gpu, _, pools = rest.partition(":")
    if any(feature not in features.split("+") for feature in asked.features):
        return False
    if asked.pools and not any(pool in asked.pools for pool in pools.split("+")):
        return False
    if asked.gpu_types and gpu not in asked.gpu_types:
        return False
    if asked.mig_profile:
        whole, _, parts = gpu.partition("/")
        if whole[:1] not in ("A", "H", "B") or not parts:
            return False
        units, memory = asked.mig_profile.removesuffix("gb").split("g.")
        shares = MIG_PROFILES[int(parts)]
        if (round(7 * shares[0]), round(find_gpu_type(whole).memory_gb * shares[1])) != (int(units), int(memory)):
            return False
    return not asked.gpu_memory or find_gpu_type(gpu).memory_gb >= asked.gpu_memory


def check_place(job: Job, placement: Placement, nodes: Sequence[Node]) -> None:
    """Check that a job may run on the nodes of a placement, and as it is divided among them.

    Raises:
        AllocationError: it may not; names the job, the constraint and the node.
    """
    asked, gpus = job.spec.constraints, placement.gpus
    for node in gpus:
        if not is_allowed(job, nodes[node]):
            raise AllocationError(f"job {job.id}: node {node} is forbidden by its constraints ({asked})")
        if asked.gpus_per_node not in (0, gpus[node]):
            raise AllocationError(f"job {job.id}: {gpus[node]} GPUs of node {node}, but its constraints are {asked}")
    if asked.num_nodes not in (0, len(gpus)) or 0 < asked.max_nodes < len(gpus):
        raise AllocationError(f"job {job.id}: nodes {sorted(gpus)} are {len(gpus)}, but its constraints are {asked}")


def check_alone(requested: Mapping[JobId, Placement | None], active: Iterable[Job]) -> None:
    """Check that exclusive jobs will have their nodes for themselves.

    Args:
        requested: the new placements, None to stop a job; other jobs continue.
        active: the jobs in the system.

    Raises:
        AllocationError: another job will be on such a node; names both jobs and the node.
    """
    held: dict[JobId, set[int]] = {}
    jobs = {job.id: job for job in active}
    for job in jobs.values():
        placement = requested[job.id] if job.id in requested else job.placement()
        held[job.id] = set() if placement is None else set(placement.gpus)
    for one, nodes in held.items():
        if jobs[one].spec.constraints.exclusive:
            for other, others in held.items():
                if one != other and nodes & others:
                    raise AllocationError(f"job {one}: is exclusive, but job {other} is on node {min(nodes & others)}")


def limits_of(job: Job, nodes: Sequence[Node]) -> PlacementLimits | None:
    """Return what `Allocation.pack` has to know about a job; None without constraints."""
    if not job.spec.constraints:
        return None
    allowed: BoolArray = np.array([is_allowed(job, node) for node in nodes])
    return PlacementLimits(job.spec.constraints, allowed)
