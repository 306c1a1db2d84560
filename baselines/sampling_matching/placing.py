"""Placement of a matching: from GPUs of each type to GPUs on nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baselines.parts.grants import held_gpus
from baselines.parts.placing import Gpus, best_fit, pack, types_by_throughput
from baselines.parts.ties import least_first, less, merge_ties
from baselines.sampling_matching.round import MatchingRound
from envs.scheduling import ClusterView
from envs.types import Allocation, IntArray, JobId
from envs.types.allocation import consolidated, scattered


@dataclass(frozen=True)
class Arrangement:
    """Placement of the jobs of a round.

    Attributes:
        places: GPUs by node for each row of the round; empty for a job that does not fit.
        worth: number of jobs without a place, and the weighted sum of the other jobs' seconds on these places.
    """

    places: Sequence[Gpus]
    worth: tuple[int, float]


def place_matching(view: ClusterView, allocation: Allocation, this: MatchingRound, counts: IntArray) -> None:
    """Place every job of the round as planned, then give left-over GPUs to the other jobs.

    The matching counts GPUs of a type without their nodes, but jobs in pieces are slow and moves cost restarts. So it
    is arranged in three ways. In the first, jobs that keep their GPUs stay, and the others go where there is room. In
    the other two, a job that does not fit in one piece takes the place of later jobs, ordered by size or by length. The
    arrangement with the least cost, at the throughputs on its nodes, is taken.

    Args:
        view: the round.
        allocation: starts with the running jobs; changed in place.
        this: the round's jobs and problem.
        counts: int64[num_admitted, num_gpu_types], the matching.
    """
    by_size = np.argsort(-counts.sum(axis=1), kind="stable").tolist()
    row = {job: at for at, job in enumerate(this.jobs.tolist())}
    by_length = [row[job] for job in this.order.tolist() if job in row]
    ways = ((by_size, False), (by_size, True), (by_length, True))
    arrangements = [arranged(view, this, counts, order, displace) for order, displace in ways]
    fewest = min(way.worth[0] for way in arrangements)
    best = least_first([way for way in arrangements if way.worth[0] == fewest], lambda way: way.worth[1])
    held = held_gpus(view)
    moves = {job: gpus for job, gpus in zip(this.jobs.tolist(), best.places, strict=True) if gpus != held.get(job)}
    for job in set(held):
        if job in moves or job not in row:
            allocation.stop(job)
    for job, gpus in moves.items():
        if gpus:
            allocation.place(job, gpus)
    place_others(view, allocation, this.order.tolist())


def arranged(
    view: ClusterView, this: MatchingRound, counts: IntArray, order: Sequence[int], displace: bool
) -> Arrangement:
    """Arrange a matching on nodes, job by job.

    Args:
        view: the round.
        this: the round's jobs and problem.
        counts: int64[num_admitted, num_gpu_types], the matching.
        order: rows of the round in the order of placement.
        displace: whether a job that does not fit in one piece may take the GPUs of later jobs that would have stayed;
            these look for another place at their turn.
    """
    assert this.problem is not None
    free = view.capacity.copy()
    kept = np.zeros_like(free)  # held by staying jobs that have not had their turn
    held = held_gpus(view)
    here = {at: held[job] for at, job in enumerate(this.jobs.tolist()) if job in held}
    same = (counts == this.problem.present).all(axis=1)
    stays = {at for at in here if same[at]}
    for at in stays:
        _take(kept, here[at], -1)
    places: list[Gpus] = [{} for _ in order]
    missing, total = 0, 0.0
    for at in order:
        job = int(this.jobs[at])
        if at in stays:
            _take(kept, here[at], 1)
        if at in stays and all(free[node] >= gpus for node, gpus in here[at].items()):
            places[at] = here[at]
        else:
            places[at] = _nodes(view, this, at, counts[at].tolist(), free, np.maximum(free - kept, 0), displace)
        throughput = this.gang_throughput(view, job, places[at]) if places[at] else 0.0
        if not throughput > 0:
            places[at] = {}  # the job does not run there
        _take(free, places[at], 1)
        if places[at]:
            moved = at in here and places[at] != here[at]
            seconds = this.problem.work[at] / throughput + this.problem.restart[at] * moved
            total += float(this.problem.weight[at] * seconds)
        else:
            missing += 1
    return Arrangement(places, (missing, total))


def place_others(view: ClusterView, allocation: Allocation, order: Sequence[JobId]) -> None:
    """Place jobs that the allocation does not place yet: where they run now if still free, else on one type.

    They take left-over GPUs, at the size and type on which they run fastest.
    """
    placed = allocation.jobs()
    running = set(view.running.tolist())
    full: set[tuple[int, int]] = set()  # (type, size) that did not fit
    for job in order:
        if not allocation.free_gpus.any():
            return
        if job in placed:
            continue
        if job in running:
            gpus = view.placement(job).gpus
            if allocation.has_room(job, gpus):
                allocation.place(job, view.placement(job))
                continue
        _squeeze_in(view, allocation, job, full)


def _squeeze_in(view: ClusterView, allocation: Allocation, job: JobId, full: set[tuple[int, int]]) -> None:
    """Place a job on the free GPUs of the type where it is fastest; a job that fits no single type takes several."""
    throughput = merge_ties(view.throughputs(job))
    least, most = int(view.min_gpus[job]), min(int(view.max_gpus[job]), throughput.shape[1] - 1)
    sizes = range(least, min(most, int(allocation.free_gpus.sum())) + 1)
    options = [
        (gpu_type, size)
        for size in sizes
        for gpu_type in types_by_throughput(view, job, size)
        if (gpu_type, size) not in full
    ]
    for gpu_type, size in sorted(options, key=lambda option: -float(throughput[option])):
        if pack(view, allocation, job, size, (gpu_type,)):
            return
        full.add((gpu_type, size))
    if not throughput[:, least : most + 1].any():
        pack(view, allocation, job, least, ())


def _nodes(
    view: ClusterView,
    this: MatchingRound,
    at: int,
    counts: Sequence[int],
    free: IntArray,
    spare: IntArray,
    displace: bool,
) -> Gpus:
    """Nodes for one job's GPUs of each type, each type in one piece if it fits; else the fastest alternative.

    The alternatives are the same GPUs in pieces, or fewer GPUs of one type in one piece. The search uses `spare`, the
    GPUs that no job keeps; with `displace` whole pieces may also use GPUs that later jobs keep.
    """
    assert this.problem is not None
    job, least = int(this.jobs[at]), int(this.problem.least[at])
    found, whole = _pieces(view, spare, counts)
    if not whole and displace:
        instead, whole = _pieces(view, free, counts)
        found = instead if whole else found
    best, best_throughput = found, this.gang_throughput(view, job, found) if found else 0.0
    if whole and best_throughput > 0:
        return best
    table = view.throughputs(job)
    for size in range(sum(counts), least - 1, -1):
        for gpu_type in types_by_throughput(view, job, size):
            if less(best_throughput, table[gpu_type, size]) and (
                place := best_fit(view, spare, job, size, (gpu_type,))
            ):
                best, best_throughput = place, float(table[gpu_type, size])
    return best if best_throughput > 0 else {}


def _pieces(view: ClusterView, free: IntArray, counts: Sequence[int]) -> tuple[Gpus, bool]:
    """GPUs by node for GPUs of each type, empty if too few; and whether each type is in one piece."""
    found: Gpus = {}
    whole = True
    for gpu_type, count in enumerate(counts):
        if count == 0:
            continue
        nodes = consolidated(free, view.cluster, count, gpu_type)
        if nodes is None:
            whole = False
            nodes = scattered(free, view.cluster, count, gpu_type)
        if nodes is None:
            return {}, False
        found.update(nodes)
    return found, whole


def _take(free: IntArray, gpus: Gpus, sign: int) -> None:
    """Subtract GPUs from `free`, or add them with a sign of -1."""
    for node, count in gpus.items():
        free[node] -= sign * count
