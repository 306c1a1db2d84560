"""Two jobs on the same GPUs, in the reference engine: who shares with whom after a round."""

from collections.abc import Mapping, Sequence

from envs.simulation.reference.objects import Job
from envs.simulation.reference.rules import ReferenceRules
from envs.types import AllocationError, JobId, NodeId, Placement

Requested = Mapping[JobId, Placement | None]


def owners_after(requested: Requested, active: Sequence[Job]) -> dict[JobId, JobId]:
    """Return the owner of each job that will share another one's GPUs, by job.

    A job that is not changed goes on beside its owner while that one keeps its GPUs.

    Args:
        requested: see `check_requested`.
        active: the jobs in the system.
    """
    owners: dict[JobId, JobId] = {}
    for job in active:
        placement, owner = requested.get(job.id), job.owner
        if job.id in requested:
            if placement is not None and placement.beside is not None:
                owners[job.id] = placement.beside
        elif owner is not None and keeps_gpus(job, owner, requested):
            owners[job.id] = owner
    return owners


def keeps_gpus(guest: Job, owner: JobId, requested: Requested) -> bool:
    """Return whether the owner of a guest that is not changed keeps its GPUs for itself and the guest."""
    if owner not in requested:
        return True
    placement = requested[owner]
    if placement is None or placement.beside is not None:
        return False
    return dict(placement.gpus) == {share.node.id: share.gpus for share in guest.shares}


def check_pair(
    guest: Job,
    owner: JobId,
    requested: Requested,
    owners: Mapping[JobId, JobId],
    jobs: Sequence[Job],
    rules: ReferenceRules,
) -> None:
    """Check that two jobs may share GPUs: the same ones, nobody else's, and their memory suffices.

    Raises:
        AllocationError: they may not.
    """
    if rules.setup.scenario.sharing == "off":
        raise AllocationError(f"job {guest.id}: the scenario lets no jobs share GPUs; leave beside None")
    mine, its = gpus_then(guest, requested), gpus_then(jobs[owner], requested) if 0 <= owner < len(jobs) else {}
    if not its or guest.id == owner or owner in owners or list(owners.values()).count(owner) > 1:
        raise AllocationError(f"job {guest.id}: job {owner} holds no GPUs for itself that it could share")
    if mine != its:
        raise AllocationError(f"job {guest.id}: is given {mine} beside job {owner}, which holds {its}")
    for node in mine:
        if not rules.table.pair_factors[rules.node_types[node], guest.model, jobs[owner].model] > 0:
            raise AllocationError(f"job {guest.id}: does not fit on GPUs of node {node} beside job {owner}")


def gpus_then(job: Job, requested: Requested) -> dict[NodeId, int]:
    """GPUs by node that a job will hold."""
    if job.id in requested:
        placement = requested[job.id]
        return {} if placement is None else dict(placement.gpus)
    return {share.node.id: share.gpus for share in job.shares}


def joins_or_leaves(job: Job, placement: Placement, requested: Requested) -> bool:
    """Return whether a running job joins another one, or leaves its owner, which stays: it moves to other GPUs."""
    if placement.beside is not None:
        return placement.beside != job.owner
    return job.owner is not None and keeps_gpus(job, job.owner, requested)


def works_as_before(job: Job, placement: Placement, requested: Requested) -> bool:
    """Return whether a running job keeps its GPUs, plan and batch size."""
    return job.works_as(placement) and not joins_or_leaves(job, placement, requested)


def unchanged(job: Job, requested: Requested) -> bool:
    """Return whether a job already has what an allocation requests for it."""
    placement = requested[job.id]
    return job.satisfies(placement) and (placement is None or works_as_before(job, placement, requested))


def leave_partner(job: Job) -> set[Job]:
    """Part a job from its partner, which keeps the GPUs; return both if there is one."""
    partner = job.partner
    if partner is None:
        return set()
    for one in (job, partner):
        one.partner, one.guest, one.together = None, False, 1.0
    return {job, partner}


def join_owner(guest: Job, owner: Job, rules: ReferenceRules) -> set[Job]:
    """Let a job share the GPUs of another; return both, or nothing if it does so already."""
    if guest.owner == owner.id:
        return set()
    guest.partner, guest.guest, owner.partner, owner.guest = owner, True, guest, False
    guest.together, owner.together = rules.kept_beside(guest, owner), rules.kept_beside(owner, guest)
    return {guest, owner}
