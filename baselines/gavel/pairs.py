"""Columns of Gavel's programs: each class of equal jobs alone, and pairs of classes on the same GPUs (OSDI'20, 3.1)."""

import math
from dataclasses import dataclass

import numpy as np

from envs.types import FloatArray, IntArray


@dataclass(frozen=True)
class PairRule:
    """Which two jobs of equal size a program may put on the same GPUs.

    Attributes:
        models: int64[num_jobs], the model of each job.
        factors: float64[num_gpu_types, num_models, num_models], what a job keeps of its throughput beside another one.
        least_together: the least sum of what the two keep; 1 is what they reach in turns.
        most_partners: of each class of equal jobs so many partners count, those with the largest sums; a pair counts if
            it is among those of one of the two. So the columns grow with the jobs, and not with their square.
    """

    models: IntArray
    factors: FloatArray
    least_together: float
    most_partners: int


@dataclass(frozen=True)
class Columns:
    """Columns of a program; each has one variable for each GPU type.

    An entry says what a class of jobs has of a column. The variable of a class alone is the share of time of each of
    its jobs; that of a pair is the time of all pairs of such jobs together.

    Attributes:
        gpus: int64[num_columns], GPUs that a variable of 1 takes.
        job: int64[num_entries], the class of each entry.
        column: int64[num_entries], its column.
        part: float64[num_entries], the share of its time that each job of the class spends there.
        gain: float64[num_entries, num_gpu_types], the gain of each job of the class.
        pairs: int64[num_pairs, 2], the classes of the last columns, the lower one first.
    """

    gpus: IntArray
    job: IntArray
    column: IntArray
    part: FloatArray
    gain: FloatArray
    pairs: IntArray


def alone(gain: FloatArray, gpus: IntArray, count: IntArray) -> Columns:
    """Columns of the classes alone.

    Args:
        gain: float64[num_classes, num_gpu_types], gain of a job that spends all its time on a type.
        gpus: int64[num_classes], GPUs of each job.
        count: int64[num_classes], jobs of each class.
    """
    each = np.arange(len(gpus))
    return Columns(gpus * count, each, each, np.ones(len(gpus)), gain, np.zeros((0, 2), np.int64))


def with_pairs(gain: FloatArray, gpus: IntArray, count: IntArray, rule: PairRule) -> Columns:
    """Columns of the classes alone and of all pairs that the rule allows; `rule.models` are those of the classes."""
    single = alone(gain, gpus, count)
    one, other = np.triu_indices(len(gpus))
    able = (gpus[one] == gpus[other]) & ((one != other) | (count[one] > 1))
    one, other = one[able], other[able]
    models = rule.models[one], rule.models[other]
    beside = rule.factors[:, models[0], models[1]].T, rule.factors[:, models[1], models[0]].T
    runs = (beside[0] > 0) & (beside[1] > 0) & (gain[one] > 0) & (gain[other] > 0)
    together = np.where(runs, beside[0] + beside[1], 0.0)
    together[together < rule.least_together] = 0.0
    near = _best_partners(one, other, together.max(axis=1, initial=0.0), rule.most_partners)
    one, other, usable = one[near], other[near], together[near] > 0
    kept, left = (each[near] * usable for each in beside)
    column = np.arange(len(one)) + len(gpus)
    mixed = one != other  # a class beside itself has one entry, for both jobs
    part = np.where(mixed, 1.0, 2.0) / count[one]
    back = 1.0 / count[other]
    return Columns(
        np.concatenate([single.gpus, gpus[one]]),
        np.concatenate([single.job, one, other[mixed]]),
        np.concatenate([single.column, column, column[mixed]]),
        np.concatenate([single.part, part, back[mixed]]),
        np.concatenate([gain, gain[one] * kept * part[:, None], (gain[other] * left * back[:, None])[mixed]]),
        np.column_stack([one, other]),
    )


def _best_partners(one: IntArray, other: IntArray, value: FloatArray, most: int) -> IntArray:
    """Places, ascending, of the pairs of positive value that are among the `most` largest of one of their classes."""
    place = np.flatnonzero(value > 0)
    mixed = place[one[place] != other[place]]
    job, pair = np.concatenate([one[place], other[mixed]]), np.concatenate([place, mixed])
    order = np.lexsort((pair, -value[pair], job))
    job, pair = job[order], pair[order]
    rank = np.arange(len(job)) - np.searchsorted(job, job)
    return np.unique(pair[rank < most])


def split_pair(time: FloatArray, one: IntArray, other: IntArray) -> tuple[IntArray, FloatArray]:
    """Divide the time of two classes beside each other among few pairs of their jobs; equal jobs have equal time.

    Different classes are laid side by side over one unit of length, each divided equally among its jobs; two jobs are
    together for the length that they share. Jobs of one class are paired in order; the last three of an odd number
    share their time equally.

    Args:
        time: float64[num_gpu_types], time of all pairs together.
        one: int64[any], jobs of one class, ascending.
        other: int64[any], those of the other one; the same for a class beside itself, of two jobs or more.

    Returns:
        int64[num_pairs, 2], jobs; and float64[num_pairs, num_gpu_types], the time of each pair.
    """
    if not np.array_equal(one, other):
        whole = math.lcm(len(one), len(other))
        marks = np.union1d(np.arange(0, whole, whole // len(one)), np.arange(0, whole, whole // len(other)))
        pairs = np.column_stack([one[marks * len(one) // whole], other[marks * len(other) // whole]])
        length = np.diff(marks, append=whole) / whole
    else:
        couples, last = np.split(one, [len(one) - 3 * (len(one) % 2)])
        triangle = last[[0, 1, 0, 2, 1, 2]] if last.size else last
        pairs = np.concatenate([couples, triangle]).reshape(-1, 2)
        length = np.where(np.arange(len(pairs)) < len(couples) // 2, 2.0, 1.0) / len(one)
    return pairs, length[:, None] * time
