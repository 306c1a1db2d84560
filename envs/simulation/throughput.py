"""Throughputs as a dense table, so that the engine never calls a performance model during a run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from envs.performance import PerformanceModel, model_profile
from envs.performance.contention import stage_profile
from envs.simulation.scenario import Scenario
from envs.simulation.setup import Setup
from envs.types import Configuration, FloatArray, IntArray

CPU_GRID = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0])  # cores per GPU: Synergy's grid, OSDI'22
MEMORY_GRID = np.array([0.0, 20.83, 62.5, 125.0, 187.5, 250.0])  # GB per GPU
MOST_NODE_GPUS = 8  # more GPUs of one job on a node count as 8
NUM_LEVELS = 8  # node counts 1, 2, 3-4, 5-8, ... share a level: ceil(log2(nodes)), the last one open


def node_level(num_nodes: int) -> int:
    """The level of a node count: ceil(log2(num_nodes)), at most the last."""
    return min((num_nodes - 1).bit_length(), NUM_LEVELS - 1)


@dataclass(frozen=True)
class CpuMemoryTable:
    """Effect of cores and memory on throughput: bilinear between grid points, constant beyond the last.

    The values come from the performance model for GPUs of one node. For jobs on several nodes, the node with most GPUs
    decides; this is exact for `TableModel` and an approximation for models of whole plans. Placements that name their
    cores and memory get exact values (`ExactThroughputs`).
    """

    cpus: FloatArray  # float64[c], cores per GPU, ascending from 0
    memory: FloatArray  # float64[m], GB per GPU, ascending from 0
    factor: FloatArray  # float64[num_models, 9, c, m]: fraction of the saturated throughput, by GPUs on the node
    saturating: FloatArray  # float64[num_models, 9, 2]: cores and GB per GPU at which throughput saturates

    @classmethod
    def neutral(cls, num_models: int) -> "CpuMemoryTable":
        """A table in which cores and memory have no effect."""
        grid = np.array([0.0, 1.0])
        return cls(
            grid, grid, np.ones((num_models, MOST_NODE_GPUS + 1, 2, 2)), np.zeros((num_models, MOST_NODE_GPUS + 1, 2))
        )

    @classmethod
    def build(cls, setup: Setup, models: Sequence[str]) -> "CpuMemoryTable":
        """Query the performance model at every grid point; a size that runs on no type copies the next lower one."""
        factor = np.zeros((len(models), MOST_NODE_GPUS + 1, len(CPU_GRID), len(MEMORY_GRID)))
        saturating = np.zeros((len(models), MOST_NODE_GPUS + 1, 2))
        for i, model in enumerate(models):
            factor[i, 0, 1:, 1:] = 1.0
            for gpus in range(1, MOST_NODE_GPUS + 1):
                factor[i, gpus] = factor[i, gpus - 1]
                for gpu_type in setup.cluster.gpu_types:
                    if setup.performance.throughput(model, Configuration(gpu_type, gpus)) > 0:
                        factor[i, gpus] = _cpu_memory_factor(setup.performance, model, gpu_type, gpus)
                        break
                enough = factor[i, gpus] >= factor[i, gpus, -1, -1] * (1 - 1e-12)
                row = int(np.flatnonzero(enough.any(axis=1))[0])
                saturating[i, gpus] = CPU_GRID[row], MEMORY_GRID[int(np.flatnonzero(enough[row])[0])]
        return cls(CPU_GRID, MEMORY_GRID, factor, saturating)


def _cpu_memory_factor(performance: PerformanceModel, model: str, gpu_type: str, gpus: int) -> FloatArray:
    """float64[c, m]: throughput on GPUs of one node relative to ample cores and memory."""
    factor = np.zeros((len(CPU_GRID), len(MEMORY_GRID)))
    ample = performance.throughput(model, Configuration(gpu_type, gpus))
    for row, cpus in enumerate(CPU_GRID.tolist()):
        for column, memory in enumerate(MEMORY_GRID.tolist()):
            if cpus > 0 and memory > 0:
                fed = Configuration(gpu_type, gpus, cpus_per_gpu=cpus, memory_per_gpu=memory)
                throughput = performance.throughput(model, fed)
                factor[row, column] = min(throughput / ample, 1.0)
    return factor


@dataclass(frozen=True)
class ThroughputTable:
    """Throughput of every model by GPU type, number of GPUs and level of nodes within one cluster.

    Attributes:
        models: names, in the order of the first axis.
        throughputs: float64[num_models, num_gpu_types, max_gpus + 1, NUM_LEVELS], samples/s on GPUs of one type over
            `2 ** level` nodes; 0 where the model does not run.
        levels: int64[num_gpu_types, max_gpus + 1], level of the fewest nodes of a type that hold so many GPUs;
            -1 where the cluster has too few.
        traffic: float64[num_models, max_gpus + 1], GB that a sample sends around the ring of so many GPUs; 0 without
            contention.
        cpu_stage_fraction: float64[num_models], fraction of a step that uses the CPUs; 0 without contention.
        cpu_memory: effect of cores and memory on throughput; neutral where the scenario does not divide them.
    """

    models: tuple[str, ...]
    throughputs: FloatArray
    levels: IntArray
    traffic: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    cpu_stage_fraction: FloatArray = field(default_factory=lambda: np.zeros(0))
    cpu_memory: CpuMemoryTable = field(default_factory=lambda: CpuMemoryTable.neutral(0))

    @classmethod
    def build(
        cls,
        setup: Setup,
        models: Sequence[str],
        max_gpus: int,
        smaller: "ThroughputTable | None" = None,
    ) -> "ThroughputTable":
        """Query the performance model once for every (model, GPU type, GPUs, node level), and fill the other fields.

        The table covers one GPU to `max_gpus`, at least 8 so that a job's visible scaling does not depend on the other
        jobs, and at most the GPUs of the cluster. `smaller` is a table of the same setup with fewer GPUs; its values
        for cores and memory are reused.

        Raises:
            PerformanceError: a model or GPU type has no figures, or the zoo has none for its traffic or cores.
        """
        cluster, scenario = setup.cluster, setup.scenario
        num_types = len(cluster.gpu_types)
        max_gpus = min(max(max_gpus, 8), cluster.num_gpus)
        throughputs = np.zeros((len(models), num_types, max_gpus + 1, NUM_LEVELS))
        levels = np.full((num_types, max_gpus + 1), -1, np.int64)
        for gpu_type in range(num_types):
            sizes = np.sort(cluster.node_gpus[cluster.node_types == gpu_type])[::-1]
            held = np.cumsum(sizes)
            for gpus in range(1, min(max_gpus, int(held[-1])) + 1):
                levels[gpu_type, gpus] = node_level(int(np.searchsorted(held, gpus)) + 1)
        configurations = [
            ((gpu_type, gpus, level), Configuration(name, gpus, min(2**level, gpus)))
            for gpu_type, name in enumerate(cluster.gpu_types)
            for gpus in range(1, max_gpus + 1)
            for level in range(min(NUM_LEVELS, (gpus - 1).bit_length() + 1))
        ]
        for i, model in enumerate(models):
            for place, configuration in configurations:
                throughputs[i][place] = setup.performance.throughput(model, configuration)
        throughputs.flags.writeable = levels.flags.writeable = False
        shared = scenario.cpu_memory == "shared"
        if smaller is not None and smaller.models == tuple(models):
            cpu_memory = smaller.cpu_memory
        else:
            cpu_memory = CpuMemoryTable.build(setup, models) if shared else CpuMemoryTable.neutral(len(models))
        return cls(tuple(models), throughputs, levels, *_contention_columns(models, max_gpus, scenario), cpu_memory)

    def reference(self) -> FloatArray:
        """float64[num_models, max_gpus + 1]: throughput on the fewest nodes of the fastest type."""
        return self._reference.copy()

    @cached_property
    def _reference(self) -> FloatArray:
        best: FloatArray = self.consolidated().max(axis=1)
        return best

    def requested_throughput(self, models: IntArray, num_gpus: IntArray) -> FloatArray:
        """float64[num_jobs]: `reference` for these models and sizes; larger sizes count as the table's largest."""
        throughput: FloatArray = self._reference[models, np.minimum(num_gpus, self._reference.shape[1] - 1)]
        return throughput

    def consolidated(self) -> FloatArray:
        """float64[num_models, num_gpu_types, max_gpus + 1]: throughput on the fewest nodes, read only.

        0 where the cluster has too few GPUs of the type.
        """
        return self._consolidated

    @cached_property
    def _consolidated(self) -> FloatArray:
        gpu_type, gpus = np.indices(self.levels.shape)
        best: FloatArray = self.throughputs[:, gpu_type, gpus, np.maximum(self.levels, 0)]
        throughput: FloatArray = np.where(self.levels >= 0, best, 0.0)
        throughput.flags.writeable = False
        return throughput


def _contention_columns(models: Sequence[str], max_gpus: int, scenario: Scenario) -> tuple[FloatArray, FloatArray]:
    """`traffic` and `cpu_stage_fraction` of a throughput table."""
    traffic, cpu_stage_fraction = np.zeros((len(models), max_gpus + 1)), np.zeros(len(models))
    if scenario.contention.mode != "off":
        for i, model in enumerate(models):
            profile = model_profile(model)
            for gpus in range(1, max_gpus + 1):
                traffic[i, gpus] = 2.0 * profile.gradient_gb / profile.usual_batch(gpus)
            cpu_stage_fraction[i] = stage_profile(model).cpu
    return traffic, cpu_stage_fraction
