"""Waiting and admitted jobs of queues as arrays, for the compiled form of `baselines.kueue.Kueue`.

Jobs of a queue with the same GPUs and priority are a class: if one is refused, the others are, too. A level is the
place of a priority among all, 0 for the most urgent.
"""

from typing import NamedTuple

import numpy as np

from baselines.kueue.compiled_tree import Quotas, use_quota
from envs.simulation.compiled.jit import leaf
from envs.simulation.world.ordered_set import insert, next_member, num_words, remove
from envs.types import BoolArray, FloatArray, IntArray


class Lines(NamedTuple):
    """Where jobs stand.

    Attributes:
        queue, level, class_of, position: int64[num_jobs].
        gpus: float64[num_jobs].
        job_at: int64[num_jobs], the job at a position; positions are by class, then by submission.
        first_class: int64[num_queues + 1], where the classes of each queue begin.
        begin: int64[num_classes + 1], where the positions of each class begin.
        class_level: int64[num_classes].
        class_gpus: float64[num_classes].
        waiting: ordered set of the positions of jobs that wait for admission.
        first: int64[num_classes], the first of these of each class; -1 for none.
        ready: ordered set of the admitted jobs that wait for GPUs.
        running: int64[words], a bit for each job that was running when the last round ended.
        admitted: bool[num_jobs].
        since: float64[num_jobs], when a job was admitted.
        newest: int64[num_queues, num_levels], the job admitted last; -1 for none.
        older, newer: int64[num_jobs], the list of admitted jobs of a queue and level.
        candidate: int64[num_classes], the first position that is still considered in this round; -1 for none.
        refused: bool[num_classes], since the last admission.
        head: int64[num_queues], class of the next job of each queue; -1 for none.
        closed: bool[num_queues], queues of which no job is considered any more in this round.
        winner: int64[num_queues], of a tournament.
        winning: float64[num_queues], the share of the best child of each.
        taken: int64[num_jobs], found by a search for victims, and `is_taken`: bool[num_jobs].
        cursor: int64[num_queues], in a search, the job of each queue that loses next; -1 for none.
        pruned, on_path, open_for: bool[num_queues], in a search: no longer looked at; above the job that asks, or its
            own; may lose jobs.
    """

    queue: IntArray
    level: IntArray
    class_of: IntArray
    position: IntArray
    gpus: FloatArray
    job_at: IntArray
    first_class: IntArray
    begin: IntArray
    class_level: IntArray
    class_gpus: FloatArray
    waiting: IntArray
    first: IntArray
    ready: IntArray
    running: IntArray
    admitted: BoolArray
    since: FloatArray
    newest: IntArray
    older: IntArray
    newer: IntArray
    candidate: IntArray
    refused: BoolArray
    head: IntArray
    closed: BoolArray
    winner: IntArray
    winning: FloatArray
    taken: IntArray
    is_taken: BoolArray
    cursor: IntArray
    pruned: BoolArray
    on_path: BoolArray
    open_for: BoolArray


def lines_of(queue: IntArray, gpus: IntArray, priority: FloatArray, num_queues: int) -> Lines:
    """Return the arrays of an episode in which no job has come.

    Args:
        queue: int64[num_jobs], the queue of each job.
        gpus: int64[num_jobs].
        priority: float64[num_jobs].
        num_queues: of the tree.
    """
    count = len(queue)
    levels, level = np.unique(-priority, return_inverse=True)
    rows = np.stack([queue, level, gpus], axis=1)
    classes, class_of = np.unique(rows, axis=0, return_inverse=True)
    class_of = class_of.reshape(-1)
    job_at = np.argsort(class_of, kind="stable")
    position = np.empty(count, np.int64)
    position[job_at] = np.arange(count)
    none = np.full(count, -1, np.int64)
    return Lines(
        queue.astype(np.int64),
        level.reshape(-1).astype(np.int64),
        class_of.astype(np.int64),
        position,
        gpus.astype(np.float64),
        job_at.astype(np.int64),
        np.searchsorted(classes[:, 0], np.arange(num_queues + 1)).astype(np.int64),
        np.concatenate([[0], np.cumsum(np.bincount(class_of, minlength=len(classes)))]).astype(np.int64),
        classes[:, 1].astype(np.int64),
        classes[:, 2].astype(np.float64),
        np.zeros(num_words(count), np.int64),
        np.full(len(classes), -1, np.int64),
        np.zeros(num_words(count), np.int64),
        np.zeros((count + 31) // 32, np.int64),
        np.zeros(count, np.bool_),
        np.zeros(count),
        np.full((num_queues, len(levels)), -1, np.int64),
        none.copy(),
        none.copy(),
        np.full(len(classes), -1, np.int64),
        np.zeros(len(classes), np.bool_),
        np.full(num_queues, -1, np.int64),
        np.zeros(num_queues, np.bool_),
        np.full(num_queues, -1, np.int64),
        np.zeros(num_queues),
        none.copy(),
        np.zeros(count, np.bool_),
        np.full(num_queues, -1, np.int64),
        np.zeros(num_queues, np.bool_),
        np.zeros(num_queues, np.bool_),
        np.zeros(num_queues, np.bool_),
    )


@leaf
def next_of_class(lines: Lines, group: int, start: int) -> int:
    """Return the first position of a class from `start` on at which a job waits; -1 for none."""
    found = next_member(lines.waiting, len(lines.job_at), start)
    return found if 0 <= found < lines.begin[group + 1] else -1


@leaf
def wait_for_admission(lines: Lines, j: int) -> None:
    """Add a job to those that wait for admission."""
    place, group = lines.position[j], lines.class_of[j]
    insert(lines.waiting, len(lines.job_at), place)
    if lines.first[group] < 0 or place < lines.first[group]:
        lines.first[group] = place


@leaf
def admit_job(tree: Quotas, lines: Lines, j: int, time: float) -> None:
    """Give a waiting job its quota."""
    place, group, queue, level = lines.position[j], lines.class_of[j], lines.queue[j], lines.level[j]
    remove(lines.waiting, len(lines.job_at), place)
    if lines.first[group] == place:
        lines.first[group] = next_of_class(lines, group, place + 1)
    before = lines.newest[queue, level]
    lines.older[j] = before
    lines.newer[j] = -1
    if before >= 0:
        lines.newer[before] = j
    lines.newest[queue, level] = j
    lines.admitted[j] = True
    lines.since[j] = time
    insert(lines.ready, len(lines.job_at), j)
    use_quota(tree, queue, lines.gpus[j])


@leaf
def return_quota(tree: Quotas, lines: Lines, j: int) -> None:
    """Take an admitted job's quota away."""
    queue, level, older, newer = lines.queue[j], lines.level[j], lines.older[j], lines.newer[j]
    if newer >= 0:
        lines.older[newer] = older
    else:
        lines.newest[queue, level] = older
    if older >= 0:
        lines.newer[older] = newer
    lines.admitted[j] = False
    use_quota(tree, queue, -lines.gpus[j])


@leaf
def has_run(lines: Lines, j: int) -> bool:
    """Return whether a job was running when the last round ended."""
    return bool((lines.running[j >> 5] >> (j & 31)) & 1)


@leaf
def note_running(lines: Lines, j: int, runs: bool) -> None:
    """Note that a job runs from now on, or no longer."""
    if runs:
        lines.running[j >> 5] |= 1 << (j & 31)
    else:
        lines.running[j >> 5] &= ~(1 << (j & 31))
