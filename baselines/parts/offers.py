"""What jobs may be given, looked up once for each kind of job and kept as arrays for the whole episode."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from envs.scheduling import ClusterView
from envs.types import FloatArray, IntArray, JobId


@dataclass(frozen=True)
class Offer:
    """What a job may have.

    Attributes:
        gpu_type: int64[n], index into the cluster's types.
        num_gpus: int64[n].
        worth: float64[n], positive; in whose unit a scheduler likes.
    """

    gpu_type: IntArray
    num_gpus: IntArray
    worth: FloatArray


@dataclass(frozen=True)
class Offered:
    """The offers of several jobs, one job after the other.

    Attributes:
        job: int64[n], position of the job among those asked for.
        gpu_type: int64[n].
        num_gpus: int64[n].
        worth: float64[n].
    """

    job: IntArray
    gpu_type: IntArray
    num_gpus: IntArray
    worth: FloatArray


OfferOf: TypeAlias = Callable[[ClusterView, JobId], Offer]  # may look at a job's speeds, range and request alone


class Offers:
    """Offers of all jobs submitted so far; belongs to one episode.

    Jobs alike in speeds, range and request are of one kind, and the offer is made up for the first of them only.

    Args:
        offer_of: what a job may have; nothing at all if it runs on no one type.
    """

    def __init__(self, offer_of: OfferOf) -> None:
        self._offer_of = offer_of
        self._kinds: dict[tuple[bytes, bytes], int] = {}
        self._kind: IntArray = np.zeros(0, np.int64)  # of each job
        self._first: IntArray = np.zeros(0, np.int64)  # place of each kind's offer in the next arrays
        self._count: IntArray = np.zeros(0, np.int64)
        self._all = Offer(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs that have come since the last time."""
        known, submitted = len(self._kind), len(view.num_gpus)
        if known == submitted:
            return
        sizes = np.column_stack([view.min_gpus[known:], view.max_gpus[known:], view.num_gpus[known:]])
        added: list[Offer] = []
        kinds: list[int] = []
        for job, row in enumerate(sizes, known):
            key = (view.speed(job).tobytes(), row.tobytes())
            if key not in self._kinds:
                self._kinds[key] = len(self._kinds)
                added.append(self._offer_of(view, job))
            kinds.append(self._kinds[key])
        self._kind = np.concatenate([self._kind, np.array(kinds, dtype=np.int64)])
        self._count = np.append(self._count, np.array([len(offer.worth) for offer in added], dtype=np.int64))
        self._first = np.cumsum(self._count) - self._count
        self._all = Offer(
            np.concatenate([self._all.gpu_type, *(offer.gpu_type for offer in added)]),
            np.concatenate([self._all.num_gpus, *(offer.num_gpus for offer in added)]),
            np.concatenate([self._all.worth, *(offer.worth for offer in added)]),
        )

    def count(self, jobs: IntArray) -> IntArray:
        """int64[len(jobs)]: how much there is to choose from for each of `jobs`; 0 if it runs on no one type."""
        return self._count[self._kind[jobs]]

    def of(self, jobs: IntArray) -> Offered:
        """All that `jobs` may have."""
        count = self.count(jobs)
        job = np.repeat(np.arange(len(jobs)), count)
        place = np.arange(len(job)) + np.repeat(self._first[self._kind[jobs]] - (np.cumsum(count) - count), count)
        return Offered(job, self._all.gpu_type[place], self._all.num_gpus[place], self._all.worth[place])
