"""Which GPU type each elastic job gets its share of: admission to several types, by what an equal share is worth."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from baselines.parts.scalability import AnalysedJobs
from envs.types import FloatArray, IntArray, JobId


@dataclass(frozen=True, slots=True)
class Grant:
    """GPUs of one type for one job."""

    gpu_type: int  # index into the cluster's types
    num_gpus: int


class Room:
    """Room for the least sizes of jobs, by GPU type.

    What a type is worth to a job is the scaling factor that it would have there if all jobs on that type had the same
    number of GPUs: a stand-in for the program's shares, which depend on who else is there.

    Args:
        analysed: scaling factors of all jobs.
        capacity: int64[num_gpu_types], GPUs to share out.

    Attributes:
        kinds: the GPU type of each job admitted so far, in order of admission.
    """

    def __init__(self, analysed: AnalysedJobs, capacity: IntArray) -> None:
        self.capacity: list[int] = capacity.tolist()
        self.kinds: dict[JobId, int] = {}
        self._table: list[int] = analysed.table.tolist()
        runs = np.isfinite(analysed.factors)
        self._least: list[list[int]] = runs.argmax(axis=2).tolist()  # 0: runs on no number of GPUs of the type
        self._factors: FloatArray = np.maximum.accumulate(analysed.factors, axis=2)  # with GPUs left idle if need be
        self._left = list(self.capacity)
        self._jobs = [0] * len(self.capacity)

    def admit(self, job: JobId, present: int | None = None) -> bool:
        """Find a type with room for a job's least size, its present one if possible; say whether there is one."""
        able = self._able(job)
        if not able:
            return False
        kind = present if present in able else able[0]
        if present not in able and len(able) > 1:
            kind = max(able, key=lambda other: self._worth(job, other, self._jobs[other] + 1))
        assert kind is not None
        self._put(job, kind)
        return True

    def of_one_type(self, job: JobId) -> bool:
        """Whether a job runs on GPUs of one type at all, were they all free."""
        return any(self._least[self._table[job]])

    def take(self, gpus: IntArray) -> None:
        """Leave GPUs by type, int64[num_gpu_types], to somebody who takes no part in the sharing."""
        for kind, count in enumerate(gpus.tolist()):
            self.capacity[kind] -= count
            self._left[kind] -= count

    def rebalance(self, held: Mapping[JobId, Grant], move_gain: float) -> None:
        """Let each job in turn change to a type that is worth more to it, running ones if by so large a factor.

        Args:
            held: what running jobs hold.
            move_gain: factor for them.
        """
        if len(self.capacity) == 1:
            return
        for job, kind in list(self.kinds.items()):
            others = [other for other in self._able(job) if other != kind]
            if not others:
                continue
            best = max(others, key=lambda other: self._worth(job, other, self._jobs[other] + 1))
            stays = job in held and held[job].gpu_type == kind
            wanted = self._worth(job, kind, self._jobs[kind]) * (move_gain if stays else 1.0)
            if self._worth(job, best, self._jobs[best] + 1) > wanted:
                self._jobs[kind] -= 1
                self._left[kind] += self._least[self._table[job]][kind]
                self._put(job, best)

    def _able(self, job: JobId) -> list[int]:
        least = self._least[self._table[job]]
        return [kind for kind, left in enumerate(self._left) if 0 < least[kind] <= left]

    def _put(self, job: JobId, kind: int) -> None:
        self.kinds[job] = kind
        self._jobs[kind] += 1
        self._left[kind] -= self._least[self._table[job]][kind]

    def _worth(self, job: JobId, kind: int, num_jobs: int) -> float:
        """The factor on an equal share of a type among so many jobs."""
        distinct = self._table[job]
        share = max(self.capacity[kind] // num_jobs, self._least[distinct][kind])
        return float(self._factors[distinct, kind, min(share, self._factors.shape[2] - 1)])
