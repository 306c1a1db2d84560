"""Sizes and GPU types that jobs may have, computed once for equal jobs and kept as arrays for the whole episode."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.types import FloatArray, IntArray, JobId


@dataclass(frozen=True)
class Offer:
    """The sizes and types that a job may have.

    Attributes:
        gpu_type: int64[n], index into the cluster's types.
        num_gpus: int64[n].
        worth: float64[n], positive, in a unit that the scheduler chooses.
    """

    gpu_type: IntArray
    num_gpus: IntArray
    worth: FloatArray


@dataclass(frozen=True)
class OfferTable:
    """The offers of several jobs, one job after the other.

    Attributes:
        job: int64[n], position of the job among the requested jobs.
        gpu_type: int64[n].
        num_gpus: int64[n].
        worth: float64[n].
    """

    job: IntArray
    gpu_type: IntArray
    num_gpus: IntArray
    worth: FloatArray


OfferOf: TypeAlias = Callable[[ClusterView, JobId], Offer]  # may use only a job's tables, range and request


class OfferCache:
    """OfferCache of all jobs submitted so far; belongs to one episode.

    Jobs equal in tables, range and request form a group, and the offer is computed for the first of them only.

    Args:
        offer_of: computes the offer of a job; empty if it runs on no one type.
        submitted: the tables that offers use, looked up before the offers; None if they use those of the view.
    """

    def __init__(self, offer_of: OfferOf, submitted: SubmittedJobs | None = None) -> None:
        self._offer_of, self._submitted = offer_of, submitted
        self._group_of: dict[tuple[bytes | int, bytes], int] = {}
        self._group: IntArray = np.zeros(0, np.int64)  # group of each job
        self._first: IntArray = np.zeros(0, np.int64)  # place of each group's offer in the next arrays
        self._count: IntArray = np.zeros(0, np.int64)
        self._all = Offer(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs submitted since the last call."""
        known, submitted = len(self._group), len(view.num_gpus)
        if known == submitted:
            return
        sizes = np.column_stack([view.min_gpus[known:], view.max_gpus[known:], view.num_gpus[known:]])
        added: list[Offer] = []
        groups: list[int] = []
        for job, row in enumerate(sizes, known):
            table = None if self._submitted is None else int(self._submitted.table[job])
            key = (view.throughputs(job).tobytes() if table is None else table, row.tobytes())
            if key not in self._group_of:
                self._group_of[key] = len(self._group_of)
                added.append(self._offer_of(view, job))
            groups.append(self._group_of[key])
        self._group = np.concatenate([self._group, np.array(groups, dtype=np.int64)])
        self._count = np.append(self._count, np.array([len(offer.worth) for offer in added], dtype=np.int64))
        self._first = np.cumsum(self._count) - self._count
        self._all = Offer(
            np.concatenate([self._all.gpu_type, *(offer.gpu_type for offer in added)]),
            np.concatenate([self._all.num_gpus, *(offer.num_gpus for offer in added)]),
            np.concatenate([self._all.worth, *(offer.worth for offer in added)]),
        )

    def count(self, jobs: IntArray) -> IntArray:
        """int64[len(jobs)]: the number of offers to each of `jobs`; 0 if it runs on no one type."""
        return self._count[self._group[jobs]]

    def of(self, jobs: IntArray) -> OfferTable:
        """Return all offers to `jobs`."""
        count = self.count(jobs)
        job = np.repeat(np.arange(len(jobs)), count)
        place = np.arange(len(job)) + np.repeat(self._first[self._group[jobs]] - (np.cumsum(count) - count), count)
        return OfferTable(job, self._all.gpu_type[place], self._all.num_gpus[place], self._all.worth[place])
