"""Reference implementation of `baselines.parts.sharing`: share out GPUs of several types by marginal gain."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from baselines.parts.grants import Grant
from baselines.parts.sharing import NEGLIGIBLE
from envs.types import FloatArray, GpuSeconds, IntArray, JobId


@dataclass(frozen=True)
class Demand:
    """The cost of a job on GPUs of each type.

    Attributes:
        cost: float64[num_gpu_types, max_gpus + 1], seconds to its end on so many GPUs of a type; infinite where it
            cannot run.
        weight: importance of its seconds.
        present: the grant that it holds now; None if it waits.
    """

    cost: FloatArray
    weight: float
    present: Grant | None = None

    @property
    def least(self) -> IntArray:
        """int64[num_gpu_types]: fewest GPUs on which it runs; 0 where it does not."""
        least: IntArray = np.isfinite(self.cost).argmax(axis=1)
        return least

    @property
    def least_gpu_time(self) -> GpuSeconds:
        """GPU-seconds to its end on its least size, on the type where that is cheapest; infinite if it runs nowhere."""
        gpu_types = np.arange(len(self.cost))
        return float((self.cost[gpu_types, self.least] * np.maximum(self.least, 1)).min())


def share_out(demands: Mapping[JobId, Demand], capacity: IntArray) -> dict[JobId, Grant]:
    """Choose grants with a small weighted sum of costs: least sizes, growth by gain per GPU, moves to idle types.

    Nodes are ignored: GPUs of a type are one pool. This is a heuristic. It takes gains in descending order, which is
    optimal for one type and convex costs (Ibaraki and Katoh 1988, chapter 4), but not in general.

    Args:
        demands: the demand of each job.
        capacity: int64[num_gpu_types], GPUs of each type.

    Returns:
        A grant for each job that gets GPUs; the GPUs of all grants of a type are at most its capacity.
    """
    left = capacity.copy()
    grants = _least_grants(demands, left)
    _grow(demands, grants, left)
    for _ in range(4 * len(grants)):  # every move lowers the sum, so the loop ends; this bounds its time
        if not _move_one(demands, grants, left):
            break
        _grow(demands, grants, left)
    return grants


def _least_grants(demands: Mapping[JobId, Demand], left: IntArray) -> dict[JobId, Grant]:
    """Grant their least size to as many jobs as fit, fewest GPU-seconds first; running jobs on their present type."""
    admitted: list[JobId] = []
    room = int(left.sum())
    for job in sorted(demands, key=lambda job: (demands[job].least_gpu_time, job)):
        least = demands[job].least
        if least.any() and (need := int(least[least > 0].min())) <= room:
            admitted.append(job)
            room -= need
    grants: dict[JobId, Grant] = {}
    for job in sorted(admitted, key=lambda job: demands[job].present is None):  # stable: running ones first
        demand = demands[job]
        gpu_types = [gpu_type for gpu_type, size in enumerate(demand.least) if 0 < size <= left[gpu_type]]
        if demand.present and demand.present.gpu_type in gpu_types:
            gpu_types = [demand.present.gpu_type]
        if gpu_types:
            gpu_type = min(gpu_types, key=lambda gpu_type: float(demand.cost[gpu_type, demand.least[gpu_type]]))
            grants[job] = Grant(gpu_type, int(demand.least[gpu_type]))
            left[gpu_type] -= grants[job].num_gpus
    return grants


def _grow(demands: Mapping[JobId, Demand], grants: dict[JobId, Grant], left: IntArray) -> None:
    """Give GPUs of each type to the job on it that gains most per GPU, until no job gains."""
    steps = [(*_best_step(demands[job], grant, left), job) for job, grant in grants.items()]
    heap = [(-gain, job, size) for gain, size, job in steps if gain > NEGLIGIBLE]
    heapq.heapify(heap)
    while heap:
        promised, job, size = heapq.heappop(heap)
        gain, best = _best_step(demands[job], grants[job], left)
        if gain >= -promised and best == size:  # the offer still holds: GPUs left, and so gains, only shrink
            left[grants[job].gpu_type] -= size - grants[job].num_gpus
            grants[job] = Grant(grants[job].gpu_type, size)
            gain, best = _best_step(demands[job], grants[job], left)
        if gain > NEGLIGIBLE:
            heapq.heappush(heap, (-gain, job, best))


def _best_step(demand: Demand, grant: Grant, left: IntArray) -> tuple[float, int]:
    """Return the weighted gain per GPU of the best larger size that is available, and that size; gain 0 if none."""
    now = grant.num_gpus
    larger = demand.cost[grant.gpu_type, now + 1 : now + 1 + int(left[grant.gpu_type])]
    if larger.size == 0:
        return 0.0, now
    gains = (demand.cost[grant.gpu_type, now] - larger) / np.arange(1, larger.size + 1)
    best = int(gains.argmax())
    return demand.weight * float(gains[best]), now + 1 + best


def _move_one(demands: Mapping[JobId, Demand], grants: dict[JobId, Grant], left: IntArray) -> bool:
    """Move the job that gains most to idle GPUs of another type; return whether one moved."""
    best_gain, best_job, best_grant = NEGLIGIBLE, -1, Grant(0, 0)
    for job, grant in grants.items():
        cost = demands[job].cost
        for gpu_type in range(len(cost)):
            reachable = cost[gpu_type, : int(left[gpu_type]) + 1]
            size = int(reachable.argmin())
            gain = demands[job].weight * float(cost[grant.gpu_type, grant.num_gpus] - reachable[size])
            if gpu_type != grant.gpu_type and gain > best_gain:
                best_gain, best_job, best_grant = gain, job, Grant(gpu_type, size)
    if best_job < 0:
        return False
    left[grants[best_job].gpu_type] += grants[best_job].num_gpus
    left[best_grant.gpu_type] -= best_grant.num_gpus
    grants[best_job] = best_grant
    return True
