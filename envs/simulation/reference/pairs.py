"""Two jobs on the same GPUs, in the reference engine: who shares with whom after a round."""

from collections.abc import Mapping, Sequence

from envs.simulation.reference.objects import Job
from envs.simulation.reference.rules import ReferenceRules
from envs.types import AllocationError, JobId, NodeId, Placement

Requested = Mapping[JobId, Placement | None]


def hosts_after(requested: Requested, active: Sequence[Job]) -> dict[JobId, JobId]:
    """Return the host of each job that will share another one's GPUs, by job.

    A job that is not changed goes on beside its host while that one keeps its GPUs.

    Args:
        requested: see `check_requested`.
        active: the jobs in the system.
    """
    hosts: dict[JobId, JobId] = {}
    for job in active:
        placement, host = requested.get(job.id), job.host
        if job.id in requested:
            if placement is not None and placement.beside is not None:
                hosts[job.id] = placement.beside
        elif host is not None and keeps_gpus(job, host, requested):
            hosts[job.id] = host
    return hosts


def keeps_gpus(guest: Job, host: JobId, requested: Requested) -> bool:
    """Return whether the host of a guest that is not changed keeps its GPUs for itself and the guest."""
    if host not in requested:
        return True
    placement = requested[host]
    if placement is None or placement.beside is not None:
        return False
    return dict(placement.gpus) == {share.node.id: share.gpus for share in guest.shares}


def check_pair(
    guest: Job,
    host: JobId,
    requested: Requested,
    hosts: Mapping[JobId, JobId],
    jobs: Sequence[Job],
    rules: ReferenceRules,
) -> None:
    """Check that two jobs may share GPUs: the same ones, nobody else's, and their memory suffices.

    Raises:
        AllocationError: they may not.
    """
    if rules.setup.scenario.sharing == "off":
        raise AllocationError(f"job {guest.id}: the scenario lets no jobs share GPUs; leave beside None")
    mine, its = gpus_after(guest, requested), gpus_after(jobs[host], requested) if 0 <= host < len(jobs) else {}
    if not its or guest.id == host or host in hosts or list(hosts.values()).count(host) > 1:
        raise AllocationError(f"job {guest.id}: job {host} holds no GPUs for itself that it could share")
    if mine != its:
        raise AllocationError(f"job {guest.id}: is given {mine} beside job {host}, which holds {its}")
    for node in mine:
        if not rules.table.pair_factors[rules.node_types[node], guest.model, jobs[host].model] > 0:
            raise AllocationError(f"job {guest.id}: does not fit on GPUs of node {node} beside job {host}")


def gpus_after(job: Job, requested: Requested) -> dict[NodeId, int]:
    """GPUs by node that a job will hold."""
    if job.id in requested:
        placement = requested[job.id]
        return {} if placement is None else dict(placement.gpus)
    return {share.node.id: share.gpus for share in job.shares}


def changes_pair(job: Job, placement: Placement, requested: Requested) -> bool:
    """Return whether a running job joins another one, or leaves its host, which stays: it moves to other GPUs."""
    if placement.beside is not None:
        return placement.beside != job.host
    return job.host is not None and keeps_gpus(job, job.host, requested)


def works_as_before(job: Job, placement: Placement, requested: Requested) -> bool:
    """Return whether a running job keeps its GPUs, plan and batch size."""
    return job.works_as(placement) and not changes_pair(job, placement, requested)


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


def join(guest: Job, host: Job, rules: ReferenceRules) -> set[Job]:
    """Let a job share the GPUs of another; return both, or nothing if it does so already."""
    if guest.host == host.id:
        return set()
    guest.partner, guest.guest, host.partner, host.guest = host, True, guest, False
    guest.together, host.together = rules.kept_beside(guest, host), rules.kept_beside(host, guest)
    return {guest, host}
