"""Checks of the reference engine on requested allocations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from envs.simulation.reference.constraints import check_alone, check_place
from envs.simulation.reference.objects import PARTS, Job, JobStatus, Node, down_to_parts
from envs.simulation.reference.pairs import Requested, check_pair, gpus_then, owners_after, works_as_before
from envs.simulation.reference.queues import check_queues
from envs.simulation.reference.rules import ReferenceRules
from envs.types import AllocationError, JobId, NodeId, PerformanceError, Placement, PreemptionError, Seconds


def check_requested(
    requested: Requested, jobs: Sequence[Job], nodes: Sequence[Node], rules: ReferenceRules, time: Seconds
) -> None:
    """Assert that a requested allocation can take effect.

    Args:
        requested: the new placement of each job in it, None to stop it; other jobs continue.
        jobs: all jobs.
        nodes: all nodes.
        rules: the rules for throughputs.
        time: the present time.

    Raises:
        AllocationError: it cannot; names job, node and resource.
    """
    for job, placement in requested.items():
        if not 0 <= job < len(jobs) or jobs[job].status not in (JobStatus.QUEUED, JobStatus.RUNNING):
            raise AllocationError(f"job {job} is not in the system at t = {time:g} s; place queued or running jobs")
        if placement is not None:
            _check_job(jobs[job], placement, nodes, rules)
        never = jobs[job].status is JobStatus.RUNNING and rules.setup.scenario.preemption == "never"
        if never and (placement is None or not works_as_before(jobs[job], placement, requested)):
            raise PreemptionError(f"job {job} runs, and keeps what it has until it ends (scenario.preemption)")
    active = [job for job in jobs if job.status in (JobStatus.QUEUED, JobStatus.RUNNING)]
    check_alone(requested, active)
    check_queues(rules.setup.scenario.queue_limits, requested, active, nodes)
    owners = owners_after(requested, active)
    for guest, owner in owners.items():
        if guest in requested:
            check_pair(jobs[guest], owner, requested, owners, jobs, rules)
    for node in nodes:
        _check_gpus(node, requested, owners)
        if rules.shared:
            shared = sum(gpus_then(jobs[guest], requested).get(node.id, 0) for guest in owners)
            for resource in ("cpus", "memory"):
                _check_amounts(node, resource, requested, shared)


def _check_job(job: Job, placement: Placement, nodes: Sequence[Node], rules: ReferenceRules) -> None:
    """Check one placement: its nodes, GPUs within the job's range, amounts on its nodes, and a throughput above 0."""
    for node, gpus in placement.gpus.items():
        if not 0 <= node < len(nodes) or gpus < 1:
            raise AllocationError(f"job {job.id}: asks for {gpus} GPUs on node {node}; nodes are 0 to {len(nodes) - 1}")
    check_place(job, placement, nodes)
    if not job.spec.min_gpus <= placement.num_gpus <= job.spec.max_gpus:
        raise AllocationError(
            f"job {job.id}: is given {placement.num_gpus} GPUs; its range is {job.spec.min_gpus} to {job.spec.max_gpus}"
        )
    size, low, high = placement.batch_size, job.spec.min_batch, job.spec.max_batch
    if size is not None and not low <= size <= (high or size):
        raise AllocationError(f"job {job.id}: names batch size {size}; its range is {low or 1} to {high or 'any'}")
    for resource, amounts in (("cpus", placement.cpus), ("memory", placement.memory)):
        if amounts is not None:
            if not rules.shared:
                raise AllocationError(
                    f"job {job.id}: names {resource}, which the scenario does not limit; leave it None"
                )
            if set(amounts) != set(placement.gpus):
                raise AllocationError(f"job {job.id}: names {resource} on other nodes than GPUs; name the same nodes")
            if any(down_to_parts(amounts[node]) < gpus / PARTS for node, gpus in placement.gpus.items()):
                raise AllocationError(f"job {job.id}: names {resource} {dict(amounts)}; each GPU needs at least 1/64")
    try:
        throughput = rules.ample_throughput(job.model, replace(placement, gpus=dict(sorted(placement.gpus.items()))))
    except PerformanceError as error:
        raise AllocationError(f"job {job.id}: {error}") from error
    if not throughput > 0:
        raise AllocationError(
            f"job {job.id}: {job.spec.model} does not run on {dict(placement.gpus)}; place it elsewhere"
        )


def _check_gpus(node: Node, requested: Requested, owners: Mapping[JobId, JobId]) -> None:
    """Check that the GPUs of a node suffice for the requested placements and the jobs that do not change."""
    kept = sum(share.gpus for share in node.shares if share.job.id not in requested and share.job.id not in owners)
    asked = sum(
        placement.gpus.get(node.id, 0)
        for job, placement in requested.items()
        if placement is not None and job not in owners
    )
    if kept + asked > node.capacity:
        raise AllocationError(f"node {node.id}: {asked} GPUs are asked for, {node.capacity - kept} are free")


def _check_amounts(node: Node, resource: str, requested: Requested, shared: int) -> None:
    """Check that the cores (or memory) of a node suffice for the named amounts and 1/64 for each other GPU.

    Of a GPU that two jobs share (`shared` of them), each job needs an amount of its own.
    """
    left: float = getattr(node, resource)
    bare = node.capacity + shared  # GPUs whose amount is not named
    for share in node.shares:
        if share.job.id not in requested and getattr(share.job, f"names_{resource}"):
            left -= getattr(share, resource)
            bare -= share.gpus
    for placement in requested.values():
        amounts: Mapping[NodeId, float] | None = getattr(placement, resource, None)
        if placement is not None and amounts is not None and node.id in placement.gpus:
            left -= down_to_parts(amounts[node.id])
            bare -= placement.gpus[node.id]
    if left < bare / PARTS:
        raise AllocationError(f"node {node.id}: the named {resource} leave {left:g} for {bare} GPUs")
