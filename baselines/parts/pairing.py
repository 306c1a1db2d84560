"""Place pairs of jobs: one of the two takes GPUs as a job alone does, and the other one follows."""

from collections.abc import Collection, Mapping

from envs.scheduling import ClusterView
from envs.types import Allocation, Configuration, JobId, Placement


def owner_first(view: ClusterView, pair: Collection[JobId], stays: Collection[JobId]) -> list[JobId]:
    """Order a pair: first a job that stays where it is, among these one that is nobody's guest, then the lower one."""
    guests = set(view.pairs.values())
    return sorted(pair, key=lambda job: (job not in stays, job in guests, job))


def separate_pairs(view: ClusterView, allocation: Allocation, stays: Collection[JobId]) -> None:
    """Stop one job of each running pair, so that the other one holds the GPUs alone; to be called before placing.

    A pair that `place_beside` makes again goes on without a restart, and so does a guest whose owner is stopped here.

    Args:
        view: the round.
        allocation: the running jobs; changed in place.
        stays: jobs that are to hold the GPUs that they hold now; where this is the guest alone, the owner is stopped.
    """
    for owner, guest in view.pairs.items():
        allocation.stop(owner if guest in stays and owner not in stays else guest)


def place_beside(view: ClusterView, allocation: Allocation, owners: Mapping[JobId, JobId]) -> None:
    """Place jobs beside others where those were placed, if they run there and fit in beside them; the rest waits.

    Args:
        view: the round.
        allocation: with the owners placed; changed in place.
        owners: by the job beside it.
    """
    for guest, owner in owners.items():
        place = allocation.placement(owner)
        if place is not None and _runs_beside(view, guest, owner, place):
            allocation.place(guest, Placement(place.gpus, beside=owner))


def type_of(view: ClusterView, place: Placement) -> int:
    """Return the GPU type of the first node of a placement, as an index."""
    return int(view.cluster.node_types[min(place.gpus)])


def _runs_beside(view: ClusterView, guest: JobId, owner: JobId, place: Placement) -> bool:
    """Return whether a job runs on GPUs of one type, on so many nodes, and fits into them beside the owner."""
    gpu_type = type_of(view, place)
    there = Configuration(view.cluster.gpu_types[gpu_type], place.num_gpus, len(place.gpus))
    fits = view.pair_factors[gpu_type, view.model[guest], view.model[owner]] > 0
    return bool(fits) and view.throughput(guest, there) > 0
