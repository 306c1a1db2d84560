"""Place the shares of elastic jobs: on few nodes where there is room, else on more nodes or with fewer GPUs."""

from collections.abc import Iterator, Mapping

import numpy as np

from baselines.parts.grants import Grant
from baselines.parts.placing import Gpus, best_fit, constraints_at
from baselines.parts.scalability import AnalysedJobs
from envs.scheduling import ClusterView
from envs.types import Allocation, Configuration, JobId, Placement
from envs.types.allocation import consolidated, scattered
from envs.types.limits import find_shaped


def held_by(view: ClusterView, job: JobId) -> Grant | None:
    """Return the GPUs that a running job holds; None if they are of several types."""
    gpus = view.placement(job).gpus
    gpu_types = {int(view.cluster.node_types[node]) for node in gpus}
    return Grant(gpu_types.pop(), sum(gpus.values())) if len(gpu_types) == 1 else None


def place_shares(
    view: ClusterView,
    allocation: Allocation,
    analysed: AnalysedJobs,
    grants: Mapping[JobId, Grant],
    held: Mapping[JobId, Grant],
) -> None:
    """Place each job on its grant; jobs that hold it already stay, the others follow, largest first.

    Args:
        view: the round.
        allocation: the allocation under construction, with all running jobs at first; changed in place.
        analysed: batch sizes, and the worth of smaller sizes.
        grants: GPUs for each job that is to run; a job for which there is no room at all does not run.
        held: GPUs that running jobs hold now; jobs without a grant are stopped.
    """
    for job, grant in held.items():
        if grants.get(job) != grant:
            allocation.stop(job)
    changed = [job for job, grant in grants.items() if held.get(job) != grant]
    for job in sorted(changed, key=lambda job: (-grants[job].num_gpus, job)):
        grant = grants[job]
        gpus = best_fit(view, allocation.free_gpus, job, grant.num_gpus, (grant.gpu_type,))
        gpus = gpus or _second_best(view, allocation, analysed, job, grant, job in held)
        if gpus:
            batch = int(analysed.batches[analysed.table[job], grant.gpu_type, sum(gpus.values())])
            allocation.place(job, Placement(gpus, batch_size=batch or None))


def place_over_types(view: ClusterView, allocation: Allocation, job: JobId) -> bool:
    """Place a gang that is too large for any one type on several, at the least size of its range that fits."""
    for size in range(int(view.min_gpus[job]), int(view.max_gpus[job]) + 1):
        if gpus := best_fit(view, allocation.free_gpus, job, size, ()):
            allocation.place(job, gpus)
            return True
    return False


def _second_best(
    view: ClusterView, allocation: Allocation, analysed: AnalysedJobs, job: JobId, grant: Grant, runs: bool
) -> Gpus:
    """Find the fastest GPUs for a job whose share fits nowhere in one piece; its present GPUs if none are faster.

    The candidates are its present GPUs, the share spread over any nodes with room, and the best smaller size in one
    piece.
    """
    best, throughput = Gpus(), 0.0
    for gpus in _places(view, allocation, analysed, job, grant, runs):
        size = sum(gpus.values())
        batch = int(analysed.batches[analysed.table[job], grant.gpu_type, size])
        gpu_type = view.cluster.gpu_types[grant.gpu_type]
        faster = view.goodput(job, Configuration(gpu_type, size, len(gpus), batch_size=batch or None))
        if faster > throughput * (1 + 1e-9):
            best, throughput = gpus, faster
    return best


def _places(
    view: ClusterView, allocation: Allocation, analysed: AnalysedJobs, job: JobId, grant: Grant, runs: bool
) -> Iterator[Gpus]:
    free, cluster, asked = allocation.free_gpus, view.cluster, constraints_at(view, job)
    factors = analysed.factors[analysed.table[job], grant.gpu_type, : grant.num_gpus + 1]
    sizes = [size for size in np.argsort(-factors, kind="stable").tolist() if np.isfinite(factors[size])]
    now = dict(view.placement(job).gpus) if runs else {}
    on_type = all(cluster.node_types[node] == grant.gpu_type for node in now)
    if sum(now.values()) in sizes and on_type and allocation.has_room(job, now):
        yield now
    for find in (consolidated, scattered):  # in one piece, and spread
        found = (find_shaped(asked, free, cluster, size, grant.gpu_type, find) for size in sizes)
        yield from list(filter(None, found))[:1]
