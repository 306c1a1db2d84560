"""Throughputs in the reference implementation: those of `docs/world.md`, asked of the performance model one by one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from envs.performance import counts_links, find_pair_factor, find_throughput, model_profile, plain_model
from envs.performance.contention import stage_profile
from envs.simulation.reference.cores import CoresAndMemory
from envs.simulation.setup import Setup
from envs.types import (
    ClusterError,
    Configuration,
    FloatArray,
    Gigabytes,
    IntArray,
    ResourceTables,
    SharedResources,
    constraints_of,
)
from envs.workloads import Workload

NODE_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128)  # for which throughputs are asked; others count as the next one
LEAST_SIZES = 8  # sizes that views show at least, where the cluster has so many GPUs


def counted_as(num_nodes: int) -> int:
    """Place in `NODE_COUNTS` of the node count as which a number of nodes counts."""
    return next((place for place, count in enumerate(NODE_COUNTS) if num_nodes <= count), len(NODE_COUNTS) - 1)


@dataclass(frozen=True)
class ReferenceTable:
    """Throughputs of the models of a workload on one cluster, true or believed, and what else is known by model.

    Attributes:
        setup: the cluster, the performance model and the scenario.
        models: their names.
        throughputs: float64[num_models, num_gpu_types, max_gpus + 1, len(NODE_COUNTS)], samples/s; 0 where a model does
            not run, and for more nodes than a number of GPUs can count as.
        pair_factors: float64[num_gpu_types, num_models, num_models], what is kept beside another model; empty where
            jobs do not share GPUs.
        cpu_memory: effects of cores and memory.
    """

    setup: Setup
    models: tuple[str, ...]
    throughputs: FloatArray
    pair_factors: FloatArray
    cpu_memory: CoresAndMemory

    @classmethod
    def ask(cls, setup: Setup, models: Sequence[str], max_gpus: int) -> "ReferenceTable":
        """Ask the performance model about all models, for jobs of up to `max_gpus` GPUs."""
        sizes = min(max(max_gpus, LEAST_SIZES), setup.cluster.num_gpus)
        pairs = ask_pairs(setup, models) if setup.scenario.sharing == "pairs" else np.zeros((0, 0, 0))
        return cls(setup, tuple(models), ask_alone(setup, models, sizes), pairs, CoresAndMemory(setup, models))

    @property
    def size(self) -> int:
        """The largest number of GPUs."""
        return int(self.throughputs.shape[2]) - 1

    @cached_property
    def fewest_nodes(self) -> list[list[int]]:
        """By GPU type and number of GPUs: the fewest nodes of the type that hold so many; 0 if it has too few."""
        return [[self._count_nodes(name, gpus) for gpus in range(self.size + 1)] for name in self.types]

    def allowed_nodes(self, model: int, gpu_type: int, num_gpus: int) -> int:
        """The same, and as many as the constraints of a model's jobs ask for; 0 if they are too small for that."""
        fewest, asked = self.fewest_nodes[gpu_type][num_gpus], constraints_of(self.models[model])
        spread = math.ceil(num_gpus / asked.gpus_per_node) if asked.gpus_per_node else 0
        if not fewest or not (asked.num_nodes or spread):
            return fewest
        count, name = asked.num_nodes or spread, self.types[gpu_type]
        of_type = [node.num_gpus for node in self.setup.cluster.nodes if node.gpu_type == name]
        largest = sorted(of_type, reverse=True)[:count]
        enough = min(largest) >= asked.gpus_per_node if asked.gpus_per_node else sum(largest) >= num_gpus
        return count if len(largest) == count and enough else 0

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the GPU types."""
        return self.setup.cluster.gpu_types

    def _count_nodes(self, gpu_type: str, num_gpus: int) -> int:
        left, used = num_gpus, 0
        of_type = [node.num_gpus for node in self.setup.cluster.nodes if node.gpu_type == gpu_type]
        for held in sorted(of_type, reverse=True):
            if left > 0:
                left, used = left - held, used + 1
        return used if left <= 0 else 0

    @cached_property
    def levels(self) -> IntArray:
        """int64[num_gpu_types, max_gpus + 1]: as what `fewest_nodes` counts; -1 for too few GPUs and for none."""
        rows = [[counted_as(nodes) if nodes else -1 for nodes in row] for row in self.fewest_nodes]
        return np.array(rows, np.int64)

    @cached_property
    def traffic(self) -> FloatArray:
        """float64[num_models, max_gpus + 1]: GB that a sample sends around the ring; 0 without contention."""
        traffic = np.zeros((len(self.models), self.size + 1))
        for i, model in enumerate(self.models if self.setup.scenario.contention.mode != "off" else ()):
            for gpus in range(1, self.size + 1):
                traffic[i, gpus] = 2.0 * model_profile(model).gradient_gb / model_profile(model).usual_batch(gpus)
        return traffic

    @cached_property
    def cpu_stage_fraction(self) -> FloatArray:
        """float64[num_models]: fraction of a step that uses the CPUs; 0 without contention."""
        off = self.setup.scenario.contention.mode == "off"
        return np.array([0.0 if off else stage_profile(model).cpu for model in self.models])

    def consolidated(self) -> FloatArray:
        """float64[num_models, num_gpu_types, max_gpus + 1]: on the fewest nodes, as much as links carry."""
        return self._consolidated.copy()

    @cached_property
    def _consolidated(self) -> FloatArray:
        found = np.zeros(self.throughputs.shape[:3])
        for i, t, gpus in np.ndindex(found.shape):
            if nodes := self.allowed_nodes(i, t, gpus):
                throughput = float(self.throughputs[i, t, gpus, counted_as(nodes)])
                link = least_link(self.setup, self.types[t])
                found[i, t, gpus] = min(throughput, carried(self.setup, self.models[i], gpus, nodes, link))
        return found

    def reference(self) -> FloatArray:
        """float64[num_models, max_gpus + 1]: `consolidated` on the fastest type."""
        best: FloatArray = self._consolidated.max(axis=1)
        return best

    def most_nodes(self) -> IntArray:
        """int64[num_models, num_gpu_types, max_gpus + 1]: the most nodes on which so many GPUs run a model, else 0."""
        found = np.zeros(self.throughputs.shape[:3], np.int64)
        for i, t, gpus in np.ndindex(found.shape):
            limits = constraints_of(self.models[i])
            for nodes in range(1, min(gpus, limits.max_nodes or limits.num_nodes or gpus) + 1):
                if self.throughputs[i, t, gpus, counted_as(nodes)] > 0:
                    found[i, t, gpus] = nodes
        return found

    def shared_resources(self) -> SharedResources:
        """What schedulers may know about the resources that jobs share."""
        known, scenario = self.cpu_memory, self.setup.scenario
        arrays = known.cpus, known.memory, known.factor, known.saturating, known.scale
        tables = ResourceTables(*(array.copy() for array in (*arrays, self.traffic, self.cpu_stage_fraction)))
        return SharedResources(scenario.contention.mode, scenario.cpu_memory == "shared", self.models, tables)


def ask_alone(setup: Setup, models: Sequence[str], sizes: int) -> FloatArray:
    """`ReferenceTable.throughputs` of some models, for up to so many GPUs."""
    found = np.zeros((len(models), len(setup.cluster.gpu_types), sizes + 1, len(NODE_COUNTS)))
    for i, t, gpus, place in np.ndindex(found.shape):
        if gpus and place <= counted_as(gpus):
            asked = Configuration(setup.cluster.gpu_types[t], gpus, min(NODE_COUNTS[place], gpus))
            found[i, t, gpus, place] = find_throughput(setup.performance, models[i], asked)
    return found


def ask_pairs(setup: Setup, models: Sequence[str]) -> FloatArray:
    """`ReferenceTable.pair_factors` of some models; 0 for both where one does not fit beside the other or is alone."""
    names, types = [plain_model(model) for model in models], setup.cluster.gpu_types
    found = np.zeros((len(types), len(names), len(names)))
    for t, i, j in np.ndindex(found.shape):
        kept = find_pair_factor(setup.performance, names[i], names[j], types[t])
        fits = find_pair_factor(setup.performance, names[j], names[i], types[t]) > 0
        alone = constraints_of(models[i]).exclusive or constraints_of(models[j]).exclusive
        found[t, i, j] = kept if fits and not alone else 0.0
    return found


def links_limit(setup: Setup) -> bool:
    """Whether links limit jobs that are alone on them, at least those that name no plan."""
    return setup.scenario.contention.mode != "off" and not counts_links(setup.performance)


def least_link(setup: Setup, gpu_type: str) -> Gigabytes:
    """GB/s of the slowest link of the nodes of a type."""
    return min(node.inter_node_bandwidth for node in setup.cluster.nodes if node.gpu_type == gpu_type)


def carried(setup: Setup, model: str, gpus: int, nodes: int, link: Gigabytes, batch_size: int | None = None) -> float:
    """Most samples/s between so many nodes over links of this many GB/s; infinite without a limit."""
    if nodes < 2 or not links_limit(setup):
        return np.inf
    profile = model_profile(model)
    per_sample = 2.0 * profile.gradient_gb / (batch_size or profile.usual_batch(gpus))
    return link / (per_sample * (nodes - 1) / nodes) if per_sample > 0 else np.inf


def check_placeable(workload: Workload, table: ReferenceTable) -> None:
    """Assert that every job has a size in its range on which its model runs.

    Like the compiled engine, it does not see that the cluster has too few GPUs of the types on which the model runs.
    Such a job is never placed, and counts as unfinished.

    Raises:
        ClusterError: names the first job without one.
    """
    cluster = table.setup.cluster
    for job in workload:
        if job.min_gpus > cluster.num_gpus:
            raise ClusterError(
                f"workload {workload.name}: {workload.label(job.id)} needs {job.min_gpus} GPUs, cluster {cluster.name} "
                f"has {cluster.num_gpus}; choose a larger cluster or set workload.max_gpus={cluster.num_gpus}"
            )
        of_model = table.throughputs[workload.models.index(job.model)]
        if not (of_model[:, job.min_gpus : job.max_gpus + 1] > 0).any():
            raise ClusterError(
                f"workload {workload.name}: job {job.id} ({job.model}) runs on none of {', '.join(table.types)} with "
                f"{job.min_gpus} to {job.max_gpus} GPUs; choose a larger cluster"
            )
        sizes = table.consolidated()[workload.models.index(job.model), :, min(job.num_gpus, table.size)]
        if (job.constraints.num_nodes or job.constraints.gpus_per_node) and not (sizes > 0).any():
            raise ClusterError(f"workload {workload.name}: job {job.id} ({job.model}) cannot be divided among nodes")
