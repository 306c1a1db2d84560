"""Rounds as arrays, for compiled placing, and back."""

from collections.abc import Mapping, Sequence

import numpy as np

from baselines.parts.placing_kernels import PLACED, STAYS, STOPPED, WAITS, Floor, Plan, Scratch, Wanted
from envs.scheduling import ClusterView
from envs.simulation.ordered_set import fill_by_node, num_words
from envs.types import Allocation, FloatArray, IntArray, JobId, Placement


def gang_sizes(view: ClusterView, jobs: IntArray) -> IntArray:
    """int64[len(jobs)]: GPUs of jobs that are not resized: as requested.

    If the types on which a job runs have fewer together, the most of its range with which it runs on one type; or, if
    with none, all that they have.
    """
    cluster, sizes = view.cluster, view.num_gpus[jobs]
    whole = np.bincount(cluster.node_types, cluster.node_gpus, len(cluster.gpu_types)).astype(np.int64)
    for place in np.flatnonzero(sizes > whole.max()).tolist():
        job = int(jobs[place])
        speed = view.speed(job)
        there = int(whole[speed.max(axis=1) > 0].sum())
        if 0 < there < sizes[place]:
            runs = np.flatnonzero(speed[:, : view.max_gpus[job] + 1].max(axis=0) > 0)
            sizes[place] = runs[-1] if runs[-1] >= view.min_gpus[job] else there
    return sizes


def sizes_of(view: ClusterView, jobs: IntArray, sizes: Mapping[JobId, int] | None) -> IntArray:
    """int64[len(jobs)]: GPUs for each job; those of `gang_sizes` if `sizes` is None."""
    if sizes is None:
        return gang_sizes(view, jobs)
    return np.array([sizes[job] for job in jobs.tolist()], dtype=np.int64)


def speeds_at(view: ClusterView, jobs: IntArray, sizes: IntArray) -> FloatArray:
    """float64[len(jobs), num_gpu_types]: samples/s of each job with so many GPUs, consolidated; 0: does not run."""
    speed = view.speed
    rows = [speed(job)[:, size] for job, size in zip(jobs.tolist(), sizes.tolist(), strict=True)]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(view.cluster.gpu_types))


def fastest_first(speeds: FloatArray) -> IntArray:
    """int64[num_jobs, num_gpu_types]: the types with a positive speed, fastest first, -1 behind them; ties in order."""
    order = np.argsort(-speeds, axis=1, kind="stable")
    return np.where(np.take_along_axis(speeds, order, axis=1) > 0, order, -1)


def wanted_of(
    view: ClusterView, jobs: IntArray, sizes: IntArray, gpu_types: Mapping[JobId, Sequence[int]] | None
) -> Wanted:
    """What compiled placing needs to know of jobs; arguments as of `start_waiting`."""
    if gpu_types is None:
        types = fastest_first(speeds_at(view, jobs, sizes))
    else:
        chosen = [tuple(gpu_types[job]) for job in jobs.tolist()]
        width = max(map(len, chosen), default=0) or 1
        types = np.array([(*row, *(-1,) * (width - len(row))) for row in chosen], dtype=np.int64).reshape(-1, width)
    spanning = np.full((len(jobs), len(view.cluster.gpu_types)), -1)
    for at in np.flatnonzero(types[:, 0] < 0).tolist():
        kinds = types_to_span(view, int(jobs[at]), int(sizes[at]))
        spanning[at, : len(kinds)] = kinds
    return Wanted(sizes, types, spanning)


def types_to_span(view: ClusterView, job: JobId, size: int) -> Sequence[int]:
    """The types whose nodes a gang may take together that runs on no one type: those of its model, fastest first.

    None if one of them is large enough by itself: then more GPUs of others do not help; or if all of them are too few.
    """
    cluster = view.cluster
    peak = view.speed(job).max(axis=1)
    able = [int(kind) for kind in np.argsort(-peak, kind="stable") if peak[kind] > 0]
    holds = [int(cluster.node_gpus[cluster.node_types == kind].sum()) for kind in able]
    return able if max(holds, default=0) < size <= sum(holds) else []


def shares_of(view: ClusterView, wish: Allocation) -> IntArray:
    """int64[num_shares, 3]: (job, node, GPUs) of all that runs under a wish so far."""
    rows = view.shares if wish.keep_running else np.zeros((0, 3), np.int64)
    if wish.changes:
        changed = np.fromiter(wish.changes, np.int64, len(wish.changes))
        new = np.array(list(wish.shares()), dtype=np.int64).reshape(-1, 3)
        rows = np.concatenate([rows[~np.isin(rows[:, 0], changed)], new])
    return rows


def arrays_of(wish: Allocation, num_jobs: int, rows: IntArray | None = None) -> tuple[Floor, Plan, Scratch]:
    """The nodes, what becomes of jobs, and room to work in, for compiled placing.

    Args:
        wish: the answer under construction.
        num_jobs: jobs, in some order.
        rows: int64[num_shares, 3], what some of them hold: (place in the order, node, GPUs), ascending; None: nothing.
    """
    cluster = wish.cluster
    kinds, total = cluster.node_types.copy(), cluster.node_gpus.copy()  # kernels want arrays that can be written
    largest = np.zeros(len(cluster.gpu_types), np.int64)
    np.maximum.at(largest, kinds, total)
    rows = np.zeros((0, 3), np.int64) if rows is None else rows
    count = np.bincount(rows[:, 0], minlength=num_jobs)
    room = np.zeros((2, len(rows) + int(wish.free_gpus.sum() + rows[:, 2].sum())), np.int64)
    room[:, : len(rows)] = rows[:, 1:].T
    first = np.cumsum(count) - count
    plan = Plan(np.where(count > 0, STAYS, WAITS), first, count, room[0], room[1], np.array([len(rows)]))
    empty = [np.zeros(size, np.int64) for size in (*[cluster.num_nodes] * 2, num_jobs, num_jobs)]
    free = wish.free_gpus.copy()
    return (
        Floor(kinds, total, largest, free, rooms(kinds, free, largest), free.sum(keepdims=True)),
        plan,
        Scratch(*empty),
    )


def rooms(kinds: IntArray, free: IntArray, largest: IntArray) -> IntArray:
    """int64[num_gpu_types, most GPUs of a node + 1, words]: ordered sets of the nodes by type and free GPUs."""
    sets = np.zeros((len(largest), int(largest.max()) + 1, num_words(len(free))), np.int64)
    fill_by_node(sets, kinds, free)
    return sets


def carry_out(wish: Allocation, jobs: IntArray, plan: Plan) -> None:
    """Let a wish become what compiled placing has planned for `jobs`."""
    for job in jobs[plan.fate >= STOPPED].tolist():
        if wish.placement(job):
            wish.stop(job)
    placed = np.flatnonzero(plan.fate == PLACED)
    nodes, gpus = plan.nodes.tolist(), plan.gpus.tolist()
    spans = zip(jobs[placed].tolist(), plan.first[placed].tolist(), plan.length[placed].tolist(), strict=True)
    for job, first, count in spans:
        wish.place(job, Placement(dict(zip(nodes[first : first + count], gpus[first : first + count], strict=True))))
