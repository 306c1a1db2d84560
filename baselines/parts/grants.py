"""From grants, GPUs of one type for each job, to nodes; and back."""

from collections.abc import Collection, Mapping

import numpy as np

from baselines.parts.marginal_gain import Grant
from baselines.parts.placing import pack
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, IntArray, JobId


def capacity_by_type(view: ClusterView) -> IntArray:
    """int64[num_gpu_types]: GPUs of nodes that are up."""
    return np.bincount(view.cluster.node_types, view.capacity, len(view.cluster.gpu_types)).astype(np.int64)


def free_by_type(wish: Allocation) -> IntArray:
    """int64[num_gpu_types]: GPUs that the wish leaves free."""
    return np.bincount(wish.cluster.node_types, wish.free_gpus, len(wish.cluster.gpu_types)).astype(np.int64)


def held_grants(view: ClusterView) -> dict[JobId, Grant]:
    """What each running job holds; of a gang over several types, the type of its first node."""
    found: dict[JobId, Grant] = {}
    for job in view.running.tolist():
        place = view.placement(job)
        found[job] = Grant(int(view.cluster.node_types[min(place.gpus)]), place.num_gpus)
    return found


def runs_on_one_type(view: ClusterView, jobs: IntArray) -> BoolArray:
    """bool[len(jobs)]: whether a job runs, with some number of GPUs in its range, on nodes of one type."""
    least, most = view.min_gpus[jobs], view.max_gpus[jobs]
    speeds = [view.speed(job).max(axis=0) for job in jobs.tolist()]
    return np.array(
        [bool((speed[low : high + 1] > 0).any()) for speed, low, high in zip(speeds, least, most, strict=True)],
        dtype=np.bool_,
    )


def place_grants(
    view: ClusterView, wish: Allocation, grants: Mapping[JobId, Grant], spanning: Collection[JobId] = ()
) -> None:
    """Nodes for grants: jobs whose grant is what they hold stay, the others come largest first, the rest is stopped.

    Where a gang is nowhere in one piece, all jobs of its type are placed anew, largest first; if even then it is not,
    it takes free GPUs of the type wherever they are. Grants of a type must be at most its GPUs that are free or held by
    jobs other than `spanning`.

    Args:
        view: the round.
        wish: begins with what runs; changed in place.
        grants: for each job that is to run.
        spanning: jobs that run on no one type; they start if there is room after all others, and then go on.
    """
    held = held_grants(view)
    for job in held.keys() - set(spanning):
        if grants.get(job) != held[job]:
            wish.stop(job)
    movers = [job for job in grants if grants[job] != held.get(job)]
    for job in sorted(movers, key=lambda job: (-grants[job].num_gpus, job)):
        grant = grants[job]
        if wish.placement(job) is None and not wish.pack(job, grant.num_gpus, gpu_types=(grant.gpu_type,)):
            _place_anew(view, wish, grants, held, grant.gpu_type)
    for job in spanning:
        if wish.placement(job) is None:
            pack(view, wish, job)


def _place_anew(
    view: ClusterView, wish: Allocation, grants: Mapping[JobId, Grant], held: Mapping[JobId, Grant], kind: int
) -> None:
    """Place all jobs of a type anew, largest first; of one size those first that keep what they hold, if it is free."""
    jobs = [job for job, grant in grants.items() if grant.gpu_type == kind]
    for job in jobs:
        wish.stop(job)
    stay = {job for job in jobs if held.get(job) == grants[job]}
    for job in sorted(jobs, key=lambda job: (-grants[job].num_gpus, job not in stay, job)):
        place = view.placement(job) if job in stay else None
        if place and all(wish.free_gpus[node] >= gpus for node, gpus in place.gpus.items()):
            wish.keep(job)
        else:
            wish.pack(job, grants[job].num_gpus, gpu_types=(kind,), scatter=True)
