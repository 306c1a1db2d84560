"""A candidate: what every job would hold in one round, to be compared, changed a little and applied."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from envs.scheduling import ClusterView
from envs.types import Allocation, IntArray, JobId, NodeId, Placement

Key: TypeAlias = frozenset[tuple[JobId, tuple[tuple[NodeId, int], ...], object, object]]


@dataclass(frozen=True)
class RoundPlacements:
    """The placements of one round; never changed, so candidates may share them.

    Attributes:
        placements: the placement of each job that runs.
        free: int64[num_nodes], GPUs left over.
    """

    placements: Mapping[JobId, Placement]
    free: IntArray

    @classmethod
    def present(cls, view: ClusterView) -> "RoundPlacements":
        """Return what the jobs hold now."""
        return cls({job: view.placement(job) for job in view.running.tolist()}, view.free_gpus)

    def with_allocation(self, allocation: Allocation) -> "RoundPlacements":
        """Return an allocation's candidate, if this one is what jobs hold now; its order is that of the jobs' ids."""
        placements = dict(self.placements) if allocation.keep_running else {}
        for job, placement in allocation.changes.items():
            placements.pop(job, None)
            if placement is not None:
                placements[job] = placement
        return RoundPlacements(dict(sorted(placements.items())), allocation.free_gpus.copy())

    def with_placement(self, job: JobId, gpus: Mapping[NodeId, int] | None) -> "RoundPlacements | None":
        """Return the candidate in which a job holds other GPUs, or none; None where a node has too few."""
        placements, free = dict(self.placements), self.free.copy()
        before = placements.pop(job, None)
        if before is not None:
            for node, count in before.gpus.items():
                free[node] += count
        if gpus:
            for node, count in gpus.items():
                free[node] -= count
            placements[job] = Placement(dict(gpus))
        return None if (free < 0).any() else RoundPlacements(placements, free)

    @property
    def key(self) -> Key:
        """A value that is equal for equal candidates."""
        return frozenset(
            (job, tuple(sorted(placement.gpus.items())), placement.batch_size, placement.plan)
            for job, placement in self.placements.items()
        )

    def allocation(self, view: ClusterView, present: "RoundPlacements") -> Allocation:
        """Build the allocation that makes this candidate from what jobs hold now; it names only what changes."""
        allocation = view.allocation(keep_running=True)
        changed = [
            job for job, placement in present.placements.items() if _differs(self.placements.get(job), placement)
        ]
        for job in changed:
            allocation.stop(job)
        for job, placement in self.placements.items():
            if _differs(present.placements.get(job), placement):
                allocation.place(job, placement)
        return allocation

    def num_gpus(self, job: JobId) -> int:
        """Return the GPUs that a job holds; 0 if it waits."""
        placement = self.placements.get(job)
        return placement.num_gpus if placement is not None else 0

    def jobs_on(self, node: NodeId) -> list[JobId]:
        """Return the jobs on a node, in the candidate's order."""
        return [job for job, placement in self.placements.items() if node in placement.gpus]

    def is_idle(self) -> bool:
        """Whether no job runs."""
        return not self.placements


def _differs(one: Placement | None, other: Placement | None) -> bool:
    return one is not other and one != other


def names_more(placement: Placement | None) -> bool:
    """Whether a placement names more than its GPUs, so that only its scheduler can say what fits other GPUs."""
    if placement is None:
        return False
    named = (placement.cpus, placement.memory, placement.plan, placement.batch_size)
    return any(amount is not None for amount in named)


def largest_node(placement: Placement) -> NodeId:
    """Return the node on which a placement holds most GPUs, the lowest of equals."""
    return max(sorted(placement.gpus), key=lambda node: placement.gpus[node])
