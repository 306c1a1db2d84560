"""Size jobs at the knee of their scaling curves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baselines.parts.arrays import shapes_at, types_to_span
from baselines.parts.scalability import AnalysedJobs
from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.simulation.compiled.jit import jit
from envs.simulation.world.shapes import ALONE, NUM_NODES, PER_NODE
from envs.types import BoolArray, FloatArray, IntArray, JobId


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


@jit
def corners(throughput: FloatArray, found: BoolArray) -> None:
    """Mark the sizes at which `knee` can end, for any threshold.

    Args:
        throughput: as in `knee`.
        found: bool[sizes], overwritten.
    """
    found[:] = False
    size = 0
    while True:
        gain, best = 0.0, 0
        for larger in range(size + 1, len(throughput)):
            if throughput[larger] > 0:
                per_gpu = (throughput[larger] - throughput[size]) / (larger - size)
                if per_gpu > gain:
                    gain, best = per_gpu, larger
        if best == 0:
            return
        found[best] = True
        size = best


class ScalingGroups(NamedTuple):
    """Jobs with equal throughputs, an equal elastic range and equal shapes, as one group.

    Attributes:
        throughputs: float64[num_groups, num_gpu_types, sizes], samples/s on the fewest nodes within the range, else 0.
        most_nodes: int64[num_groups, num_gpu_types, sizes], the most nodes on which a job runs.
        corners: bool[num_groups, num_gpu_types, sizes], the sizes at which a knee can be.
        sizes: int64[num_thresholds, num_groups, num_gpu_types], GPUs at the knee; 0 where a job does not run.
        throughput: float64[num_groups], samples/s at the knee of the type that is fastest there; 0 if a job runs on no
            one type.
        gpus: int64[num_groups], GPUs at that knee.
        least: int64[num_groups], fewest GPUs of any type on which a job runs; 0 if it runs on no one type, or if its
            constraints demand a division among nodes or whole nodes: candidates have none.
        start_gpus: int64[num_groups], `least`, or the GPUs at that knee where constraints demand the like, or the
            fewest GPUs of several types with which it might run; 0 if there are none.
        start_types: int64[num_groups, num_gpu_types], types on which it runs with so many GPUs, fastest first, padded
            with -1.
        spanning: int64[num_groups, num_gpu_types], types that it may span where it runs on no one type, fastest first,
            padded with -1.
        shapes: int64[num_groups, 4], what constraints demand, see `envs.simulation.world.shapes`.
    """

    throughputs: FloatArray
    most_nodes: IntArray
    corners: BoolArray
    sizes: IntArray
    throughput: FloatArray
    gpus: IntArray
    least: IntArray
    start_gpus: IntArray
    start_types: IntArray
    spanning: IntArray
    shapes: IntArray


class Knees:
    """Sizes of the jobs submitted so far, by job and by scaling group; belongs to one episode.

    Args:
        thresholds: see `knee`; at least one. All attributes except `sizes` use the first.
        analysed: see `SubmittedJobs`.

    Attributes:
        submitted: the other fixed properties of these jobs.
        group: int64[num_submitted], index of each job in `by_group`.
        by_group: the sizes.
        model: int64[num_submitted], index of each job's model in `ClusterView.shared_resources`.
        num_gpus: int64[num_submitted], GPUs requested.
        requested_throughput: float64[num_submitted], samples/s on the requested GPUs of the fastest type, or at the
            knee if no one type has so many.
    """

    def __init__(self, thresholds: Sequence[float], analysed: AnalysedJobs | None = None) -> None:
        self.thresholds = tuple(thresholds)
        self.submitted = SubmittedJobs(analysed)
        self.group: IntArray = np.zeros(0, np.int64)
        self.model: IntArray = np.zeros(0, np.int64)
        self.num_gpus: IntArray = np.zeros(0, np.int64)
        self.requested_throughput: FloatArray = np.zeros(0)
        self.by_group: ScalingGroups  # once there are jobs
        self._new: list[ScalingGroups] = []  # not yet in `by_group`; one group each, without the first axis
        self._index: dict[tuple[int, ...], int] = {}
        self._num_beliefs = 0

    def look_up(self, view: ClusterView) -> bool:
        """Add the jobs submitted since the last call; return whether there were any.

        If beliefs about throughputs have changed, all jobs are looked up anew.
        """
        if view.num_beliefs != self._num_beliefs:  # the groups stay: most of them are still believed
            self.group, self.model, self.num_gpus = self.group[:0], self.model[:0], self.num_gpus[:0]
            self.requested_throughput, self._num_beliefs = self.requested_throughput[:0], view.num_beliefs
        first, submitted = len(self.group), len(view.num_gpus)
        if first >= submitted:
            return False
        self.submitted.look_up(view)
        table = self.submitted.table[first:].tolist()
        shapes = shapes_at(view, np.arange(first, submitted)).T.tolist()
        keys = zip(table, view.min_gpus[first:].tolist(), view.max_gpus[first:].tolist(), *shapes, strict=True)
        group = np.array([self._group(view, first + place, key) for place, key in enumerate(keys)], dtype=np.int64)
        self._stack_new()
        tables = self.submitted.throughputs[self.submitted.table[first:]].max(axis=1)
        requested = np.minimum(view.num_gpus[first:], tables.shape[1] - 1)
        throughput = tables[np.arange(len(tables)), requested]
        throughput = np.where(throughput > 0, throughput, self.by_group.throughput[group])
        self.group = np.concatenate([self.group, group])
        self.model = np.concatenate([self.model, view.model[first:]])
        self.num_gpus = np.concatenate([self.num_gpus, view.num_gpus[first:]])
        self.requested_throughput = np.concatenate([self.requested_throughput, throughput])
        return True

    def _group(self, view: ClusterView, job: JobId, key: tuple[int, ...]) -> int:
        """Return the index of a job's group; add the group if it is new."""
        if key not in self._index:
            self._index[key] = len(self._index)
            self._new.append(self._new_group(view, job))
        return self._index[key]

    def _stack_new(self) -> None:
        """Add the new groups to `by_group`."""
        if not self._new:
            return
        new = ScalingGroups(*(np.array(values) for values in zip(*self._new, strict=True)))
        new = new._replace(sizes=new.sizes.swapaxes(0, 1))
        known = len(self._index) > len(self._new)
        both = zip(self.by_group, new, strict=True) if known else ((column,) for column in new)
        axes = [int(name == "sizes") for name in ScalingGroups._fields]
        self.by_group = ScalingGroups(
            *(np.ascontiguousarray(np.concatenate(columns, axis)) for columns, axis in zip(both, axes, strict=True))
        )
        self._new = []

    def _new_group(self, view: ClusterView, job: JobId) -> ScalingGroups:
        """Compute the properties of a job's group, without the axis of groups."""
        throughputs = self.submitted.throughput(view, np.array([job]))[0]
        sizes = np.array([[knee(curve, threshold) for curve in throughputs] for threshold in self.thresholds], np.int64)
        reached = throughputs[np.arange(len(throughputs)), sizes[0]]
        gpu_type, some = int(reached.argmax()), self.submitted.least[job]
        turns = np.zeros(throughputs.shape, np.bool_)
        for curve, found in zip(throughputs, turns, strict=True):
            corners(curve, found)
        least = int(some[some > 0].min(initial=np.iinfo(np.int64).max)) if some.any() else 0
        start, spanned = (least, []) if least else _least_span(view, job)
        shape = shapes_at(view, np.array([job]))[0]
        if least and shape[[NUM_NODES, PER_NODE, ALONE]].any():
            start, least = int(sizes[0][gpu_type]), 0
        types = self.submitted.fastest_first(job, start) if start and not spanned else []
        padded = np.full((2, len(throughputs)), -1)
        padded[0, : len(types)], padded[1, : len(spanned)] = types, spanned
        return ScalingGroups(
            throughputs,
            np.array(view.most_nodes(job)),
            turns,
            sizes,
            np.asarray(reached[gpu_type]),
            np.asarray(sizes[0, gpu_type]),
            np.asarray(least, np.int64),
            np.asarray(start, np.int64),
            padded[0],
            padded[1],
            shape,
        )


def _least_span(view: ClusterView, job: JobId) -> tuple[int, list[int]]:
    """Return the fewest GPUs in a job's range with which it might run on several types together, and these types."""
    most_nodes = view.most_nodes(job)
    for size in range(int(view.min_gpus[job]), min(int(view.max_gpus[job]), most_nodes.shape[1] - 1) + 1):
        types = [gpu_type for gpu_type in types_to_span(view, job, size) if most_nodes[gpu_type, size] > 1]
        if types:
            return size, types
    return 0, []
