"""From an order of jobs to GPUs: what every preemptive priority scheduler shares."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from baselines.parts.arrays import arrays_of, carry_out, fastest_first, shares_of, sizes_of, speeds_at, wanted_of
from baselines.parts.placing import best_fit, first_fit, start_waiting
from baselines.parts.priority_kernels import place_by_rank
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId

SecondsLeft: TypeAlias = Callable[[IntArray, FloatArray], FloatArray]  # of running jobs, at their samples/s now


def jobs_present(view: ClusterView) -> IntArray:
    """int64[num_present]: jobs that wait or run, in order of submission."""
    return np.sort(np.concatenate([view.queued, view.running]))


def ranked(jobs: IntArray, key: FloatArray) -> Sequence[JobId]:
    """Jobs by ascending key; equal keys in order of submission."""
    order: list[JobId] = jobs[np.lexsort((jobs, key))].tolist()
    return order


def keep_and_displace(view: ClusterView, order: Sequence[JobId], seconds_left: SecondsLeft) -> Allocation:
    """The highest ranked jobs that fit, each on its requested GPUs; running jobs stay where they are if they can.

    See `place_in_order`. On its turn a running job moves to free GPUs of a faster type if that pays for the restart.

    Args:
        view: the round.
        order: jobs by falling priority.
        seconds_left: what a running job is taken to need yet where it is.
    """
    wish = view.allocation(keep_running=True)
    place_in_order(view, wish, order, seconds_left=seconds_left)
    return wish


def place_in_order(
    view: ClusterView,
    wish: Allocation,
    order: Sequence[JobId],
    sizes: Mapping[JobId, int] | None = None,
    gpu_types: Mapping[JobId, Sequence[int]] | None = None,
    seconds_left: SecondsLeft | None = None,
) -> None:
    """Give GPUs to the jobs of `order` that the wish does not place yet, first come first.

    A job takes free GPUs if it can. Else it displaces jobs ranked behind it, and of those only the ones that are
    in its way; a displaced job looks for another place when its turn comes. A job that fits nowhere is skipped.
    So the order is strict, but no job moves without need.

    What is free or held by jobs not passed yet only becomes less on the way, also when a job moves up: it takes free
    GPUs for those that counted as its own. So where one job found no room, another of its size and types finds none;
    and behind the last job that holds GPUs only the free ones count.

    Args:
        view: the round.
        wish: the answer under construction; changed in place.
        order: jobs by falling priority.
        sizes: GPUs for each job; as requested if None.
        gpu_types: GPU types for each job in order of preference; the job's own order if None.
        seconds_left: for running jobs that may move to a faster type, what they need yet where they are.
    """
    jobs = np.array(order, dtype=np.int64)
    rows = _held_by(view, wish, jobs)
    front = int(rows[-1, 0]) + 1 if rows.size else 0
    if front:
        wanted = wanted_of(view, jobs[:front], sizes_of(view, jobs[:front], sizes), gpu_types)
        floor, plan, scratch = arrays_of(wish, front, rows)
        faster = np.zeros((0, 1), np.int64)
        if seconds_left is not None and len(view.cluster.gpu_types) > 1:
            faster = _faster_types(view, jobs[:front], rows, seconds_left)
        place_by_rank(floor, wanted, plan, faster, scratch)
        carry_out(wish, jobs[:front], plan)
    start_waiting(view, wish, order[front:], best_fit, sizes, gpu_types)


def _held_by(view: ClusterView, wish: Allocation, jobs: IntArray) -> IntArray:
    """int64[num_shares, 3]: (place in `jobs`, node, GPUs) of what they hold under the wish so far, ascending."""
    place = np.full(len(view.num_gpus), -1)
    place[jobs] = np.arange(len(jobs))
    rows = shares_of(view, wish)
    rows = np.column_stack([place[rows[:, 0]], rows[:, 1:]])
    rows = rows[rows[:, 0] >= 0]
    return rows[np.argsort(rows[:, 0], kind="stable")]


def _faster_types(view: ClusterView, jobs: IntArray, rows: IntArray, seconds_left: SecondsLeft) -> IntArray:
    """int64[len(jobs), num_gpu_types]: types, fastest first and then -1, where a job ends earlier, restart included.

    Args:
        view: the round.
        jobs: int64[num_jobs].
        rows: int64[num_shares, 3], what those of them that run hold: (place in `jobs`, node, GPUs), ascending.
        seconds_left: what a running job is taken to need yet where it is.
    """
    held, begin = np.unique(rows[:, 0], return_index=True)
    speeds = speeds_at(view, jobs[held], np.add.reduceat(rows[:, 2], begin))
    here = speeds[np.searchsorted(held, rows[:, 0]), view.cluster.node_types[rows[:, 1]]]
    now = np.minimum.reduceat(here, begin)
    able = np.flatnonzero((now > 0) & (speeds.max(axis=1) > now))
    held, speeds, now = held[able], speeds[able], now[able]
    left, restart = seconds_left(jobs[held], now), view.restart_delay[jobs[held]]
    saved = left[:, None] * (1 - now[:, None] / np.where(speeds > 0, speeds, now[:, None]))
    faster = np.full((len(jobs), speeds.shape[1]), -1)
    faster[held] = fastest_first(np.where((speeds > 0) & (saved > restart[:, None]), speeds, 0.0))
    return faster


def plan_anew(view: ClusterView, order: Sequence[JobId]) -> Allocation:
    """The highest ranked jobs that fit, each on its requested GPUs, placed as if the cluster were empty.

    A job of at most a node's GPUs takes the first node with room, a larger one the first wholly free nodes; a job
    that does not fit is skipped. These are the rules of Muri's
    simulator (SIGCOMM'22 artifact); they move jobs at will, which is free of charge only where restarts are.
    """
    wish = view.allocation()
    start_waiting(view, wish, order, first_fit)
    return wish
