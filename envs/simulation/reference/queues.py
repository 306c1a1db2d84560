"""The rule of `docs/world.md` for the limits of queues, in the reference engine."""

from collections.abc import Iterable, Mapping, Sequence

from envs.simulation.reference.objects import Job, Node
from envs.types import AllocationError, JobId, Placement


def check_queues(
    limits: Mapping[str, Mapping[str, int]],
    requested: Mapping[JobId, Placement | None],
    active: Iterable[Job],
    nodes: Sequence[Node],
) -> None:
    """Check that the jobs of each queue, and of those below it, hold no more GPUs of a type than it may.

    Args:
        limits: most GPUs by queue and GPU type.
        requested: the new placements, None to stop a job; other jobs continue.
        active: the jobs in the system.
        nodes: all nodes.

    Raises:
        AllocationError: they would; names the queue.
    """
    jobs = list(active)
    for queue, by_type in limits.items():
        for gpu_type, most in by_type.items():
            held = 0
            for job in jobs:
                if queue not in _ancestry(job.spec.tenant, limits):
                    continue
                placement = requested[job.id] if job.id in requested else job.placement()
                for node, gpus in () if placement is None else placement.gpus.items():
                    if gpu_type in ("all", nodes[node].spec.gpu_type.split("#")[0].split(":")[0]):
                        held += gpus
            if held > most:
                raise AllocationError(f"queue {queue}: is to hold {held} GPUs ({gpu_type}), and may hold {most}")


def _ancestry(tenant: str, limits: Iterable[str]) -> list[str]:
    """Return the queue of a tenant and all above it, with all above each; none if it has no queue."""
    for queue in limits:
        parts = queue.split("/")
        if tenant and tenant in (queue, parts[-1]):
            return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return []
