"""What never changes about submitted jobs, looked up once per job and kept as arrays for the whole episode."""

import numpy as np

from envs.scheduling import ClusterView
from envs.types import FloatArray, IntArray


class SubmittedJobs:
    """Speeds and least sizes of the jobs submitted so far, by job; belongs to one episode.

    Attributes:
        speeds: float64[num_distinct, num_gpu_types, sizes], the distinct tables of `ClusterView.speed`.
        table: int64[num_submitted], which of them is a job's.
        least: int64[num_submitted, num_gpu_types], fewest GPUs of a type in a job's range on which it runs; 0: none.
        speed_at_least: float64[num_submitted, num_gpu_types], samples/s there; 0 if none.
    """

    def __init__(self) -> None:
        self.speeds: FloatArray = np.zeros((0, 0, 0))
        self.table: IntArray = np.zeros(0, np.int64)
        self.least: IntArray = np.zeros((0, 0), np.int64)
        self.speed_at_least: FloatArray = np.zeros((0, 0))
        self._index: dict[bytes, int] = {}

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs that have come since the last time."""
        known, submitted = len(self.table), len(view.num_gpus)
        if known == submitted:
            return
        rows = [view.speed(job) for job in range(known, submitted)]
        for row in rows:
            if row.tobytes() not in self._index:
                self._index[row.tobytes()] = len(self._index)
                self.speeds = np.concatenate([self.speeds.reshape(-1, *row.shape), row[None]])
        table = np.array([self._index[row.tobytes()] for row in rows], dtype=np.int64)
        speeds = self.within_range(self.speeds[table], view.min_gpus[known:], view.max_gpus[known:])
        least = (speeds > 0).argmax(axis=2)
        at_least = np.take_along_axis(speeds, least[:, :, None], axis=2)[:, :, 0]
        self.table = np.concatenate([self.table, table])
        self.least = np.concatenate([self.least.reshape(-1, least.shape[1]), least])
        self.speed_at_least = np.concatenate([self.speed_at_least.reshape(-1, least.shape[1]), at_least])

    @staticmethod
    def within_range(speeds: FloatArray, least: IntArray, most: IntArray) -> FloatArray:
        """`speeds` float64[num_jobs, num_gpu_types, sizes] with 0 for sizes out of each job's elastic range."""
        sizes = np.arange(speeds.shape[2])
        inside = (sizes >= least[:, None]) & (sizes <= most[:, None])
        kept: FloatArray = np.where(inside[:, None, :], speeds, 0.0)
        return kept

    def speed(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """float64[len(jobs), num_gpu_types, sizes]: samples/s within each job's range, 0 elsewhere."""
        return self.within_range(self.speeds[self.table[jobs]], view.min_gpus[jobs], view.max_gpus[jobs])
