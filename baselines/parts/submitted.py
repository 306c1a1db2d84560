"""What never changes about submitted jobs, looked up once per job and kept as arrays for the whole episode."""

import numpy as np

from baselines.parts.scalability import AnalysedJobs, usual_batches
from envs.scheduling import ClusterView
from envs.types import FloatArray, IntArray, JobId

NEGLIGIBLE = 1e-9  # gains of another batch size up to this share are rounding


class SubmittedJobs:
    """Speeds and least sizes of the jobs submitted so far, by job; belongs to one episode.

    Args:
        analysed: jobs at their best batch sizes, of the same episode. The tables then hold these where they are faster
            than the usual batch size or a job's range excludes that. None: usual ones.

    Attributes:
        speeds: float64[num_distinct, num_gpu_types, sizes], the distinct tables of `ClusterView.speed`.
        batches: int64[num_distinct, num_gpu_types, sizes], the batch sizes to name for these speeds; 0 for none.
        table: int64[num_submitted], which of them is a job's.
        least: int64[num_submitted, num_gpu_types], fewest GPUs of a type in a job's range on which it runs; 0: none.
        speed_at_least: float64[num_submitted, num_gpu_types], samples/s there; 0 if none.
    """

    def __init__(self, analysed: AnalysedJobs | None = None) -> None:
        self.analysed = analysed
        self.speeds: FloatArray = np.zeros((0, 0, 0))
        self.batches: IntArray = np.zeros((0, 0, 0), np.int64)
        self.table: IntArray = np.zeros(0, np.int64)
        self.least: IntArray = np.zeros((0, 0), np.int64)
        self.speed_at_least: FloatArray = np.zeros((0, 0))
        self._index: dict[tuple[bytes, int], int] = {}

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs that have come since the last time."""
        known, submitted = len(self.table), len(view.num_gpus)
        if known == submitted:
            return
        if self.analysed is not None:
            self.analysed.look_up(view)
        table = np.array([self._distinct(view, job) for job in range(known, submitted)], dtype=np.int64)
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

    def batch(self, job: JobId, gpu_type: int, num_gpus: int) -> int | None:
        """The batch size to name for the speed in the tables; None leaves it to the world."""
        return int(self.batches[self.table[job], gpu_type, num_gpus]) or None

    def fastest_first(self, job: JobId, num_gpus: int) -> list[int]:
        """GPU types on which a job runs with so many GPUs, by falling speed in the tables."""
        speeds = self.speeds[self.table[job], :, num_gpus]
        return [int(kind) for kind in np.argsort(-speeds, kind="stable") if speeds[kind] > 0]

    def _distinct(self, view: ClusterView, job: JobId) -> int:
        """Which of the distinct tables is a job's."""
        usual, other = view.speed(job), -1 if self.analysed is None else int(self.analysed.table[job])
        key = usual.tobytes(), other
        if key not in self._index:
            self._index[key] = len(self._index)
            speeds, batches = self._at_best(view, job, usual)
            self.speeds = np.concatenate([self.speeds.reshape(-1, *usual.shape), speeds[None]])
            self.batches = np.concatenate([self.batches.reshape(-1, *usual.shape), batches[None]])
        return self._index[key]

    def _at_best(self, view: ClusterView, job: JobId, usual: FloatArray) -> tuple[FloatArray, IntArray]:
        """A job's table and the batch sizes to name, each where it beats the usual one or the job excludes that.

        A job that runs with no batch size of its range runs at the usual one all the same.
        """
        speeds, batches = usual.copy(), np.zeros(usual.shape, np.int64)
        if self.analysed is None:
            return speeds, batches
        width, distinct = min(usual.shape[1], self.analysed.speeds.shape[2]), self.analysed.table[job]
        best, named = self.analysed.speeds[distinct, :, :width], self.analysed.batches[distinct, :, :width]
        if named.any():
            world = usual_batches(view.job(job), width - 1)
            faster = (named > 0) & (named != world) & (best > usual[:, :width] * (1 + NEGLIGIBLE))
            chosen = faster | (world == 0)
            speeds[:, :width][chosen], batches[:, :width][chosen] = best[chosen], named[chosen]
        return speeds, batches
