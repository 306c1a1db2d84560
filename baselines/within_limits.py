"""Any scheduler in a world in which queues have hard limits: what exceeds them waits."""

from collections.abc import Mapping

import numpy as np

from envs.scheduling import ClusterView, Scheduler
from envs.simulation.world.queue_limits import QueueLimits
from envs.types import Allocation, AllocationError, ClusterSpec, JobId, NodeId


class WithinLimits:
    """Leaves out of a scheduler's allocation what would exceed a limit of a queue (`ClusterView.queue_limits`).

    Placements count in the order in which the scheduler made them, after the jobs that it leaves alone. One that
    exceeds a limit is left out: a waiting job waits on, as a pod that a ResourceQuota refuses; a running one keeps what
    it has if that is free and allowed, and stops else.

    Args:
        inner: any scheduler.
    """

    def __init__(self, inner: Scheduler) -> None:
        self.inner = inner
        self.information = getattr(inner, "information", "estimate")
        self.preemptive = getattr(inner, "preemptive", True)
        self.elastic = getattr(inner, "elastic", True)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin a new episode."""
        self.inner.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Return the inner scheduler's allocation without what exceeds limits."""
        allocation = self.inner.schedule(view)
        keep_within_limits(allocation, view)
        return allocation


def keep_within_limits(allocation: Allocation, view: ClusterView) -> None:
    """Take out of an allocation what would exceed a limit of a queue; see `WithinLimits`."""
    limits = QueueLimits(view.queue_limits, view.cluster)
    if not limits.rules:
        return

    def needs(job: JobId, gpus: Mapping[NodeId, int]) -> np.ndarray:
        return limits.needs(view.job(job).tenant, gpus)

    left = limits.most.copy()
    for job in allocation.jobs() - allocation.changes.keys():
        left -= needs(job, view.placement(job).gpus)
    running = set(view.running.tolist())
    for job, placement in list(allocation.changes.items()):
        if placement is None or allocation.placement(job) is None:
            continue
        wanted = needs(job, placement.gpus)
        if (wanted > left).any() and (wanted > 0).any():
            wanted = needs(job, view.placement(job).gpus) if job in running else wanted
            if job not in running or (wanted > left).any() or not _keep(allocation, job):
                allocation.stop(job)
                continue
        left -= wanted


def _keep(allocation: Allocation, job: JobId) -> bool:
    """Keep a running job where it is; return False if its GPUs were given away."""
    try:
        allocation.keep(job)
    except AllocationError:
        return False
    return True
