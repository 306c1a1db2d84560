"""Sharing GPUs of several types out among elastic jobs by marginal gain."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from envs.types import FloatArray, GpuSeconds, IntArray, JobId, Seconds

NEGLIGIBLE: Seconds = 1e-9  # smaller gains are rounding


@dataclass(frozen=True, slots=True)
class Grant:
    """GPUs of one type for one job."""

    gpu_type: int  # index into the cluster's types
    num_gpus: int


@dataclass(frozen=True)
class Demand:
    """What a job would make of GPUs.

    Attributes:
        cost: float64[num_gpu_types, max_gpus + 1], seconds to its end on so many GPUs of a type; infinite where it
            cannot run.
        weight: importance of its seconds.
        present: what it holds now; None if it waits.
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
    def sizable(self) -> bool:
        """Whether it runs on GPUs of one type at all."""
        return bool(np.isfinite(self.cost).any())

    @property
    def least_gpu_time(self) -> GpuSeconds:
        """GPU-seconds to its end on the fewest GPUs of the type where that is cheapest; infinite if it runs nowhere."""
        kinds = np.arange(len(self.cost))
        return float((self.cost[kinds, self.least] * np.maximum(self.least, 1)).min())


def share_out(demands: Mapping[JobId, Demand], capacity: IntArray) -> dict[JobId, Grant]:
    """Grants that make the weighted sum of costs small: least sizes, growth by gain per GPU, moves to idle types.

    Nodes are not looked at: GPUs of a type are one heap. A heuristic: gains are taken in descending order, which is
    optimal for one type and convex costs (Ibaraki and Katoh 1988, chapter 4), not in general.

    Args:
        demands: by job.
        capacity: int64[num_gpu_types], GPUs of each type.

    Returns:
        A grant for each job that gets GPUs; the GPUs of all grants of a type are at most its capacity.
    """
    left = capacity.copy()
    grants = _least_grants(demands, left)
    _grow(demands, grants, left)
    for _ in range(4 * len(grants)):  # every move lowers the sum, so this ends by itself; the bound is for time
        if not _move_one(demands, grants, left):
            break
        _grow(demands, grants, left)
    return grants


def _least_grants(demands: Mapping[JobId, Demand], left: IntArray) -> dict[JobId, Grant]:
    """The least size to as many jobs as fit, fewest GPU-seconds first; running jobs on their present type."""
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
        kinds = [kind for kind, size in enumerate(demand.least) if 0 < size <= left[kind]]
        if demand.present and demand.present.gpu_type in kinds:
            kinds = [demand.present.gpu_type]
        if kinds:
            kind = min(kinds, key=lambda kind: float(demand.cost[kind, demand.least[kind]]))
            grants[job] = Grant(kind, int(demand.least[kind]))
            left[kind] -= grants[job].num_gpus
    return grants


def _grow(demands: Mapping[JobId, Demand], grants: dict[JobId, Grant], left: IntArray) -> None:
    """GPUs of a type to whoever of those on it gains most per GPU, until nobody gains."""
    steps = [(*_best_step(demands[job], grant, left), job) for job, grant in grants.items()]
    heap = [(-gain, job, size) for gain, size, job in steps if gain > NEGLIGIBLE]
    heapq.heapify(heap)
    while heap:
        promised, job, size = heapq.heappop(heap)
        gain, best = _best_step(demands[job], grants[job], left)
        if gain >= -promised and best == size:  # still true: what is left only shrinks, and so do gains
            left[grants[job].gpu_type] -= size - grants[job].num_gpus
            grants[job] = Grant(grants[job].gpu_type, size)
            gain, best = _best_step(demands[job], grants[job], left)
        if gain > NEGLIGIBLE:
            heapq.heappush(heap, (-gain, job, best))


def _best_step(demand: Demand, grant: Grant, left: IntArray) -> tuple[float, int]:
    """The weighted gain per GPU of the best larger size within what is left, and that size; gain 0 if there is none."""
    now = grant.num_gpus
    larger = demand.cost[grant.gpu_type, now + 1 : now + 1 + int(left[grant.gpu_type])]
    if larger.size == 0:
        return 0.0, now
    gains = (demand.cost[grant.gpu_type, now] - larger) / np.arange(1, larger.size + 1)
    best = int(gains.argmax())
    return demand.weight * float(gains[best]), now + 1 + best


def _move_one(demands: Mapping[JobId, Demand], grants: dict[JobId, Grant], left: IntArray) -> bool:
    """Let the job that gains most move to idle GPUs of another type; say whether one did."""
    best_gain, best_job, best_grant = NEGLIGIBLE, -1, Grant(0, 0)
    for job, grant in grants.items():
        cost = demands[job].cost
        for kind in range(len(cost)):
            reachable = cost[kind, : int(left[kind]) + 1]
            size = int(reachable.argmin())
            gain = demands[job].weight * float(cost[grant.gpu_type, grant.num_gpus] - reachable[size])
            if kind != grant.gpu_type and gain > best_gain:
                best_gain, best_job, best_grant = gain, job, Grant(kind, size)
    if best_job < 0:
        return False
    left[grants[best_job].gpu_type] += grants[best_job].num_gpus
    left[best_grant.gpu_type] -= best_grant.num_gpus
    grants[best_job] = best_grant
    return True
