"""Properties of submitted jobs, looked up once per job and kept as arrays until beliefs about throughputs change."""

from dataclasses import replace

import numpy as np

from baselines.parts.scalability import AnalysedJobs, usual_batches
from envs.scheduling import ClusterView
from envs.types import Allocation, FloatArray, IntArray, JobId

_NEGLIGIBLE = 1e-9  # relative gains of another batch size up to this are rounding


class SubmittedJobs:
    """Throughputs and least sizes of the jobs submitted so far, by job; belongs to one episode.

    Args:
        analysed: the jobs of the same episode at their best batch sizes. The tables then hold the goodput at the
            best batch size where it is faster than the usual one, or where the job's range excludes the usual one.
            None: all tables are at usual batch sizes.

    Attributes:
        throughputs: float64[num_distinct, num_gpu_types, sizes], the distinct tables of `ClusterView.throughputs`.
        batches: int64[num_distinct, num_gpu_types, sizes], the batch sizes to name for these throughputs; 0 for none.
        table: int64[num_submitted], index of each job in these arrays.
        least: int64[num_submitted, num_gpu_types], fewest GPUs of a type in a job's range on which it runs; 0 if none.
        throughput_at_least: float64[num_submitted, num_gpu_types], samples/s there; 0 if none.
    """

    def __init__(self, analysed: AnalysedJobs | None = None) -> None:
        self.analysed = analysed
        self.throughputs: FloatArray = np.zeros((0, 0, 0))
        self.batches: IntArray = np.zeros((0, 0, 0), np.int64)
        self.table: IntArray = np.zeros(0, np.int64)
        self.least: IntArray = np.zeros((0, 0), np.int64)
        self.throughput_at_least: FloatArray = np.zeros((0, 0))
        self._index: dict[tuple[bytes, int], int] = {}
        self._num_beliefs = 0

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs submitted since the last call; look all up anew if beliefs about throughputs have changed."""
        if view.num_beliefs != self._num_beliefs:  # the distinct tables stay: most of them are still believed
            self.table, self._num_beliefs = self.table[:0], view.num_beliefs
            self.least, self.throughput_at_least = self.least[:0], self.throughput_at_least[:0]
        known, submitted = len(self.table), len(view.num_gpus)
        if known == submitted:
            return
        if self.analysed is not None:
            self.analysed.look_up(view)
        table = np.array([self._distinct(view, job) for job in range(known, submitted)], dtype=np.int64)
        throughputs = self.within_range(self.throughputs[table], view.min_gpus[known:], view.max_gpus[known:])
        least = (throughputs > 0).argmax(axis=2)
        at_least = np.take_along_axis(throughputs, least[:, :, None], axis=2)[:, :, 0]
        self.table = np.concatenate([self.table, table])
        self.least = np.concatenate([self.least.reshape(-1, least.shape[1]), least])
        self.throughput_at_least = np.concatenate([self.throughput_at_least.reshape(-1, least.shape[1]), at_least])

    @staticmethod
    def within_range(throughputs: FloatArray, least: IntArray, most: IntArray) -> FloatArray:
        """float64[num_jobs, num_gpu_types, sizes]: `throughputs`, but 0 outside each job's elastic range."""
        sizes = np.arange(throughputs.shape[2])
        inside = (sizes >= least[:, None]) & (sizes <= most[:, None])
        kept: FloatArray = np.where(inside[:, None, :], throughputs, 0.0)
        return kept

    def throughput(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """float64[len(jobs), num_gpu_types, sizes]: samples/s within each job's range, 0 elsewhere."""
        return self.within_range(self.throughputs[self.table[jobs]], view.min_gpus[jobs], view.max_gpus[jobs])

    def batch(self, job: JobId, gpu_type: int, num_gpus: int) -> int | None:
        """Return the batch size to name for the throughput in the tables; None leaves it to the world."""
        return int(self.batches[self.table[job], gpu_type, num_gpus]) or None

    def name_batches(self, allocation: Allocation) -> None:
        """Name the batch sizes of the tables in all new placements on one GPU type that name none; changed in place."""
        gpu_types = allocation.cluster.node_types
        for job, placement in dict(allocation.changes).items():
            if placement is None or placement.batch_size is not None or placement.plan is not None:
                continue
            on = {int(gpu_types[node]) for node in placement.gpus}
            if len(on) == 1 and (batch := self.batch(job, on.pop(), placement.num_gpus)):
                allocation.place(job, replace(placement, batch_size=batch))

    def fastest_first(self, job: JobId, num_gpus: int) -> list[int]:
        """List the GPU types on which a job runs with so many GPUs, by falling throughput in the tables."""
        throughputs = self.throughputs[self.table[job], :, num_gpus]
        return [int(gpu_type) for gpu_type in np.argsort(-throughputs, kind="stable") if throughputs[gpu_type] > 0]

    def _distinct(self, view: ClusterView, job: JobId) -> int:
        """Return the index of a job's table among the distinct tables."""
        usual, other = view.throughputs(job), -1 if self.analysed is None else int(self.analysed.table[job])
        key = usual.tobytes(), other
        if key not in self._index:
            self._index[key] = len(self._index)
            throughputs, batches = self._at_best(view, job, usual)
            self.throughputs = np.concatenate([self.throughputs.reshape(-1, *usual.shape), throughputs[None]])
            self.batches = np.concatenate([self.batches.reshape(-1, *usual.shape), batches[None]])
        return self._index[key]

    def _at_best(self, view: ClusterView, job: JobId, usual: FloatArray) -> tuple[FloatArray, IntArray]:
        """Compute a job's table and the batch sizes to name.

        A batch size is named where it beats the usual one, or where the job's range excludes the usual one. A job that
        runs with no batch size of its range runs at the usual one, and so does one to which the world offers no other.
        """
        throughputs, batches = usual.copy(), np.zeros(usual.shape, np.int64)
        if self.analysed is None:
            return throughputs, batches
        width, distinct = min(usual.shape[1], self.analysed.throughputs.shape[2]), self.analysed.table[job]
        best, named = self.analysed.throughputs[distinct, :, :width], self.analysed.batches[distinct, :, :width]
        if named.any():
            world = usual_batches(view.job(job), width - 1)
            faster = (named > 0) & (named != world) & (best > usual[:, :width] * (1 + _NEGLIGIBLE))
            chosen = faster | (world == 0) & ((named > 0) | (best == 0))
            throughputs[:, :width][chosen], batches[:, :width][chosen] = best[chosen], named[chosen]
        return throughputs, batches
