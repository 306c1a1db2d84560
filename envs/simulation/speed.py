"""Speeds as a dense table, so that the engine never calls a performance model while time runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from envs.performance import PerformanceModel, model_profile
from envs.performance.contention import stage_profile
from envs.simulation.scenario import Scenario
from envs.types import ClusterSpec, FloatArray, IntArray

HOST_CPUS = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0])  # cores per GPU: Synergy's grid, OSDI'22
HOST_MEMORY = np.array([0.0, 20.83, 62.5, 125.0, 187.5, 250.0])  # GB per GPU
HOST_GPUS = 8  # a host that feeds more GPUs of one job counts as one that feeds 8
NUM_LEVELS = 8  # node counts 1, 2, 3-4, 5-8, ... share a level: ceil(log2(nodes)), the last one open


def node_level(num_nodes: int) -> int:
    """The level of a node count: ceil(log2(num_nodes)), at most the last."""
    return min((num_nodes - 1).bit_length(), NUM_LEVELS - 1)


@dataclass(frozen=True)
class HostTable:
    """What cores and memory do to speed: bilinear between grid points, constant beyond the last.

    Asked of the performance model for GPUs of one node. For jobs on several nodes the node with most GPUs decides,
    which for `TableModel` is exact and for models of whole plans an approximation; placements that name their cores and
    memory are answered exactly (`ExactSpeeds`).
    """

    cpus: FloatArray  # float64[c], cores per GPU, ascending from 0
    memory: FloatArray  # float64[m], GB per GPU, ascending from 0
    factor: FloatArray  # float64[num_models, 9, c, m]: share of the saturated speed, by GPUs on the node
    saturating: FloatArray  # float64[num_models, 9, 2]: cores and GB per GPU beyond which nothing is gained

    @classmethod
    def neutral(cls, num_models: int) -> "HostTable":
        """Nobody needs cores or memory."""
        grid = np.array([0.0, 1.0])
        return cls(grid, grid, np.ones((num_models, HOST_GPUS + 1, 2, 2)), np.zeros((num_models, HOST_GPUS + 1, 2)))

    @classmethod
    def build(cls, cluster: ClusterSpec, performance: PerformanceModel, models: Sequence[str]) -> "HostTable":
        """Ask the performance model at every grid point; where a model runs on no type, the next lower size counts."""
        factor = np.zeros((len(models), HOST_GPUS + 1, len(HOST_CPUS), len(HOST_MEMORY)))
        saturating = np.zeros((len(models), HOST_GPUS + 1, 2))
        for i, model in enumerate(models):
            factor[i, 0, 1:, 1:] = 1.0
            for gpus in range(1, HOST_GPUS + 1):
                factor[i, gpus] = factor[i, gpus - 1]
                for kind in cluster.gpu_types:
                    if performance.throughput(model, kind, gpus) > 0:
                        factor[i, gpus] = _host_factor(performance, model, kind, gpus)
                        break
                enough = factor[i, gpus] >= factor[i, gpus, -1, -1] * (1 - 1e-12)
                row = int(np.flatnonzero(enough.any(axis=1))[0])
                saturating[i, gpus] = HOST_CPUS[row], HOST_MEMORY[int(np.flatnonzero(enough[row])[0])]
        return cls(HOST_CPUS, HOST_MEMORY, factor, saturating)


def _host_factor(performance: PerformanceModel, model: str, kind: str, gpus: int) -> FloatArray:
    """float64[c, m]: speed on GPUs of one node relative to ample cores and memory."""
    factor = np.zeros((len(HOST_CPUS), len(HOST_MEMORY)))
    ample = performance.throughput(model, kind, gpus)
    for row, cpus in enumerate(HOST_CPUS.tolist()):
        for column, memory in enumerate(HOST_MEMORY.tolist()):
            if cpus > 0 and memory > 0:
                speed = performance.throughput(model, kind, gpus, cpus_per_gpu=cpus, memory_per_gpu=memory)
                factor[row, column] = min(speed / ample, 1.0)
    return factor


@dataclass(frozen=True)
class SpeedTable:
    """Throughput of every model on every kind of placement within one cluster.

    Attributes:
        models: names, in the order of the first axis.
        rates: float64[num_models, num_gpu_types, max_gpus + 1, NUM_LEVELS], samples/s on GPUs of one type over
            `2 ** level` nodes; 0 where the model does not run.
        levels: int64[num_gpu_types, max_gpus + 1], level of the fewest nodes of a type that hold so many GPUs;
            -1 where the cluster has too few.
        traffic: float64[num_models, max_gpus + 1], GB that a sample sends around the ring of so many GPUs; 0 without
            contention.
        host_stage: float64[num_models], share of a step that works the host; 0 without contention.
        host: what cores and memory do to speed; neutral where the scenario does not share them.
    """

    models: tuple[str, ...]
    rates: FloatArray
    levels: IntArray
    traffic: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    host_stage: FloatArray = field(default_factory=lambda: np.zeros(0))
    host: HostTable = field(default_factory=lambda: HostTable.neutral(0))

    @classmethod
    def build(
        cls,
        cluster: ClusterSpec,
        performance: PerformanceModel,
        models: Sequence[str],
        max_gpus: int,
        scenario: Scenario | None = None,
        smaller: "SpeedTable | None" = None,
    ) -> "SpeedTable":
        """Ask the performance model once for every (model, GPU type, GPUs, node level), and what the scenario needs.

        The table reaches from one GPU to `max_gpus`, or to the cluster's GPUs if they are fewer; to 8 at least, so
        that what it shows of a job's scaling does not depend on the other jobs. `smaller` is a table of the same
        cluster, performance and scenario, of fewer GPUs; what it knows of cores and memory is taken from it.

        Raises:
            PerformanceError: a model or GPU type has no figures, or the zoo none for its traffic or cores.
        """
        scenario = scenario or Scenario()
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
        shared = scenario.cpu_memory == "shared"
        if smaller is not None and smaller.models == tuple(models):
            host = smaller.host
        else:
            host = HostTable.build(cluster, performance, models) if shared else HostTable.neutral(len(models))
        return cls(tuple(models), rates, levels, *_neighbourhood(models, max_gpus, scenario), host)

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


def _neighbourhood(models: Sequence[str], max_gpus: int, scenario: Scenario) -> tuple[FloatArray, FloatArray]:
    """`traffic` and `host_stage` of a speed table."""
    traffic, host_stage = np.zeros((len(models), max_gpus + 1)), np.zeros(len(models))
    if scenario.contention.mode != "off":
        for i, model in enumerate(models):
            profile = model_profile(model)
            for gpus in range(1, max_gpus + 1):
                traffic[i, gpus] = 2.0 * profile.gradient_gb / profile.usual_batch(gpus)
            host_stage[i] = stage_profile(model).host
    return traffic, host_stage
