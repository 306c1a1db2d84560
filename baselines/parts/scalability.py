"""Scaling factors and best batch sizes of jobs: the scalability analyser of elastic scaling (MASCOTS 2020).

A job states the range of batch sizes at which it trains to the same accuracy. For a job j on k GPUs with b samples per
step in total, X_j(b, k) is its throughput. Its scaling factor compares that with its best throughput on one GPU:

    T_j(b, k) = X_j(b, k) / X_j(b_ref, 1)     with b_ref the best batch on one GPU
    b*_j(k)   = argmax over b of T_j(b, k)

In the paper every sample counts alike (`Scenario.statistical_efficiency` is "every_sample"). In other scenarios X is
the goodput, throughput x statistical efficiency (Pollux, OSDI'21), and b is within what the world offers on k GPUs.

The paper estimates X from the time that one GPU takes for b / k samples and the time of an all-reduce among k GPUs.
Here the performance model of the world gives X, from the same two times. The formulas are a reconstruction from the
patent's claims (US 11,586,475), since only the abstract and the first page of the paper were available.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from envs.performance.measurements import measured_points, measured_types
from envs.performance.zoo import batch_range, model_profile
from envs.scheduling import ClusterView
from envs.types import ClusterSpec, Configuration, FloatArray, IntArray, JobSpec, PerformanceError

Throughput: TypeAlias = Callable[[int, int, int, int | None], float]  # useful samples/s: type, GPUs, nodes, batch size
OfferedRange: TypeAlias = Callable[[int, int], tuple[int, int] | None]  # batch sizes offered: GPU type, GPUs
BatchRule: TypeAlias = Literal["best", "least", "usual", "most"]
BATCH_RULES = ("best", "least", "usual", "most")
_Array = TypeVar("_Array", FloatArray, IntArray)


@dataclass(frozen=True)
class Scalability:
    """The throughput, scaling factor and batch size of one job on GPUs of each type.

    Attributes:
        throughput: float64[num_gpu_types, most GPUs + 1], samples/s; 0 where the job cannot run.
        factor: float64[num_gpu_types, most GPUs + 1], the scaling factor T; -inf where the job cannot run. One GPU of
            the fastest type at its best batch is 1, so factors compare across types.
        batch: int64[num_gpu_types, most GPUs + 1], the batch size; 0 leaves the choice to the world.
    """

    throughput: FloatArray
    factor: FloatArray
    batch: IntArray


@dataclass(frozen=True)
class Analyser:
    """Finds each job's batch size for every number of GPUs.

    The paper's b_gpu,max, the batch that fits in one GPU's memory, is in no public table. With `measured_only` the most
    samples per GPU that were ever measured stand in for it: beyond them throughputs are extrapolated, and no
    measurement shows that the memory suffices.

    Attributes:
        rule: "best" chooses b*(k). The other rules fix one batch size for the whole life of a job, for the baseline
            that scales GPUs alone: the least of its range, the usual one on its requested GPUs, or the most that its
            GPUs hold.
        measured_only: whether a GPU takes no more samples than were measured on one.
    """

    rule: BatchRule = "best"
    measured_only: bool = True

    def analyse(
        self,
        job: JobSpec,
        cluster: ClusterSpec,
        nodes: IntArray,
        throughput: Throughput,
        offered: OfferedRange | None = None,
    ) -> Scalability:
        """Compute a job's scaling factors and batch sizes on the GPUs of its range.

        A job that runs with no batch size under these rules runs at the world's usual batch size; so does a job whose
        model has no batch range, and one whose fixed batch size is not offered on a number of GPUs.

        Args:
            job: the job.
            cluster: the nodes.
            nodes: int64[num_gpu_types, most GPUs + 1], see `fewest_nodes`.
            throughput: the goodput; 0 where the job does not run.
            offered: the batch sizes that the world offers besides the usual one, None where it offers none; without it,
                those of the job's range.
        """
        limits = [self._limit(job.model, gpu_type) for gpu_type in cluster.gpu_types]
        span = batch_range(job.model, job.min_batch, job.max_batch)
        if self.rule == "usual" and _usual(job.model, job.num_gpus) is None:
            span = None
        fixed = None if span is None or self.rule == "best" else self._fixed(job, span, limits, nodes)

        def candidates(gpu_type: int, size: int, fixed: int | None = None) -> Sequence[int | None]:
            within = span if offered is None else offered(gpu_type, size)
            if within == span:
                return _candidates(span, size, limits[gpu_type], fixed)
            usual = _usual(job.model, size)
            keeps = usual is None or job.min_batch <= usual <= (job.max_batch or usual)
            return _offered_candidates(within, size, limits[gpu_type], fixed, keeps_usual=keeps)

        one = [_best(throughput, gpu_type, 1, 1, candidates(gpu_type, 1)) for gpu_type in range(len(limits))]
        reference = max(reached for reached, _ in one)
        reached, batch = np.zeros(nodes.shape), np.zeros(nodes.shape, np.int64)
        sizes = range(job.min_gpus, min(job.max_gpus, nodes.shape[1] - 1) + 1)
        for gpu_type, size in (
            (gpu_type, size) for gpu_type in range(len(limits)) for size in sizes if nodes[gpu_type, size] > 0
        ):
            reached[gpu_type, size], batch[gpu_type, size] = _best(
                throughput, gpu_type, size, int(nodes[gpu_type, size]), candidates(gpu_type, size, fixed)
            )
        if not reached.any():
            for gpu_type, size in (
                (gpu_type, size) for gpu_type in range(len(limits)) for size in sizes if nodes[gpu_type, size] > 0
            ):
                reached[gpu_type, size] = _best(throughput, gpu_type, size, int(nodes[gpu_type, size]), (None,))[0]
        if not reference:  # too large for one GPU: assume linear scaling up to its least size
            runs = np.flatnonzero(reached.max(axis=0))
            reference = reached[:, runs[0]].max() / runs[0] if runs.size else 1.0
        return Scalability(
            reached, np.where(reached > 0, reached / reference, -np.inf), np.where(reached > 0, batch, 0)
        )

    def _limit(self, model: str, gpu_type: str) -> float:
        return most_per_gpu(model, gpu_type) if self.measured_only else np.inf

    def _fixed(self, job: JobSpec, span: tuple[int, int], limits: Sequence[float], nodes: IntArray) -> int:
        """Choose a job's one batch size for its whole life: a sample for each GPU, and no GPU over its limit."""
        low, high = span
        most = [int((row[1 : job.max_gpus + 1] > 0).sum()) for row in nodes]
        held = max(limit * gpus for limit, gpus in zip(limits, most, strict=True))
        wanted = {"least": low, "usual": _usual(job.model, job.num_gpus) or low, "most": high}[self.rule]
        return int(max(low, job.min_gpus, min(high, wanted, held)))


class AnalysedJobs:
    """Scalabilities of the jobs submitted so far, computed once per group of equal jobs; belongs to one episode.

    Attributes:
        throughputs: float64[num_distinct, num_gpu_types, sizes], the distinct `Scalability.throughput`.
        factors: float64[num_distinct, num_gpu_types, sizes], the distinct `Scalability.factor`.
        batches: int64[num_distinct, num_gpu_types, sizes], their batch sizes.
        table: int64[num_submitted], index of each job in these arrays.
    """

    def __init__(self, analyser: Analyser, cluster: ClusterSpec) -> None:
        self.analyser = analyser
        self.throughputs: FloatArray = np.zeros((0, len(cluster.gpu_types), 1))
        self.factors: FloatArray = np.zeros((0, len(cluster.gpu_types), 1))
        self.batches: IntArray = np.zeros((0, len(cluster.gpu_types), 1), np.int64)
        self.table: IntArray = np.zeros(0, np.int64)
        self._nodes = fewest_nodes(cluster)
        self._index: dict[tuple[object, ...], int] = {}
        self._num_beliefs = 0

    def look_up(self, view: ClusterView) -> None:
        """Analyse the jobs submitted since the last call, or all anew if beliefs about throughputs have changed."""
        if view.num_beliefs != self._num_beliefs:  # the distinct ones stay: most of them are still believed
            self.table, self._num_beliefs = self.table[:0], view.num_beliefs
        known, submitted = len(self.table), len(view.num_gpus)
        if known == submitted:
            return
        added = np.array([self._distinct(view, view.job(job)) for job in range(known, submitted)], dtype=np.int64)
        self.table = np.concatenate([self.table, added])

    def _distinct(self, view: ClusterView, job: JobSpec) -> int:
        believed = view.throughputs(job.id).tobytes() if view.num_beliefs else b""
        key = (job.model, job.plan, job.min_batch, job.max_batch, job.num_gpus, job.min_gpus, job.max_gpus, believed)
        if key not in self._index:
            most = min(job.max_gpus, self._nodes.shape[1] - 1)

            def throughput(type_index: int, gpus: int, nodes: int, batch: int | None) -> float:
                gpu_type = view.cluster.gpu_types[type_index]
                return view.goodput(job.id, Configuration(gpu_type, gpus, nodes, batch_size=batch))

            def offered(type_index: int, gpus: int) -> tuple[int, int] | None:
                return view.batch_range(job.id, view.cluster.gpu_types[type_index], gpus)

            nodes, asked = self._nodes[:, : most + 1], job.constraints
            if asked.demand_nodes(1):
                demanded = [asked.demand_nodes(gpus) for gpus in range(most + 1)]
                nodes = np.where(view.throughputs(job.id)[:, : most + 1] > 0, demanded, 0)
            found = self.analyser.analyse(job, view.cluster, nodes, throughput, offered)
            self._index[key] = len(self._index)
            self.throughputs = _stacked(self.throughputs, found.throughput, 0.0)
            self.factors = _stacked(self.factors, found.factor, -np.inf)
            self.batches = _stacked(self.batches, found.batch, 0)
        return self._index[key]


def usual_batches(job: JobSpec, most_gpus: int) -> IntArray:
    """int64[most_gpus + 1]: the world's batch size on so many GPUs; 0 if a job's range excludes it, -1 if unknown.

    The world respects the model's range, but not the job's own.
    """
    batches = np.zeros(most_gpus + 1, np.int64)
    if span := batch_range(job.model, job.min_batch, job.max_batch):
        usual = np.array([_usual(job.model, gpus) or -1 for gpus in range(1, most_gpus + 1)], dtype=np.int64)
        batches[1:] = np.where((usual < 0) | (usual >= span[0]) & (usual <= span[1]), usual, 0)
    return batches


@cache
def most_per_gpu(model: str, gpu_type: str) -> float:
    """Return the most samples per step that were measured on one GPU of a type.

    If that type was not measured, this is the least over the measured types, since its memory may be smaller. It is
    infinite for a model without measurements.
    """
    try:
        name = model_profile(model).name
    except PerformanceError:
        return np.inf
    most = {
        measured: max(point.batch_size / point.num_gpus for point in measured_points()[name, measured])
        for measured in measured_types(name)
    }
    return most.get(gpu_type, min(most.values(), default=np.inf))


def fewest_nodes(cluster: ClusterSpec) -> IntArray:
    """int64[num_gpu_types, most GPUs of a type + 1]: fewest nodes that hold so many GPUs of a type; 0 if none do."""
    counts = list(cluster.gpus_by_type.values())
    nodes = np.zeros((len(counts), max(counts) + 1), np.int64)
    for gpu_type, count in enumerate(counts):
        held = np.cumsum(np.sort(cluster.node_gpus[cluster.node_types == gpu_type])[::-1])
        nodes[gpu_type, 1 : count + 1] = np.searchsorted(held, np.arange(1, count + 1)) + 1
    return nodes


def _usual(model: str, num_gpus: int) -> int | None:
    """The usual batch size of a model; None for one that the zoo does not have."""
    try:
        return model_profile(model).usual_batch(num_gpus)
    except PerformanceError:
        return None


def _candidates(
    span: tuple[int, int] | None, num_gpus: int, limit: float, fixed: int | None = None
) -> Sequence[int | None]:
    """List the batch sizes to try on so many GPUs, ascending, with at least one and at most `limit` samples per GPU.

    These are doublings of the range's least, the most that fits, and the most that gives all GPUs equally many samples.
    """
    if span is None:
        return (None,)
    low, high = max(span[0], num_gpus), int(min(span[1], limit * num_gpus))
    if fixed is not None:
        return (fixed,) if low <= fixed <= high else ()
    doubled = (span[0] << i for i in range((span[1] // span[0]).bit_length()))
    return tuple(sorted(batch for batch in {*doubled, high, high - high % num_gpus} if low <= batch <= high))


def _offered_candidates(
    within: tuple[int, int] | None, num_gpus: int, limit: float, fixed: int | None, *, keeps_usual: bool
) -> Sequence[int | None]:
    """List the batch sizes to try where the world offers less than the job's range: the usual one (None) and others.

    The usual one is left out where the job's own range excludes it and another is offered.
    """
    if within is None:
        return (None,)
    if fixed is not None:
        return (fixed,) if within[0] <= fixed <= within[1] else (None,)
    return (*((None,) if keeps_usual else ()), *_candidates(within, num_gpus, limit))


def _best(
    throughput: Throughput, gpu_type: int, num_gpus: int, nodes: int, candidates: Sequence[int | None]
) -> tuple[float, int]:
    """Find the highest throughput over batch sizes, and the first that reaches it; (0, 0) if none runs."""
    best = (0.0, 0)
    for batch in candidates:
        try:
            reached = throughput(gpu_type, num_gpus, nodes, batch)
        except PerformanceError:  # the performance model has a narrower range
            continue
        if reached > best[0] * (1 + 1e-12):
            best = (reached, batch or 0)
    return best


def _stacked(tables: _Array, table: _Array, nothing: float) -> _Array:
    """Append a table to `tables`, all padded to the widest."""
    width = max(tables.shape[2], table.shape[1])

    def widened(rows: _Array) -> _Array:
        padding = [(0, 0)] * (rows.ndim - 1) + [(0, width - rows.shape[-1])]
        return np.pad(rows, padding, constant_values=nothing)

    return np.concatenate([widened(tables), widened(table[None])])
