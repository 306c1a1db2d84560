"""What the reference engine refuses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from envs.simulation.exact import PARTS, whole_parts
from envs.simulation.reference_objects import Job, Life, Node
from envs.simulation.reference_rules import Rules
from envs.types import AllocationError, JobId, NodeId, PerformanceError, Placement, Seconds

Wishes = Mapping[JobId, Placement | None]


def check_wishes(wishes: Wishes, jobs: Sequence[Job], nodes: Sequence[Node], rules: Rules, time: Seconds) -> None:
    """Assert that a wish can take effect.

    Args:
        wishes: what is to become of the jobs that it names; the others go on.
        jobs: all jobs.
        nodes: all nodes.
        rules: how fast placements are.
        time: the present instant.

    Raises:
        AllocationError: it cannot; names job, node and resource.
    """
    for job, wish in wishes.items():
        if not 0 <= job < len(jobs) or jobs[job].life not in (Life.QUEUED, Life.RUNNING):
            raise AllocationError(f"job {job} is not in the system at t = {time:g} s; place queued or running jobs")
        if wish is not None:
            _check_job(jobs[job], wish, len(nodes), rules)
    for node in nodes:
        _check_gpus(node, wishes)
        if rules.shared:
            for resource in ("cpus", "memory"):
                _check_amounts(node, resource, wishes, jobs)


def _check_job(job: Job, wish: Placement, num_nodes: int, rules: Rules) -> None:
    """A job's wish by itself: GPUs within its range, amounts on its nodes, and a speed above 0."""
    for node, gpus in wish.gpus.items():
        if not 0 <= node < num_nodes or gpus < 1:
            raise AllocationError(f"job {job.id}: asks for {gpus} GPUs on node {node}; nodes are 0 to {num_nodes - 1}")
    if not job.spec.min_gpus <= wish.num_gpus <= job.spec.max_gpus:
        raise AllocationError(
            f"job {job.id}: is given {wish.num_gpus} GPUs; its range is {job.spec.min_gpus} to {job.spec.max_gpus}"
        )
    size, low, high = wish.batch_size, job.spec.min_batch, job.spec.max_batch
    if size is not None and not low <= size <= (high or size):
        raise AllocationError(f"job {job.id}: names batch size {size}; its range is {low or 1} to {high or 'any'}")
    for resource, amounts in (("cpus", wish.cpus), ("memory", wish.memory)):
        if amounts is not None:
            if not rules.shared:
                raise AllocationError(
                    f"job {job.id}: names {resource}, of which the scenario has no end; leave it None"
                )
            if set(amounts) != set(wish.gpus):
                raise AllocationError(f"job {job.id}: names {resource} on other nodes than GPUs; name the same nodes")
            if any(whole_parts(amounts[node]) < gpus / PARTS for node, gpus in wish.gpus.items()):
                raise AllocationError(f"job {job.id}: names {resource} {dict(amounts)}; each GPU needs at least 1/64")
    try:
        speed = rules.ample_speed(job.model, replace(wish, gpus=dict(sorted(wish.gpus.items()))))
    except PerformanceError as error:
        raise AllocationError(f"job {job.id}: {error}") from error
    if not speed > 0:
        raise AllocationError(f"job {job.id}: {job.spec.model} does not run on {dict(wish.gpus)}; place it elsewhere")


def _check_gpus(node: Node, wishes: Wishes) -> None:
    """The GPUs of a node suffice for the wish and for the jobs that it leaves alone."""
    kept = sum(share.gpus for share in node.shares if share.job.id not in wishes)
    asked = sum(wish.gpus.get(node.id, 0) for wish in wishes.values() if wish is not None)
    if kept + asked > node.capacity:
        raise AllocationError(f"node {node.id}: {asked} GPUs are asked for, {node.capacity - kept} are free")


def _check_amounts(node: Node, resource: str, wishes: Wishes, jobs: Sequence[Job]) -> None:
    """The cores (or memory) of a node suffice for what is named and what goes on, and leave some for all other GPUs."""
    left: float = getattr(node, resource)
    bare = node.capacity  # GPUs whose amount is neither named nor kept
    for share in node.shares:
        if share.job.id not in wishes or share.job.satisfies(wishes[share.job.id]):
            left -= getattr(share, resource)
            bare -= share.gpus
    for job, wish in wishes.items():
        if wish is not None and node.id in wish.gpus and not jobs[job].satisfies(wish):
            amounts: Mapping[NodeId, float] | None = getattr(wish, resource)
            if amounts is not None:
                left -= whole_parts(amounts[node.id])
                bare -= wish.gpus[node.id]
    if left < bare / PARTS:
        raise AllocationError(f"node {node.id}: {resource} are named such that {left:g} are left for {bare} GPUs")
