"""The steps of a round of Rubick on a draft: read held GPUs, place claims, grow jobs into free GPUs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from baselines.parts.placing import best_fit
from baselines.parts.ties import least_first
from baselines.rubick.curves import MIN_GAIN, NOWHERE, SensitivityCurves
from baselines.rubick.draft import Claim, DraftAllocation, Held
from envs.scheduling import ClusterView
from envs.types import Allocation, IntArray, JobId, Placement

Pays = Callable[[JobId, float], bool]  # whether a change that makes a running job faster by a factor pays off


class Growth(NamedTuple):
    """More GPUs for a job, and its gain per additional GPU as a share of its original throughput."""

    slope: float
    num_gpus: int  # held by the job now; among equal slopes the job with fewer GPUs goes first
    job: JobId
    held: Held


def read_held(view: ClusterView, curves: SensitivityCurves) -> dict[JobId, Held]:
    """Read what the running jobs hold; a gang over several types gets the type of its first node."""
    curves.look_at(view)
    found: dict[JobId, Held] = {}
    for job in view.running.tolist():
        gpus = view.placement(job).gpus
        gpu_type = int(view.cluster.node_types[min(gpus)])
        found[job] = Held(gpus, gpu_type, curves.exactly(view, job, gpu_type, sum(gpus.values()), len(gpus)))
    return found


def within_quota(draft: DraftAllocation, jobs: Iterable[JobId]) -> set[JobId]:
    """Select the guaranteed jobs, in the given order, whose minima fit their tenants' quotas together."""
    left: IntArray = draft.view.quotas.copy()
    guaranteed, tenant = draft.view.guaranteed, draft.view.tenant
    kept = set()
    for job in jobs:
        if not guaranteed[job]:
            continue
        held = draft.held[job]
        least = draft.curve(job, held.gpu_type).minimum.num_gpus or held.num_gpus
        if least <= left[tenant[job]]:
            left[tenant[job]] -= least
            kept.add(job)
    return kept


def place_minimum(draft: DraftAllocation, claim: Claim) -> bool:
    """Place a waiting job on its minimum size, on free GPUs or on GPUs that others give; return whether it fits.

    GPU types are tried from the fastest on. If a job with the same curves was refused and nothing has changed since,
    the search is skipped.
    """
    gpu_types = draft.gpu_types(claim.job)
    like = (*(id(draft.curve(claim.job, gpu_type)) for gpu_type in gpu_types), claim._replace(job=-1))
    if draft.refused.get(like) == draft.version:
        return False
    sizes = [(gpu_type, draft.curve(claim.job, gpu_type).minimum.num_gpus) for gpu_type in gpu_types]
    for gpu_type, size in sizes:
        if held := draft.find(claim.job, gpu_type, size, draft.free):
            draft.give(claim.job, held)
            return True
    for gpu_type, size in sizes:
        if held := draft.make_room(gpu_type, size, claim):
            draft.give(claim.job, held)
            return True
    draft.refused[like] = draft.version
    return False


def place_spanning(draft: DraftAllocation, jobs: Iterable[JobId]) -> None:
    """Start jobs that fit no single GPU type on several types, as requested; they are never resized."""
    for job in jobs:
        gpus = best_fit(draft.view, draft.free, job, int(draft.view.num_gpus[job]), ())
        if gpus:
            gpu_type = int(draft.view.cluster.node_types[min(gpus)])
            draft.give(job, Held(gpus, gpu_type, NOWHERE))


def grow_jobs(draft: DraftAllocation, running: Mapping[JobId, Held], pays: Pays) -> None:
    """Give free GPUs to the job that gains most per GPU, until no job gains.

    Args:
        draft: changed in place.
        running: what jobs held when the round began; for a job that still holds the same, the change must pay off.
        pays: whether a change pays off.
    """
    while draft.idle:
        possible = list(growths(draft, running, pays))
        if not possible:
            return
        best = least_first(possible, lambda one: -one.slope, lambda one: (one.num_gpus, one.job))
        draft.give(best.job, best.held)


def growths(draft: DraftAllocation, running: Mapping[JobId, Held], pays: Pays) -> Iterator[Growth]:
    """Yield every growth that is possible now and pays off, on the job's own node if it fits there."""
    for job, held in draft.held.items():
        free = draft.free.copy()
        for node, count in held.gpus.items():
            free[node] += count

        def worth(throughput: float, job: JobId = job, held: Held = held) -> bool:
            """Whether a throughput is enough of a gain, counting the restart if there is one."""
            factor = throughput / held.point.throughput if held.point.throughput > 0 else float("inf")
            return factor > 1 + MIN_GAIN and (running.get(job) is not held or pays(job, factor))

        for gpu_type in draft.gpu_types(job):
            curve = draft.curve(job, gpu_type)
            for point in curve.points:
                grows = held.num_gpus < point.num_gpus or gpu_type != held.gpu_type
                if not grows or point.num_gpus > held.num_gpus + draft.idle or not worth(point.throughput):
                    continue
                size = point.num_gpus
                found = on_own_node(draft, job, gpu_type, size) or draft.find(job, gpu_type, size, free)
                if found and worth(found.point.throughput):
                    more = max(size - held.num_gpus, 1)
                    slope = (found.point.throughput - held.point.throughput) / curve.original / more
                    yield Growth(slope, held.num_gpus, job, found)


def on_own_node(draft: DraftAllocation, job: JobId, gpu_type: int, size: int) -> Held | None:
    """More GPUs on the job's own node; None if it is on several nodes, or if they do not fit."""
    held = draft.held[job]
    if len(held.gpus) != 1 or gpu_type != held.gpu_type:
        return None
    (node,) = held.gpus
    if draft.free[node] + held.num_gpus < size:
        return None
    return Held({node: size}, gpu_type, draft.curves.exactly(draft.view, job, gpu_type, size, 1))


def build_allocation(draft: DraftAllocation, running: Mapping[JobId, Held]) -> Allocation:
    """Build the allocation from the draft; jobs that hold the same as before are left unchanged."""
    allocation = draft.view.allocation(keep_running=True)
    for job, held in running.items():
        if draft.held.get(job) is not held:
            allocation.stop(job)
    for job, held in draft.in_order().items():
        if running.get(job) is not held:
            allocation.place(job, Placement(held.gpus, plan=held.point.plan))
    return allocation
