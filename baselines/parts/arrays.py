"""Convert rounds to arrays for compiled placing, and back."""

from collections.abc import Mapping, Sequence

import numpy as np

from baselines.parts.placing_kernels import PLACED, STAYS, STOPPED, WAITS, NodeArrays, PlacementOutcome, Scratch, Wanted
from envs.scheduling import ClusterView
from envs.simulation.world.ordered_set import fill_by_node, num_words
from envs.simulation.world.shapes import ALONE, shapes_of
from envs.types import Allocation, FloatArray, IntArray, JobId, Placement


def gang_sizes(view: ClusterView, jobs: IntArray) -> IntArray:
    """int64[len(jobs)]: GPUs of jobs that are not resized, as requested.

    If the types on which a job runs have fewer GPUs together than it requests, it gets the largest size of its range
    with which it runs on one type, or all GPUs of these types if there is no such size. If these are fewer than the
    least of its range, it fits nowhere.
    """
    cluster, sizes = view.cluster, view.num_gpus[jobs]
    whole = np.bincount(cluster.node_types, cluster.node_gpus, len(cluster.gpu_types)).astype(np.int64)
    for place in np.flatnonzero(sizes > whole.max()).tolist():
        job = int(jobs[place])
        throughput = view.throughputs(job)
        there = int(whole[throughput.max(axis=1) > 0].sum())
        if 0 < there < sizes[place]:
            runs = np.flatnonzero(throughput[:, : view.max_gpus[job] + 1].max(axis=0) > 0)
            sizes[place] = max(runs[-1] if runs[-1] >= view.min_gpus[job] else there, view.min_gpus[job])
    return sizes


def sizes_of(view: ClusterView, jobs: IntArray, sizes: Mapping[JobId, int] | None) -> IntArray:
    """int64[len(jobs)]: GPUs for each job; `gang_sizes` if `sizes` is None."""
    if sizes is None:
        return gang_sizes(view, jobs)
    return np.array([sizes[job] for job in jobs.tolist()], dtype=np.int64)


def throughputs_at(view: ClusterView, jobs: IntArray, sizes: IntArray) -> FloatArray:
    """float64[len(jobs), num_gpu_types]: consolidated samples/s of each job with so many GPUs; 0 if it cannot run."""
    throughput = view.throughputs
    rows = [throughput(job)[:, size] for job, size in zip(jobs.tolist(), sizes.tolist(), strict=True)]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(view.cluster.gpu_types))


def rank_types(throughputs: FloatArray) -> IntArray:
    """int64[num_jobs, num_gpu_types]: types with positive throughput, fastest first, padded with -1; ties in order."""
    order = np.argsort(-throughputs, axis=1, kind="stable")
    return np.where(np.take_along_axis(throughputs, order, axis=1) > 0, order, -1)


def wanted_of(
    view: ClusterView, jobs: IntArray, sizes: IntArray, gpu_types: Mapping[JobId, Sequence[int]] | None
) -> Wanted:
    """Collect what compiled placing needs to know about jobs; arguments as for `start_waiting`."""
    if gpu_types is None:
        types = rank_types(throughputs_at(view, jobs, sizes))
    else:
        chosen = [tuple(gpu_types[job]) for job in jobs.tolist()]
        width = max(map(len, chosen), default=0) or 1
        types = np.array([(*row, *(-1,) * (width - len(row))) for row in chosen], dtype=np.int64).reshape(-1, width)
    spanning = np.full((len(jobs), len(view.cluster.gpu_types)), -1)
    for at in np.flatnonzero(types[:, 0] < 0).tolist():
        together = types_to_span(view, int(jobs[at]), int(sizes[at]))
        spanning[at, : len(together)] = together
    return Wanted(sizes, types, spanning, shapes_at(view, jobs))


def shapes_at(view: ClusterView, jobs: IntArray) -> IntArray:
    """int64[len(jobs), 4]: what the constraints of jobs demand, see `envs.simulation.world.shapes`."""
    shapes: IntArray = shapes_of(view.models)[view.model[jobs]]
    return shapes


def types_to_span(view: ClusterView, job: JobId, size: int) -> Sequence[int]:
    """List the types that a gang which runs on no one type may span: those of its model, fastest first.

    The list is empty if one type is large enough by itself, since GPUs of others do not help then, or if all types
    together are too small, or if constraints demand a division among nodes.
    """
    cluster = view.cluster
    peak = view.throughputs(job).max(axis=1)
    able = [int(gpu_type) for gpu_type in np.argsort(-peak, kind="stable") if peak[gpu_type] > 0]
    holds = [int(cluster.node_gpus[cluster.node_types == gpu_type].sum()) for gpu_type in able]
    spans = max(holds, default=0) < size <= sum(holds) and not shapes_at(view, np.array([job]))[0, :2].any()
    return able if spans else []


def shares_of(view: ClusterView, allocation: Allocation) -> IntArray:
    """int64[num_shares, 3]: (job, node, GPUs) of all jobs that run under an allocation so far."""
    rows = view.shares if allocation.keep_running else np.zeros((0, 3), np.int64)
    if allocation.changes:
        changed = np.fromiter(allocation.changes, np.int64, len(allocation.changes))
        new = np.array(list(allocation.shares()), dtype=np.int64).reshape(-1, 3)
        rows = np.concatenate([rows[~np.isin(rows[:, 0], changed)], new])
    return rows


def arrays_of(
    allocation: Allocation, shapes: IntArray, rows: IntArray | None = None
) -> tuple[NodeArrays, PlacementOutcome, Scratch]:
    """Build the nodes, the outcome and the working memory for compiled placing.

    Args:
        allocation: the allocation under construction.
        shapes: int64[num_jobs, 4], what the constraints of jobs, in some order, demand.
        rows: int64[num_shares, 3], (place in the order, node, GPUs) of jobs that hold GPUs, ascending; None if none do.
    """
    cluster, num_jobs = allocation.cluster, len(shapes)
    node_types, total = cluster.node_types.copy(), cluster.node_gpus.copy()  # kernels need writable arrays
    largest = np.zeros(len(cluster.gpu_types), np.int64)
    np.maximum.at(largest, node_types, total)
    rows = np.zeros((0, 3), np.int64) if rows is None else rows
    count = np.bincount(rows[:, 0], minlength=num_jobs)
    room = np.zeros((2, len(rows) + cluster.num_gpus), np.int64)  # each GPU is given to another job at most once
    room[:, : len(rows)] = rows[:, 1:].T
    first = np.cumsum(count) - count
    fate, used = np.where(count > 0, STAYS, WAITS), np.array([len(rows)])
    outcome = PlacementOutcome(fate, first, count, room[0], room[1], used, shapes[:, ALONE].copy())
    empty = [np.zeros(size, np.int64) for size in (*[cluster.num_nodes] * 2, num_jobs, num_jobs)]
    free = allocation.free_gpus.copy()
    return (
        NodeArrays(node_types, total, largest, free, rooms(node_types, free, largest), free.sum(keepdims=True)),
        outcome,
        Scratch(*empty),
    )


def rooms(node_types: IntArray, free: IntArray, largest: IntArray) -> IntArray:
    """int64[num_gpu_types, most GPUs of a node + 1, words]: ordered sets of the nodes by type and free GPUs."""
    sets = np.zeros((len(largest), int(largest.max()) + 1, num_words(len(free))), np.int64)
    fill_by_node(sets, node_types, free)
    return sets


def apply_outcome(allocation: Allocation, jobs: IntArray, outcome: PlacementOutcome) -> None:
    """Write the outcome of compiled placing for `jobs` into an allocation."""
    for job in jobs[outcome.fate >= STOPPED].tolist():
        if allocation.placement(job):
            allocation.stop(job)
    placed = np.flatnonzero(outcome.fate == PLACED)
    nodes, gpus = outcome.nodes.tolist(), outcome.gpus.tolist()
    spans = zip(jobs[placed].tolist(), outcome.first[placed].tolist(), outcome.length[placed].tolist(), strict=True)
    for job, first, count in spans:
        allocation.place(
            job, Placement(dict(zip(nodes[first : first + count], gpus[first : first + count], strict=True)))
        )
