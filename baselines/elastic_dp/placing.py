"""Nodes for the shares of elastic jobs: few nodes where there is room, else more of them or fewer GPUs."""

from collections.abc import Iterator, Mapping

import numpy as np

from baselines.elastic_dp.types import Grant
from baselines.parts.placing import Gpus, best_fit
from baselines.parts.scalability import AnalysedJobs
from envs.scheduling import ClusterView
from envs.types import Allocation, JobId, Placement
from envs.types.allocation import consolidated, scattered


def held_by(view: ClusterView, job: JobId) -> Grant | None:
    """What a running job holds; None if its GPUs are of several types."""
    gpus = view.placement(job).gpus
    kinds = {int(view.cluster.node_types[node]) for node in gpus}
    return Grant(kinds.pop(), sum(gpus.values())) if len(kinds) == 1 else None


def place(
    view: ClusterView,
    wish: Allocation,
    analysed: AnalysedJobs,
    grants: Mapping[JobId, Grant],
    held: Mapping[JobId, Grant],
) -> None:
    """Let every job run on what it is granted; jobs that hold that already stay, the largest of the others go first.

    Args:
        view: the round.
        wish: the answer under construction, with everything as it runs now; changed in place.
        analysed: batch sizes, and what smaller sizes are worth.
        grants: GPUs for each job that is to run; a job for which there is no room at all does not.
        held: what running jobs hold now; those without a grant are stopped.
    """
    for job, grant in held.items():
        if grants.get(job) != grant:
            wish.stop(job)
    changed = [job for job, grant in grants.items() if held.get(job) != grant]
    for job in sorted(changed, key=lambda job: (-grants[job].num_gpus, job)):
        grant = grants[job]
        gpus = consolidated(wish.free_gpus, view.cluster, grant.num_gpus, grant.gpu_type)
        gpus = gpus or _second_best(view, wish, analysed, job, grant, job in held)
        if gpus:
            batch = int(analysed.batches[analysed.table[job], grant.gpu_type, sum(gpus.values())])
            wish.place(job, Placement(gpus, batch_size=batch or None))


def place_over_types(view: ClusterView, wish: Allocation, job: JobId) -> bool:
    """Place a gang that is too large for any one type on several, at the least size of its range that runs."""
    for size in range(int(view.min_gpus[job]), int(view.max_gpus[job]) + 1):
        if gpus := best_fit(view, wish.free_gpus, job, size, ()):
            wish.place(job, gpus)
            return True
    return False


def _second_best(
    view: ClusterView, wish: Allocation, analysed: AnalysedJobs, job: JobId, grant: Grant, runs: bool
) -> Gpus:
    """The fastest place for a job whose share is nowhere in one piece; where it is now if nothing is faster.

    Tried are where it runs, the share spread over whatever nodes have room, and the best smaller size in one piece.
    """
    best, speed = Gpus(), 0.0
    for gpus in _places(view, wish, analysed, job, grant, runs):
        size = sum(gpus.values())
        batch = int(analysed.batches[analysed.table[job], grant.gpu_type, size])
        faster = view.throughput(job, grant.gpu_type, size, len(gpus), batch_size=batch or None)
        if faster > speed * (1 + 1e-9):
            best, speed = gpus, faster
    return best


def _places(
    view: ClusterView, wish: Allocation, analysed: AnalysedJobs, job: JobId, grant: Grant, runs: bool
) -> Iterator[Gpus]:
    free, cluster = wish.free_gpus, view.cluster
    factors = analysed.factors[analysed.table[job], grant.gpu_type, : grant.num_gpus + 1]
    sizes = [size for size in np.argsort(-factors, kind="stable").tolist() if np.isfinite(factors[size])]
    now = dict(view.placement(job).gpus) if runs else {}
    if sum(now.values()) in sizes and all(
        cluster.node_types[node] == grant.gpu_type and free[node] >= count for node, count in now.items()
    ):
        yield now
    in_one_piece = (consolidated(free, cluster, size, grant.gpu_type) for size in sizes)
    yield from list(filter(None, in_one_piece))[:1]
    spread = (scattered(free, cluster, size, grant.gpu_type) for size in sizes)
    yield from list(filter(None, spread))[:1]
