"""Place grants (GPUs of one type for each job) on nodes, and read grants from placements."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from baselines.parts.placing import Gpus, pack
from envs.scheduling import ClusterView
from envs.types import Allocation, Configuration, IntArray, JobId


@dataclass(frozen=True, slots=True)
class Grant:
    """GPUs of one type for one job."""

    gpu_type: int  # index into the cluster's types
    num_gpus: int


def capacity_by_type(view: ClusterView) -> IntArray:
    """int64[num_gpu_types]: GPUs of nodes that are up."""
    return np.bincount(view.cluster.node_types, view.capacity, len(view.cluster.gpu_types)).astype(np.int64)


def free_by_type(allocation: Allocation) -> IntArray:
    """int64[num_gpu_types]: GPUs that the allocation leaves free."""
    return np.bincount(allocation.cluster.node_types, allocation.free_gpus, len(allocation.cluster.gpu_types)).astype(
        np.int64
    )


def held_grants(view: ClusterView) -> dict[JobId, Grant]:
    """Return what each running job holds; a gang over several types counts with the type of its first node."""
    gpu_types = view.cluster.node_types
    return {job: Grant(int(gpu_types[min(gpus)]), sum(gpus.values())) for job, gpus in held_gpus(view).items()}


def held_gpus(view: ClusterView) -> dict[JobId, Gpus]:
    """Return the GPUs by node of each running job; much faster than its placements, which may name more."""
    found: dict[JobId, Gpus] = {}
    for job, node, gpus in view.shares.tolist():
        found.setdefault(job, {})[node] = gpus
    return found


def pack_grant(view: ClusterView, allocation: Allocation, job: JobId, grant: Grant, *, scatter: bool = False) -> bool:
    """Place a job that has no GPUs on those of its grant, by `Allocation.pack`; return whether it runs there.

    A job may run on few nodes and not on many. If it does not run on the nodes found, it stays without GPUs.
    """
    if not allocation.pack(job, grant.num_gpus, gpu_types=(grant.gpu_type,), scatter=scatter):
        return False
    found = allocation.placement(job)
    assert found is not None
    there = Configuration(view.cluster.gpu_types[grant.gpu_type], grant.num_gpus, len(found.gpus))
    if len(found.gpus) > 1 and not view.throughput(job, there) > 0:
        allocation.stop(job)
        return False
    return True


def place_grants(
    view: ClusterView, allocation: Allocation, grants: Mapping[JobId, Grant], spanning: Collection[JobId] = ()
) -> None:
    """Place grants on nodes: jobs that hold their grant stay, the others follow, largest first; the rest is stopped.

    If a gang fits nowhere in one piece, all jobs of its type are placed anew, largest first. If it still does not fit,
    it takes free GPUs of the type on any nodes. The grants of a type must take at most its GPUs that are free or held
    by jobs other than `spanning`.

    Args:
        view: the round.
        allocation: the running jobs at first, none beside another one; changed in place.
        grants: the grant of each job that is to run.
        spanning: jobs that run on no one type; they start if there is room after all others, and then keep running.
    """
    held = {job: grant for job, grant in held_grants(view).items() if allocation.changes.get(job, grant) is not None}
    for job in held.keys() - set(spanning):
        if grants.get(job) != held[job]:
            allocation.stop(job)
    movers = [job for job in grants if grants[job] != held.get(job)]
    for job in sorted(movers, key=lambda job: (-grants[job].num_gpus, job)):
        grant = grants[job]
        if allocation.placement(job) is None and not pack_grant(view, allocation, job, grant):
            _place_anew(view, allocation, grants, held, grant.gpu_type)
    for job in spanning:
        if allocation.placement(job) is None:
            pack(view, allocation, job)


def _place_anew(
    view: ClusterView, allocation: Allocation, grants: Mapping[JobId, Grant], held: Mapping[JobId, Grant], gpu_type: int
) -> None:
    """Place all jobs of a type anew, largest first; jobs of equal size that can keep their nodes go first."""
    jobs = [job for job, grant in grants.items() if grant.gpu_type == gpu_type]
    for job in jobs:
        allocation.stop(job)
    stay = {job for job in jobs if held.get(job) == grants[job]}
    for job in sorted(jobs, key=lambda job: (-grants[job].num_gpus, job not in stay, job)):
        place = view.placement(job) if job in stay else None
        if place and allocation.has_room(job, place.gpus):
            allocation.place(job, replace(place, beside=None))
        else:
            pack_grant(view, allocation, job, grants[job], scatter=True)
