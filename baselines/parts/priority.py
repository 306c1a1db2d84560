"""Assign GPUs to jobs in an order: shared by all preemptive priority schedulers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from baselines.parts.arrays import apply_outcome, arrays_of, rank_types, shares_of, sizes_of, throughputs_at, wanted_of
from baselines.parts.placing import best_fit, first_fit, start_waiting
from baselines.parts.priority_kernels import place_by_rank
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId

SecondsLeft: TypeAlias = Callable[[IntArray, FloatArray], FloatArray]  # from running jobs and their samples/s now


def jobs_present(view: ClusterView) -> IntArray:
    """int64[num_present]: jobs that wait or run, in order of submission."""
    return np.sort(np.concatenate([view.queued, view.running]))


def ranked(jobs: IntArray, key: FloatArray) -> Sequence[JobId]:
    """Jobs by ascending key; equal keys in order of submission."""
    order: list[JobId] = jobs[np.lexsort((jobs, key))].tolist()
    return order


def keep_and_displace(view: ClusterView, order: Sequence[JobId], seconds_left: SecondsLeft) -> Allocation:
    """Run the highest ranked jobs that fit, each on its requested GPUs; running jobs stay where they are if possible.

    See `place_in_order`. On its turn a running job moves to free GPUs of a faster type if that pays for the restart.

    Args:
        view: the round.
        order: jobs by falling priority.
        seconds_left: estimates the seconds that a running job still needs where it is.
    """
    allocation = view.allocation(keep_running=True)
    place_in_order(view, allocation, order, seconds_left=seconds_left)
    return allocation


def place_in_order(
    view: ClusterView,
    allocation: Allocation,
    order: Sequence[JobId],
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
    seconds_left: SecondsLeft | None = None,
) -> None:
    """Give GPUs, in order, to the jobs of `order` that the allocation does not place yet.

    A job takes free GPUs if there is room. Otherwise it displaces jobs ranked behind it, but only those in its way. A
    displaced job looks for other GPUs when its turn comes. A job that fits nowhere is skipped. So the order is strict,
    but no job moves without need.

    The GPUs that are free or held by later jobs only become fewer from job to job. This also holds when a job moves to
    a faster type: it takes free GPUs in exchange for its own. So if one job found no room, no other job of its size and
    types does; and after the last job that holds GPUs only free ones count.

    Args:
        view: the round.
        allocation: the allocation under construction; changed in place.
        order: jobs by falling priority.
        sizes: GPUs for each job; as requested if None.
        gpu_types: GPU types for each job in order of preference; the job's own order if None.
        seconds_left: estimates the seconds that running jobs still need where they are; None: no job changes its type.
    """
    jobs = np.array(order, dtype=np.int64)
    rows = _held_by(view, allocation, jobs)
    front = int(rows[-1, 0]) + 1 if rows.size else 0
    if front:
        wanted = wanted_of(view, jobs[:front], sizes_of(view, jobs[:front], sizes), gpu_types)
        floor, outcome, scratch = arrays_of(allocation, wanted.shapes, rows)
        faster = np.zeros((0, 1), np.int64)
        if seconds_left is not None and len(view.cluster.gpu_types) > 1:
            faster = _faster_types(view, jobs[:front], rows, seconds_left)
        place_by_rank(floor, wanted, outcome, faster, scratch)
        apply_outcome(allocation, jobs[:front], outcome)
    start_waiting(view, allocation, order[front:], best_fit, sizes, gpu_types)


def _held_by(view: ClusterView, allocation: Allocation, jobs: IntArray) -> IntArray:
    """int64[num_shares, 3]: (place in `jobs`, node, GPUs) of the GPUs that they hold in the allocation, ascending."""
    place = np.full(len(view.num_gpus), -1)
    place[jobs] = np.arange(len(jobs))
    rows = shares_of(view, allocation)
    rows = np.column_stack([place[rows[:, 0]], rows[:, 1:]])
    rows = rows[rows[:, 0] >= 0]
    return rows[np.argsort(rows[:, 0], kind="stable")]


def _faster_types(view: ClusterView, jobs: IntArray, rows: IntArray, seconds_left: SecondsLeft) -> IntArray:
    """int64[len(jobs), num_gpu_types]: types where a job ends earlier, restart included, fastest first, padded with -1.

    Args:
        view: the round.
        jobs: int64[num_jobs].
        rows: int64[num_shares, 3], (place in `jobs`, node, GPUs) of the running ones, ascending.
        seconds_left: estimates the seconds that a running job still needs where it is.
    """
    held, begin = np.unique(rows[:, 0], return_index=True)
    throughputs = throughputs_at(view, jobs[held], np.add.reduceat(rows[:, 2], begin))
    here = throughputs[np.searchsorted(held, rows[:, 0]), view.cluster.node_types[rows[:, 1]]]
    now = np.minimum.reduceat(here, begin)
    able = np.flatnonzero((now > 0) & (throughputs.max(axis=1) > now))
    held, throughputs, now = held[able], throughputs[able], now[able]
    left, restart = seconds_left(jobs[held], now), view.restart_delay[jobs[held]]
    saved = left[:, None] * (1 - now[:, None] / np.where(throughputs > 0, throughputs, now[:, None]))
    faster = np.full((len(jobs), throughputs.shape[1]), -1)
    faster[held] = rank_types(np.where((throughputs > 0) & (saved > restart[:, None]), throughputs, 0.0))
    return faster


def plan_anew(view: ClusterView, order: Sequence[JobId]) -> Allocation:
    """Place the highest ranked jobs that fit, each on its requested GPUs, as if the cluster were empty.

    A job of at most a node's GPUs takes the first node with room, a larger one the first wholly free nodes; a job that
    does not fit is skipped. These are the rules of Muri's simulator (SIGCOMM'22 artifact). They move jobs freely, which
    costs nothing only where restarts cost nothing.
    """
    allocation = view.allocation()
    start_waiting(view, allocation, order, first_fit)
    return allocation
