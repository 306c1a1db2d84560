"""What more GPUs are worth to a job, at which batch size: the scalability analyser of elastic scaling (MASCOTS 2020).

A job says within which batch sizes it trains to the same accuracy. For a job j on k GPUs with a batch of b samples in
all, X_j(b, k) is its throughput, and its scaling factor is how much faster that is than its best on one GPU:

    T_j(b, k) = X_j(b, k) / X_j(b_ref, 1)     with b_ref the best batch on one GPU
    b*_j(k)   = argmax over b of T_j(b, k)

The paper estimates X from the time that one GPU takes for b / k samples and the time of an all-reduce among k GPUs.
Here the performance model of the world answers, which is built of the same two. The formulas are a reconstruction from
the patent's claims (US 11,586,475), for of the paper only abstract and first page could be read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from envs.performance.measurements import measured_types, measurements
from envs.performance.zoo import model_profile
from envs.scheduling import ClusterView
from envs.types import ClusterSpec, FloatArray, IntArray, JobSpec, PerformanceError

Throughput: TypeAlias = Callable[[int, int, int, int | None], float]  # samples/s: GPU type, GPUs, nodes, batch size
BatchRule: TypeAlias = Literal["best", "least", "usual", "most"]
BATCH_RULES = ("best", "least", "usual", "most")
Numbers = TypeVar("Numbers", FloatArray, IntArray)


@dataclass(frozen=True)
class Scalability:
    """What GPUs of each type are worth to one job.

    Attributes:
        speed: float64[num_gpu_types, most GPUs + 1], samples/s; 0 where the job cannot run.
        factor: float64[num_gpu_types, most GPUs + 1], the scaling factor T; -inf where the job cannot run. One GPU of
            the fastest type at its best batch is 1, so factors compare across types.
        batch: int64[num_gpu_types, most GPUs + 1], the batch size; 0 leaves it to the world.
    """

    speed: FloatArray
    factor: FloatArray
    batch: IntArray


@dataclass(frozen=True)
class Analyser:
    """Finds each job's batch size for every number of GPUs.

    The paper's b_gpu,max, what one GPU's memory holds, is in no public table. With `measured_only` the most samples per
    GPU that somebody measured stand for it: beyond them speeds are extrapolated, and a memory that nobody filled is
    no evidence.

    Attributes:
        rule: "best" chooses b*(k); the others fix one batch size for a job's whole life, for the baseline that scales
            GPUs alone: the least of its range, the usual one on its requested GPUs, or the most that its GPUs hold.
        measured_only: whether a GPU takes no more samples than were measured on one.
    """

    rule: BatchRule = "best"
    measured_only: bool = True

    def analyse(self, job: JobSpec, cluster: ClusterSpec, nodes: IntArray, throughput: Throughput) -> Scalability:
        """A job's scaling factors and batch sizes on the GPUs of its range.

        A job that runs with no batch size under these rules, and one whose model has no batch range, runs at the
        world's usual one.

        Args:
            job: the job.
            cluster: the nodes.
            nodes: int64[num_gpu_types, most GPUs + 1], see `fewest_nodes`.
            throughput: the performance model; 0 where the job does not run.
        """
        limits = [self._limit(job.model, kind) for kind in cluster.gpu_types]
        span = batch_range(job)
        fixed = None if span is None or self.rule == "best" else self._fixed(job, span, limits, nodes)
        one = [_best(throughput, kind, 1, 1, _candidates(span, 1, limits[kind])) for kind in range(len(limits))]
        reference = max(speed for speed, _ in one)
        speed, batch = np.zeros(nodes.shape), np.zeros(nodes.shape, np.int64)
        sizes = range(job.min_gpus, min(job.max_gpus, nodes.shape[1] - 1) + 1)
        for kind, size in ((kind, size) for kind in range(len(limits)) for size in sizes if nodes[kind, size] > 0):
            choice = _candidates(span, size, limits[kind], fixed)
            speed[kind, size], batch[kind, size] = _best(throughput, kind, size, int(nodes[kind, size]), choice)
        if not speed.any():
            for kind, size in ((kind, size) for kind in range(len(limits)) for size in sizes if nodes[kind, size] > 0):
                speed[kind, size] = _best(throughput, kind, size, int(nodes[kind, size]), (None,))[0]
        if not reference:  # too large for one GPU: as if it scaled linearly up to its least size
            runs = np.flatnonzero(speed.max(axis=0))
            reference = speed[:, runs[0]].max() / runs[0] if runs.size else 1.0
        return Scalability(speed, np.where(speed > 0, speed / reference, -np.inf), np.where(speed > 0, batch, 0))

    def _limit(self, model: str, kind: str) -> float:
        return most_per_gpu(model, kind) if self.measured_only else np.inf

    def _fixed(self, job: JobSpec, span: tuple[int, int], limits: Sequence[float], nodes: IntArray) -> int:
        """The one batch size of a job that does not change it: all its GPUs have a sample and none has too many."""
        low, high = span
        most = [int((row[1 : job.max_gpus + 1] > 0).sum()) for row in nodes]
        held = max(limit * gpus for limit, gpus in zip(limits, most, strict=True))
        wanted = {"least": low, "usual": model_profile(job.model).usual_batch(job.num_gpus), "most": high}[self.rule]
        return int(max(low, job.min_gpus, min(high, wanted, held)))


class AnalysedJobs:
    """Scalabilities of the jobs submitted so far, looked up once per kind of job; belongs to one episode.

    Attributes:
        speeds: float64[num_distinct, num_gpu_types, sizes], the distinct `Scalability.speed`.
        factors: float64[num_distinct, num_gpu_types, sizes], the distinct `Scalability.factor`.
        batches: int64[num_distinct, num_gpu_types, sizes], their batch sizes.
        table: int64[num_submitted], which of them is a job's.
    """

    def __init__(self, analyser: Analyser, cluster: ClusterSpec) -> None:
        self.analyser = analyser
        self.speeds: FloatArray = np.zeros((0, len(cluster.gpu_types), 1))
        self.factors: FloatArray = np.zeros((0, len(cluster.gpu_types), 1))
        self.batches: IntArray = np.zeros((0, len(cluster.gpu_types), 1), np.int64)
        self.table: IntArray = np.zeros(0, np.int64)
        self._nodes = fewest_nodes(cluster)
        self._index: dict[tuple[object, ...], int] = {}

    def look_up(self, view: ClusterView) -> None:
        """Analyse the jobs that have come since the last time."""
        known, submitted = len(self.table), len(view.num_gpus)
        if known == submitted:
            return
        added = np.array([self._distinct(view, view.job(job)) for job in range(known, submitted)], dtype=np.int64)
        self.table = np.concatenate([self.table, added])

    def _distinct(self, view: ClusterView, job: JobSpec) -> int:
        key = (job.model, job.plan, job.min_batch, job.max_batch, job.num_gpus, job.min_gpus, job.max_gpus)
        if key not in self._index:
            most = min(job.max_gpus, self._nodes.shape[1] - 1)

            def throughput(kind: int, gpus: int, nodes: int, batch: int | None) -> float:
                return view.throughput(job.id, kind, gpus, nodes, batch_size=batch)

            found = self.analyser.analyse(job, view.cluster, self._nodes[:, : most + 1], throughput)
            self._index[key] = len(self._index)
            self.speeds = _stacked(self.speeds, found.speed, 0.0)
            self.factors = _stacked(self.factors, found.factor, -np.inf)
            self.batches = _stacked(self.batches, found.batch, 0)
        return self._index[key]


def batch_range(job: JobSpec) -> tuple[int, int] | None:
    """A job's own batch range, where it is silent its model's; None for a model of which no range is known."""
    try:
        profile = model_profile(job.model)
    except PerformanceError:
        return None
    low, high = max(job.min_batch, profile.min_batch), min(job.max_batch or profile.max_batch, profile.max_batch)
    return (low, high) if low <= high else None


def usual_batches(job: JobSpec, most_gpus: int) -> IntArray:
    """int64[most_gpus + 1]: the world's batch size on so many GPUs; 0 where none is known or a job's range excludes it.

    The world keeps to the model's range, not to the job's own.
    """
    batches = np.zeros(most_gpus + 1, np.int64)
    if span := batch_range(job):
        profile = model_profile(job.model)
        usual = np.array([profile.usual_batch(gpus) for gpus in range(1, most_gpus + 1)], dtype=np.int64)
        batches[1:] = np.where((usual >= span[0]) & (usual <= span[1]), usual, 0)
    return batches


@cache
def most_per_gpu(model: str, gpu_type: str) -> float:
    """Most samples per step that were measured on one GPU of a type.

    Where that type was not measured, the least of those that were: another memory may hold less. Infinite for a
    model without measurements.
    """
    try:
        name = model_profile(model).name
    except PerformanceError:
        return np.inf
    most = {
        kind: max(point.batch_size / point.num_gpus for point in measurements()[name, kind])
        for kind in measured_types(name)
    }
    return most.get(gpu_type, min(most.values(), default=np.inf))


def fewest_nodes(cluster: ClusterSpec) -> IntArray:
    """int64[num_gpu_types, most GPUs of a type + 1]: fewest nodes that hold so many GPUs of a type; 0 if none do."""
    counts = list(cluster.gpus_by_type.values())
    nodes = np.zeros((len(counts), max(counts) + 1), np.int64)
    for kind, count in enumerate(counts):
        held = np.cumsum(np.sort(cluster.node_gpus[cluster.node_types == kind])[::-1])
        nodes[kind, 1 : count + 1] = np.searchsorted(held, np.arange(1, count + 1)) + 1
    return nodes


def _candidates(
    span: tuple[int, int] | None, num_gpus: int, limit: float, fixed: int | None = None
) -> Sequence[int | None]:
    """Batch sizes to try on so many GPUs, ascending, each GPU with at least one sample and at most `limit`, if any do.

    Doublings of the range's least, the most that fits, and the most that gives all GPUs equally many samples.
    """
    if span is None:
        return (None,)
    low, high = max(span[0], num_gpus), int(min(span[1], limit * num_gpus))
    if fixed is not None:
        return (fixed,) if low <= fixed <= high else ()
    doubled = (span[0] << i for i in range((span[1] // span[0]).bit_length()))
    return tuple(sorted(batch for batch in {*doubled, high, high - high % num_gpus} if low <= batch <= high))


def _best(
    throughput: Throughput, kind: int, num_gpus: int, nodes: int, candidates: Sequence[int | None]
) -> tuple[float, int]:
    """Highest throughput over batch sizes and the smallest that reaches it; (0, 0) if none runs."""
    best = (0.0, 0)
    for batch in candidates:
        try:
            speed = throughput(kind, num_gpus, nodes, batch)
        except PerformanceError:  # the performance model knows a narrower range
            continue
        if speed > best[0] * (1 + 1e-12):
            best = (speed, batch or 0)
    return best


def _stacked(tables: Numbers, table: Numbers, nothing: float) -> Numbers:
    """`tables` with one more, all padded to the widest."""
    width = max(tables.shape[2], table.shape[1])

    def widened(rows: Numbers) -> Numbers:
        padding = [(0, 0)] * (rows.ndim - 1) + [(0, width - rows.shape[-1])]
        return np.pad(rows, padding, constant_values=nothing)

    return np.concatenate([widened(tables), widened(table[None])])
