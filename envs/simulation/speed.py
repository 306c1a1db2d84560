"""Speeds as a dense table, so that the engine never calls a performance model while time runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from envs.performance import PerformanceModel
from envs.types import ClusterSpec, FloatArray, IntArray

NUM_LEVELS = 8  # node counts 1, 2, 3-4, 5-8, ... share a level: ceil(log2(nodes)), the last one open


def node_level(num_nodes: int) -> int:
    """The level of a node count: ceil(log2(num_nodes)), at most the last."""
    return min((num_nodes - 1).bit_length(), NUM_LEVELS - 1)


@dataclass(frozen=True)
class SpeedTable:
    """Throughput of every model on every kind of placement within one cluster.

    Attributes:
        models: names, in the order of the first axis.
        rates: float64[num_models, num_gpu_types, max_gpus + 1, NUM_LEVELS], samples/s on GPUs of one type over
            `2 ** level` nodes; 0 where the model does not run.
        levels: int64[num_gpu_types, max_gpus + 1], level of the fewest nodes of a type that hold so many GPUs;
            -1 where the cluster has too few.
    """

    models: tuple[str, ...]
    rates: FloatArray
    levels: IntArray

    @classmethod
    def build(
        cls, cluster: ClusterSpec, performance: PerformanceModel, models: Sequence[str], max_gpus: int
    ) -> "SpeedTable":
        """Ask the performance model once for every (model, GPU type, GPUs, node level).

        The table reaches from one GPU to `max_gpus`, or to the cluster's GPUs if they are fewer; to 8 at least, so
        that what it shows of a job's scaling does not depend on the other jobs.

        Raises:
            PerformanceError: a model or GPU type has no figures.
        """
        num_types = len(cluster.gpu_types)
        max_gpus = min(max(max_gpus, 8), cluster.num_gpus)
        rates = np.zeros((len(models), num_types, max_gpus + 1, NUM_LEVELS))
        levels = np.full((num_types, max_gpus + 1), -1, np.int64)
        for kind in range(num_types):
            sizes = np.sort(cluster.node_gpus[cluster.node_types == kind])[::-1]
            held = np.cumsum(sizes)
            for gpus in range(1, min(max_gpus, int(held[-1])) + 1):
                levels[kind, gpus] = node_level(int(np.searchsorted(held, gpus)) + 1)
        for i, model in enumerate(models):
            for kind, gpu_type in enumerate(cluster.gpu_types):
                for gpus in range(1, max_gpus + 1):
                    for level in range(min(NUM_LEVELS, (gpus - 1).bit_length() + 1)):
                        nodes = min(2**level, gpus)
                        rates[i, kind, gpus, level] = performance.throughput(model, gpu_type, gpus, nodes)
        rates.flags.writeable = levels.flags.writeable = False
        return cls(tuple(models), rates, levels)

    def reference(self) -> FloatArray:
        """float64[num_models, max_gpus + 1]: speed on the fewest nodes of the fastest type."""
        return self._reference.copy()

    @cached_property
    def _reference(self) -> FloatArray:
        best: FloatArray = self.consolidated().max(axis=1)
        return best

    def requested_speed(self, models: IntArray, num_gpus: IntArray) -> FloatArray:
        """float64[num_jobs]: `reference` for jobs of these models and sizes; larger ones are cut to the table."""
        speed: FloatArray = self._reference[models, np.minimum(num_gpus, self._reference.shape[1] - 1)]
        return speed

    def consolidated(self) -> FloatArray:
        """float64[num_models, num_gpu_types, max_gpus + 1]: speed on the fewest nodes, read only.

        0 where the cluster has too few GPUs of the type.
        """
        return self._consolidated

    @cached_property
    def _consolidated(self) -> FloatArray:
        kind, gpus = np.indices(self.levels.shape)
        best: FloatArray = self.rates[:, kind, gpus, np.maximum(self.levels, 0)]
        speed: FloatArray = np.where(self.levels >= 0, best, 0.0)
        speed.flags.writeable = False
        return speed
