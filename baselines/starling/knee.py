"""How many GPUs a job is worth: up to the knee of its scaling curve."""

from collections.abc import Sequence

import numpy as np

from baselines.parts.scalability import AnalysedJobs
from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray, JobId


@jit
def knee(speed: FloatArray, threshold: float) -> int:
    """The most GPUs of which the last ones still pay; 0 where a job runs on none.

    Steps follow the upper concave hull of the curve from the origin, so that a count that is slower per GPU than both
    a smaller and a larger one is jumped over. A step pays if its speed per GPU is at least `threshold` of the first
    step's, which is the best that a GPU can bring.

    Args:
        speed: float64[sizes], samples/s on so many GPUs; 0 where the job does not run.
        threshold: 0 goes to the fastest size, 1 stays at the most efficient one.
    """
    size, first = 0, 0.0
    while True:
        gain, best = 0.0, 0
        for larger in range(size + 1, len(speed)):
            if speed[larger] > 0:
                per_gpu = (speed[larger] - speed[size]) / (larger - size)
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
        thresholds: see `knee`; at least one. What is no `sizes` is by the first.
        analysed: see `SubmittedJobs`.

    Attributes:
        submitted: what else never changes about these jobs.
        sizes: int64[num_thresholds, num_submitted, num_gpu_types], GPUs at the knee; 0 where a job does not run.
        speed: float64[num_submitted], samples/s at the knee of the type that is fastest there; 0 if none is.
        gpus: int64[num_submitted], GPUs there.
        least: int64[num_submitted], fewest GPUs of any type on which a job runs; 0 if it runs on no one type.
        requested_speed: float64[num_submitted], samples/s on the requested GPUs of the fastest type, or at the knee
            where no one type has so many.
    """

    def __init__(self, thresholds: Sequence[float], analysed: AnalysedJobs | None = None) -> None:
        self.thresholds = tuple(thresholds)
        self.submitted = SubmittedJobs(analysed)
        self.sizes: IntArray = np.zeros((len(self.thresholds), 0, 0), np.int64)
        self.speed: FloatArray = np.zeros(0)
        self.gpus: IntArray = np.zeros(0, np.int64)
        self.least: IntArray = np.zeros(0, np.int64)
        self.requested_speed: FloatArray = np.zeros(0)
        self._known: dict[tuple[int, int, int], tuple[IntArray, float, int]] = {}

    def look_up(self, view: ClusterView) -> None:
        """Add the jobs that have come since the last time."""
        first, submitted = len(self.speed), len(view.num_gpus)
        if first == submitted:
            return
        self.submitted.look_up(view)
        table = self.submitted.table[first:].tolist()
        ranges = zip(table, view.min_gpus[first:].tolist(), view.max_gpus[first:].tolist(), strict=True)
        rows = [self._row(view, first + place, key) for place, key in enumerate(ranges)]
        sizes = np.array([row[0] for row in rows], dtype=np.int64).swapaxes(0, 1)
        self.sizes = np.concatenate([self.sizes.reshape(len(sizes), first, sizes.shape[2]), sizes], axis=1)
        self.speed = np.concatenate([self.speed, np.array([row[1] for row in rows])])
        self.gpus = np.concatenate([self.gpus, np.array([row[2] for row in rows], dtype=np.int64)])
        some = self.submitted.least[first:]
        least = np.where(some > 0, some, np.iinfo(np.int64).max).min(axis=1)
        self.least = np.concatenate([self.least, np.where((some > 0).any(axis=1), least, 0)])
        tables = self.submitted.speeds[self.submitted.table[first:]].max(axis=1)
        requested = np.minimum(view.num_gpus[first:], tables.shape[1] - 1)
        speed = tables[np.arange(len(tables)), requested]
        self.requested_speed = np.concatenate([self.requested_speed, np.where(speed > 0, speed, self.speed[first:])])

    def _row(self, view: ClusterView, job: JobId, key: tuple[int, int, int]) -> tuple[IntArray, float, int]:
        """Sizes by threshold and type, speed and GPUs at the fastest knee: once for all jobs of one table and range."""
        if key not in self._known:
            speeds = self.submitted.speed(view, np.array([job]))[0]
            sizes = np.array([[knee(curve, threshold) for curve in speeds] for threshold in self.thresholds], np.int64)
            reached = speeds[np.arange(len(speeds)), sizes[0]]
            kind = int(reached.argmax())
            self._known[key] = (sizes, float(reached[kind]), int(sizes[0, kind]))
        return self._known[key]
