"""Size jobs at the knee of their scaling curves."""

from collections.abc import Sequence

import numpy as np

from baselines.parts.scalability import AnalysedJobs
from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray, JobId


@jit
def knee(throughput: FloatArray, threshold: float) -> int:
    """Return the largest number of GPUs of which the last ones still pay; 0 if the job runs on none.

    Steps follow the upper concave hull of the curve from the origin. So a size with less throughput per GPU than both a
    smaller and a larger size is skipped. A step pays if its throughput per GPU is at least `threshold` times that of
    the first step, which is the best that a GPU can add.

    Args:
        throughput: float64[sizes], samples/s on so many GPUs; 0 where the job does not run.
        threshold: 0 gives the fastest size, 1 the most efficient one.
    """
    size, first = 0, 0.0
    while True:
        gain, best = 0.0, 0
        for larger in range(size + 1, len(throughput)):
            if throughput[larger] > 0:
                per_gpu = (throughput[larger] - throughput[size]) / (larger - size)
                if per_gpu > gain:
                    gain, best = per_gpu, larger
        if best == 0 or gain < threshold * first:
            return size
        if size == 0:
            first = gain
        size = best


class Knees:
    """Knees of the jobs submitted so far, by job; belongs to one episode.

    Args:
        thresholds: see `knee`; at least one. All attributes except `sizes` use the first.
        analysed: see `SubmittedJobs`.

    Attributes:
        submitted: the other fixed properties of these jobs.
        sizes: int64[num_thresholds, num_submitted, num_gpu_types], GPUs at the knee; 0 where a job does not run.
        throughput: float64[num_submitted], samples/s at the knee of the type that is fastest there; 0 if it runs on
            none.
        gpus: int64[num_submitted], GPUs at that knee.
        least: int64[num_submitted], fewest GPUs of any type on which a job runs; 0 if it runs on no one type.
        requested_throughput: float64[num_submitted], samples/s on the requested GPUs of the fastest type, or at the
            knee if no one type has so many.
    """

    def __init__(self, thresholds: Sequence[float], analysed: AnalysedJobs | None = None) -> None:
        self.thresholds = tuple(thresholds)
        self.submitted = SubmittedJobs(analysed)
        self.sizes: IntArray = np.zeros((len(self.thresholds), 0, 0), np.int64)
        self.throughput: FloatArray = np.zeros(0)
        self.gpus: IntArray = np.zeros(0, np.int64)
        self.least: IntArray = np.zeros(0, np.int64)
        self.requested_throughput: FloatArray = np.zeros(0)
        self._known: dict[tuple[int, int, int], tuple[IntArray, float, int]] = {}

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs submitted since the last call."""
        first, submitted = len(self.throughput), len(view.num_gpus)
        if first == submitted:
            return
        self.submitted.look_up(view)
        table = self.submitted.table[first:].tolist()
        ranges = zip(table, view.min_gpus[first:].tolist(), view.max_gpus[first:].tolist(), strict=True)
        rows = [self._row(view, first + place, key) for place, key in enumerate(ranges)]
        sizes = np.array([row[0] for row in rows], dtype=np.int64).swapaxes(0, 1)
        self.sizes = np.concatenate([self.sizes.reshape(len(sizes), first, sizes.shape[2]), sizes], axis=1)
        self.throughput = np.concatenate([self.throughput, np.array([row[1] for row in rows])])
        self.gpus = np.concatenate([self.gpus, np.array([row[2] for row in rows], dtype=np.int64)])
        some = self.submitted.least[first:]
        least = np.where(some > 0, some, np.iinfo(np.int64).max).min(axis=1)
        self.least = np.concatenate([self.least, np.where((some > 0).any(axis=1), least, 0)])
        tables = self.submitted.throughputs[self.submitted.table[first:]].max(axis=1)
        requested = np.minimum(view.num_gpus[first:], tables.shape[1] - 1)
        throughput = tables[np.arange(len(tables)), requested]
        self.requested_throughput = np.concatenate(
            [self.requested_throughput, np.where(throughput > 0, throughput, self.throughput[first:])]
        )

    def _row(self, view: ClusterView, job: JobId, key: tuple[int, int, int]) -> tuple[IntArray, float, int]:
        """Find sizes by threshold and type, and throughput and GPUs at the fastest knee, once per table and range."""
        if key not in self._known:
            throughputs = self.submitted.throughput(view, np.array([job]))[0]
            sizes = np.array(
                [[knee(curve, threshold) for curve in throughputs] for threshold in self.thresholds], np.int64
            )
            reached = throughputs[np.arange(len(throughputs)), sizes[0]]
            gpu_type = int(reached.argmax())
            self._known[key] = (sizes, float(reached[gpu_type]), int(sizes[0, gpu_type]))
        return self._known[key]
