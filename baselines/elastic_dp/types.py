"""Choose the GPU type of each elastic job: admission to several types by the worth of an equal share."""

from collections.abc import Mapping

import numpy as np

from baselines.parts.grants import Grant
from baselines.parts.scalability import AnalysedJobs
from envs.types import FloatArray, IntArray, JobId


class TypeCapacity:
    """GPUs of each type that are left for the least sizes of jobs.

    The worth of a type to a job is the scaling factor that it would have there if all jobs on that type had the same
    number of GPUs. This approximates the program's shares, which depend on the other jobs.

    Args:
        analysed: scaling factors of all jobs.
        capacity: int64[num_gpu_types], GPUs to share out.

    Attributes:
        gpu_types: the GPU type of each job admitted so far, in order of admission.
    """

    def __init__(self, analysed: AnalysedJobs, capacity: IntArray) -> None:
        self.capacity: list[int] = capacity.tolist()
        self.gpu_types: dict[JobId, int] = {}
        self._table: list[int] = analysed.table.tolist()
        runs = np.isfinite(analysed.factors)
        self._least: list[list[int]] = runs.argmax(axis=2).tolist()  # 0: does not run on the type
        self._factors: FloatArray = np.maximum.accumulate(analysed.factors, axis=2)  # a job may leave GPUs idle
        self._left = list(self.capacity)
        self._jobs = [0] * len(self.capacity)

    def admit(self, job: JobId, present: int | None = None) -> bool:
        """Admit a job to a type with room for its least size, if possible its present one; return whether it fits."""
        able = self._able(job)
        if not able:
            return False
        gpu_type = present if present in able else able[0]
        if present not in able and len(able) > 1:
            gpu_type = max(able, key=lambda other: self._worth(job, other, self._jobs[other] + 1))
        assert gpu_type is not None
        self._put(job, gpu_type)
        return True

    def of_one_type(self, job: JobId) -> bool:
        """Whether a job can run on GPUs of one type if all of them are free."""
        return any(self._least[self._table[job]])

    def take(self, gpus: IntArray) -> None:
        """Reserve GPUs by type, int64[num_gpu_types], for a job that takes no part in the sharing."""
        for gpu_type, count in enumerate(gpus.tolist()):
            self.capacity[gpu_type] -= count
            self._left[gpu_type] -= count

    def rebalance(self, held: Mapping[JobId, Grant], move_gain: float) -> None:
        """Move each job in turn to a type that is worth more to it, for running jobs by the factor `move_gain`.

        Args:
            held: GPUs that running jobs hold.
            move_gain: factor for running jobs.
        """
        if len(self.capacity) == 1:
            return
        for job, gpu_type in list(self.gpu_types.items()):
            others = [other for other in self._able(job) if other != gpu_type]
            if not others:
                continue
            best = max(others, key=lambda other: self._worth(job, other, self._jobs[other] + 1))
            stays = job in held and held[job].gpu_type == gpu_type
            wanted = self._worth(job, gpu_type, self._jobs[gpu_type]) * (move_gain if stays else 1.0)
            if self._worth(job, best, self._jobs[best] + 1) > wanted:
                self._jobs[gpu_type] -= 1
                self._left[gpu_type] += self._least[self._table[job]][gpu_type]
                self._put(job, best)

    def _able(self, job: JobId) -> list[int]:
        least = self._least[self._table[job]]
        return [gpu_type for gpu_type, left in enumerate(self._left) if 0 < least[gpu_type] <= left]

    def _put(self, job: JobId, gpu_type: int) -> None:
        self.gpu_types[job] = gpu_type
        self._jobs[gpu_type] += 1
        self._left[gpu_type] -= self._least[self._table[job]][gpu_type]

    def _worth(self, job: JobId, gpu_type: int, num_jobs: int) -> float:
        """Return the scaling factor on an equal share of a type among so many jobs."""
        distinct = self._table[job]
        share = max(self.capacity[gpu_type] // num_jobs, self._least[distinct][gpu_type])
        return float(self._factors[distinct, gpu_type, min(share, self._factors.shape[2] - 1)])
