"""From GPUs of each type to GPUs on nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baselines.parts.placing import Gpus, best_fit, pack, types_by_speed
from baselines.sampling_matching.round import Round, speed_on
from envs.scheduling import ClusterView
from envs.types import Allocation, IntArray, JobId
from envs.types.allocation import consolidated, scattered


@dataclass(frozen=True)
class Arrangement:
    """Where the jobs of a round go.

    Attributes:
        places: GPUs by node, for each row of the round; empty for a job that found no room.
        worth: jobs without a place, and the weighted sum of the others' seconds with what these places cost them.
    """

    places: Sequence[Gpus]
    worth: tuple[int, float]


def place_plan(view: ClusterView, wish: Allocation, this: Round, counts: IntArray) -> None:
    """Give every job of the round what the plan gives it; then whoever has nothing gets what is left over.

    GPUs of a type are one heap to the plan, but jobs in pieces are slow and moves cost restarts. So the plan is
    arranged in a few ways: who keeps its GPUs stays and the others go where there is room; or a job for which there is
    no room in one piece takes the place of jobs behind it, large ones first or short ones first. The arrangement that
    costs least, at speeds as they are on its nodes, is taken.

    Args:
        view: the round.
        wish: begins with everything as it runs; changed in place.
        this: the round's jobs and problem.
        counts: int64[num_admitted, num_gpu_types], the plan.
    """
    by_size = np.argsort(-counts.sum(axis=1), kind="stable").tolist()
    row = {job: at for at, job in enumerate(this.jobs.tolist())}
    by_length = [row[job] for job in this.order.tolist() if job in row]
    ways = ((by_size, False), (by_size, True), (by_length, True))
    best = min((arranged(view, this, counts, order, displace) for order, displace in ways), key=lambda way: way.worth)
    running = set(view.running.tolist())
    moves = {}
    for job, gpus in zip(this.jobs.tolist(), best.places, strict=True):
        if job not in running or gpus != view.placement(job).gpus:
            moves[job] = gpus
    for job in running:
        if job in moves or job not in row:
            wish.stop(job)
    for job, gpus in moves.items():
        if gpus:
            wish.place(job, gpus)
    place_others(view, wish, this.order.tolist())


def arranged(view: ClusterView, this: Round, counts: IntArray, order: Sequence[int], displace: bool) -> Arrangement:
    """Places for a plan, job by job.

    Args:
        view: the round.
        this: its jobs and problem.
        counts: int64[num_admitted, num_gpu_types], the plan.
        order: rows of the round in the order in which they choose.
        displace: whether a job that finds no room in one piece may take the GPUs of jobs behind it that would have
            stayed; these look for another place when their turn comes.
    """
    assert this.problem is not None
    free = view.capacity.copy()
    kept = np.zeros_like(free)  # held by jobs that would stay and have not had their turn
    here: dict[int, Gpus] = {}
    for at in np.flatnonzero(this.problem.present.any(axis=1)).tolist():
        here[at] = dict(view.placement(int(this.jobs[at])).gpus)
    stays = {at for at in here if (counts[at] == this.problem.present[at]).all()}
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
            least = int(this.problem.least[at])
            places[at] = _nodes(view, job, counts[at].tolist(), least, free, np.maximum(free - kept, 0), displace)
        _take(free, places[at], 1)
        if places[at]:
            moved = at in here and places[at] != here[at]
            seconds = this.problem.work[at] / speed_on(view, job, places[at]) + this.problem.restart[at] * moved
            total += float(this.problem.weight[at] * seconds)
        else:
            missing += 1
    return Arrangement(places, (missing, total))


def place_others(view: ClusterView, wish: Allocation, order: Sequence[JobId]) -> None:
    """Jobs that the wish does not place yet: where they run now, if that is still free, else where one type has room.

    They take what nobody else wanted, the most on which they run fastest.
    """
    placed = wish.jobs()
    running = set(view.running.tolist())
    full: set[tuple[int, int]] = set()  # (type, size) for which no room was found
    for job in order:
        if not wish.free_gpus.any():
            return
        if job in placed:
            continue
        if job in running:
            gpus = view.placement(job).gpus
            if all(wish.free_gpus[node] >= count for node, count in gpus.items()):
                wish.place(job, view.placement(job))
                continue
        _squeeze_in(view, wish, job, full)


def _squeeze_in(view: ClusterView, wish: Allocation, job: JobId, full: set[tuple[int, int]]) -> None:
    """The fastest place of one type in what is free; a job that runs on no one type takes several."""
    speed = view.speed(job)
    least, most = int(view.min_gpus[job]), min(int(view.max_gpus[job]), speed.shape[1] - 1)
    sizes = range(least, min(most, int(wish.free_gpus.sum())) + 1)
    options = [(kind, size) for size in sizes for kind in types_by_speed(view, job, size) if (kind, size) not in full]
    for kind, size in sorted(options, key=lambda option: -float(speed[option])):
        if pack(view, wish, job, size, (kind,)):
            return
        full.add((kind, size))
    if not speed[:, least : most + 1].any():
        pack(view, wish, job, least, ())


def _nodes(
    view: ClusterView, job: JobId, counts: Sequence[int], least: int, free: IntArray, spare: IntArray, displace: bool
) -> Gpus:
    """Nodes for one job's GPUs of each type, in one piece each if there is room; else what is fastest.

    That may be the same GPUs in pieces, or fewer GPUs of one type in one piece. Looks among `spare`, GPUs that nobody
    keeps, and for whole pieces also among those that jobs behind it keep, if it may displace them.
    """
    found, whole = _pieces(view, spare, counts)
    if not whole and displace:
        instead, whole = _pieces(view, free, counts)
        found = instead if whole else found
    best, best_speed = found, speed_on(view, job, found) if found else 0.0
    if whole and best_speed > 0:
        return best
    table = view.speed(job)
    for size in range(sum(counts), least - 1, -1):
        for kind in types_by_speed(view, job, size):
            if table[kind, size] > best_speed and (place := best_fit(view, spare, job, size, (kind,))):
                best, best_speed = place, float(table[kind, size])
    return best if best_speed > 0 else {}


def _pieces(view: ClusterView, free: IntArray, counts: Sequence[int]) -> tuple[Gpus, bool]:
    """GPUs by node for GPUs of each type, empty if there are too few; and whether each type's are in one piece."""
    found: Gpus = {}
    whole = True
    for kind, count in enumerate(counts):
        if count == 0:
            continue
        nodes = consolidated(free, view.cluster, count, kind)
        if nodes is None:
            whole = False
            nodes = scattered(free, view.cluster, count, kind)
        if nodes is None:
            return {}, False
        found.update(nodes)
    return found, whole


def _take(free: IntArray, gpus: Gpus, sign: int) -> None:
    """Take GPUs away from `free`, or give them back with a sign of -1."""
    for node, count in gpus.items():
        free[node] -= sign * count
