"""Throughputs as a dense table, so that the engine never calls a performance model during a run."""

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from envs.performance import (
    DrawnModel,
    PerformanceModel,
    allows,
    cpu_scale,
    find_throughput,
    model_profile,
    plain_model,
)
from envs.performance.contention import stage_profile
from envs.performance.pairs import find_pair_factor
from envs.simulation.scenario import Scenario
from envs.simulation.setup import Setup
from envs.simulation.world.link_limit import LinkLimit
from envs.types import (
    BoolArray,
    ClusterSpec,
    Configuration,
    Constraints,
    FloatArray,
    IntArray,
    ResourceTables,
    SharedResources,
    constraints_of,
    plain_type,
    seal,
    without_constraints,
)
from envs.types.limits import divide_among

CPU_GRID = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0])  # cores per GPU: Synergy's grid, OSDI'22
MEMORY_GRID = np.array([0.0, 20.83, 62.5, 125.0, 187.5, 250.0])  # GB per GPU: Synergy's grid
MEMORY_STEP = 62.5  # GB per GPU between further points, where a model gains from more than the grid's last one
MOST_NODE_GPUS = 8  # more GPUs of one job on a node count as 8
EXACT_NODES = 8  # node counts up to here have a level each; above, 9-16, 17-32, ... share one
NUM_LEVELS = 12  # the last one, of 65 nodes and more, is open


def node_level(num_nodes: int) -> int:
    """The level of a node count: one less than it up to `EXACT_NODES`, then one per power of two, at most the last."""
    if num_nodes <= EXACT_NODES:
        return num_nodes - 1
    return min((num_nodes - 1).bit_length() + EXACT_NODES - 4, NUM_LEVELS - 1)


def level_nodes(level: int) -> int:
    """The most nodes of a level, for which the throughput table holds its throughputs."""
    return level + 1 if level < EXACT_NODES else 1 << (level - EXACT_NODES + 4)


def cells_of(grid: FloatArray) -> IntArray:
    """int64[last point + 1]: for whole amounts, the index of the last point that is at most it and has a successor.

    A grid's points are at least 1 apart, so that an amount in between is in this cell or the next.
    """
    assert (np.diff(grid) >= 1.0).all(), "cells_of: grid points must be at least 1 apart"
    whole = np.arange(int(grid[-1]) + 1)
    return np.minimum(np.searchsorted(grid, whole, side="right") - 1, len(grid) - 2)


@dataclass(frozen=True)
class CpuMemoryTable:
    """Effect of cores and memory on throughput: bilinear between grid points, constant beyond the last.

    The values come from the performance model for GPUs of one node. For jobs on several nodes, the node with most GPUs
    decides; this is exact for `TableModel` and an approximation for models of whole plans. Placements that name their
    cores and memory get exact values (`ExactThroughputs`).

    A job on a faster GPU type needs more cores for each GPU. The grid of cores therefore counts cores of a GPU type
    with scale 1; a GPU of another type needs `scale` times as many (`envs.performance.cpu_scale`). Memory is not
    scaled.
    """

    cpus: FloatArray  # float64[c], cores per GPU at scale 1, ascending from 0
    memory: FloatArray  # float64[m], GB per GPU, ascending from 0
    factor: FloatArray  # float64[num_models, num_gpu_types, 9, c, m]: fraction of the saturated throughput, by GPUs of
    # the job on the node
    saturating: FloatArray  # float64[num_models, num_gpu_types, 9, 2]: cores (of this type) and GB per GPU at which
    # throughput saturates
    scale: FloatArray  # float64[num_models, num_gpu_types]: cores that stand for one core of the grid

    def __post_init__(self) -> None:
        for name in ("cpus", "memory", "factor", "saturating", "scale"):
            object.__setattr__(self, name, seal(getattr(self, name)))

    @classmethod
    def neutral(cls, num_models: int, num_types: int) -> "CpuMemoryTable":
        """A table in which cores and memory have no effect."""
        grid, shape = np.array([0.0, 1.0]), (num_models, num_types, MOST_NODE_GPUS + 1)
        return cls(grid, grid, np.ones((*shape, 2, 2)), np.zeros((*shape, 2)), np.ones(shape[:2]))

    @classmethod
    def of_draws(cls, setup: Setup, models: Sequence[str]) -> "CpuMemoryTable":
        """Build the table of the models without draws and constraints, which share its rows."""
        known = tuple(sorted({plain_model(model) for model in models}))
        if set(known) == set(models):
            return cls.build(setup, models)
        if id(setup) not in _UNDRAWN:
            _UNDRAWN[id(setup)] = {}
            weakref.finalize(setup, _UNDRAWN.pop, id(setup), None)
        if known not in _UNDRAWN[id(setup)]:
            _UNDRAWN[id(setup)][known] = cls.build(setup, known)
        table = _UNDRAWN[id(setup)][known]
        rows = np.array([known.index(plain_model(model)) for model in models])
        return replace(table, factor=table.factor[rows], saturating=table.saturating[rows], scale=table.scale[rows])

    @classmethod
    def build(cls, setup: Setup, models: Sequence[str]) -> "CpuMemoryTable":
        """Query the performance model at every grid point; a size that does not run copies the next lower one."""
        gpu_types, performance = setup.cluster.gpu_types, setup.performance
        shape = (len(models), len(gpu_types), MOST_NODE_GPUS + 1)
        memory = memory_grid(setup, models)
        factor = np.zeros((*shape, len(CPU_GRID), len(memory)))
        saturating, scale = np.zeros((*shape, 2)), np.ones(shape[:2])
        for i, t in np.ndindex(shape[:2]):
            model, gpu_type, grid = models[i], gpu_types[t], factor[i, t]
            scale[i, t] = cpu_scale(performance, model, gpu_type)
            grid[0, 1:, 1:] = 1.0
            for gpus in range(1, MOST_NODE_GPUS + 1):
                grid[gpus] = grid[gpus - 1]
                if find_throughput(performance, model, Configuration(gpu_type, gpus)) > 0:
                    grid[gpus] = _cpu_memory_factor(performance, model, gpu_type, gpus, CPU_GRID * scale[i, t], memory)
                enough = grid[gpus] >= grid[gpus, -1, -1] * (1 - 1e-12)
                row = int(np.flatnonzero(enough.any(axis=1))[0])
                column = int(np.flatnonzero(enough[row])[0])
                saturating[i, t, gpus] = CPU_GRID[row] * scale[i, t], memory[column]
        return cls(CPU_GRID, memory, factor, saturating, scale)


_UNDRAWN: dict[int, dict[tuple[str, ...], CpuMemoryTable]] = {}  # by the identity of a setup


def memory_grid(setup: Setup, models: Sequence[str]) -> FloatArray:
    """float64[m]: the grid of memory, GB per GPU: `MEMORY_GRID`, and more points where a model gains from more.

    A model whose plans move optimizer states to the host needs hundreds of GB for each of a few GPUs. The grid ends
    where no model on one node gains from more, or where no node has more.
    """
    cluster, throughput = setup.cluster, partial(find_throughput, setup.performance)
    needed = float(MEMORY_GRID[-1])
    for model, gpu_type in itertools.product(models, cluster.gpu_types):
        of_type = [node for node in cluster.nodes if node.gpu_type == gpu_type]
        for gpus in range(1, min(MOST_NODE_GPUS, max(node.num_gpus for node in of_type)) + 1):
            most = max(node.memory for node in of_type) / gpus
            ample = throughput(model, Configuration(gpu_type, gpus))
            while needed < most and (
                throughput(model, Configuration(gpu_type, gpus, memory_per_gpu=needed)) < ample * (1 - 1e-12)
            ):
                needed += MEMORY_STEP
    further = np.arange(MEMORY_GRID[-1] + MEMORY_STEP, needed + MEMORY_STEP / 2, MEMORY_STEP)
    return np.concatenate([MEMORY_GRID, further])


def _cpu_memory_factor(
    performance: PerformanceModel, model: str, gpu_type: str, gpus: int, cores: FloatArray, amounts: FloatArray
) -> FloatArray:
    """float64[c, m]: throughput on GPUs of one node relative to ample cores and memory, by cores for each GPU."""
    factor = np.zeros((len(cores), len(amounts)))
    ample = find_throughput(performance, model, Configuration(gpu_type, gpus))
    for row, cpus in enumerate(cores.tolist()):
        for column, memory in enumerate(amounts.tolist()):
            if cpus > 0 and memory > 0:
                fed = Configuration(gpu_type, gpus, cpus_per_gpu=cpus, memory_per_gpu=memory)
                throughput = find_throughput(performance, model, fed)
                factor[row, column] = min(throughput / ample, 1.0)
    return factor


def _all_throughputs(setup: Setup, models: Sequence[str], max_gpus: int) -> FloatArray:
    """float64[num_models, num_gpu_types, max_gpus + 1, NUM_LEVELS], see `ThroughputTable.throughputs`."""
    gpu_types = setup.cluster.gpu_types
    throughputs = np.zeros((len(models), len(gpu_types), max_gpus + 1, NUM_LEVELS))
    if isinstance(setup.performance, DrawnModel):  # with a curve for each job, the queries below take seconds
        gpus, level = np.indices(throughputs.shape[2:])
        nodes = np.minimum(np.array([level_nodes(each) for each in range(NUM_LEVELS)])[level], gpus)
        inside = np.array([node_level(max(each, 1)) for each in range(max_gpus + 1)])[gpus] >= level
        for (i, model), (t, name) in itertools.product(enumerate(models), enumerate(gpu_types)):
            curve = setup.performance.curve(without_constraints(model), plain_type(name), max_gpus)
            throughputs[i, t] = np.where(inside, curve[gpus, nodes], 0.0)
            for n, k in np.argwhere(throughputs[i, t] > 0).tolist() if constraints_of(model) else ():
                throughputs[i, t, n, k] *= allows(model, Configuration(name, n, min(level_nodes(k), n)))
        return throughputs
    configurations = [
        ((gpu_type, gpus, level), Configuration(name, gpus, min(level_nodes(level), gpus)))
        for gpu_type, name in enumerate(gpu_types)
        for gpus in range(1, max_gpus + 1)
        for level in range(node_level(gpus) + 1)
    ]
    for i, model in enumerate(models):
        for place, configuration in configurations:
            throughputs[i][place] = find_throughput(setup.performance, model, configuration)
    return throughputs


def find_pair_factors(setup: Setup, models: Sequence[str]) -> FloatArray:
    """float64[num_gpu_types, num_models, num_models], see `ThroughputTable`; names of a model share alike.

    Where one of two jobs does not fit beside the other, neither fits.
    """
    known = sorted({plain_model(model) for model in models})
    factors = np.array(
        [
            [[find_pair_factor(setup.performance, model, other, gpu_type) for other in known] for model in known]
            for gpu_type in setup.cluster.gpu_types
        ]
    )
    factors = np.where(factors.transpose(0, 2, 1) > 0, factors, 0.0)
    rows = np.array([known.index(plain_model(model)) for model in models])
    alone = np.array([constraints_of(model).exclusive for model in models])
    found: FloatArray = np.where(alone[:, None] | alone, 0.0, factors[:, rows[:, None], rows])
    return found


def find_undivided(cluster: ClusterSpec, models: Sequence[str], max_gpus: int) -> BoolArray:
    """bool[num_models, num_gpu_types, max_gpus + 1], see `ThroughputTable`."""
    asked = [constraints_of(model) for model in models]
    if not any(each.demand_nodes(1) for each in asked):
        return np.zeros((0, 0, 0), np.bool_)
    shape, known = (len(cluster.gpu_types), max_gpus + 1), dict[Constraints, BoolArray]()
    for each in asked:
        if each not in known:
            known[each] = np.zeros(shape, np.bool_)
            for gpu_type, gpus in np.ndindex(shape) if each.demand_nodes(1) else ():
                known[each][gpu_type, gpus] = not (
                    gpus and divide_among(each, cluster.node_gpus, cluster, gpus, gpu_type)
                )
    return np.array([known[each] for each in asked])


MOST_BUILT = 32  # tables that are kept for one setup
_BUILT: dict[int, dict[tuple[tuple[str, ...], int], "ThroughputTable"]] = {}  # by the identity of a setup


@dataclass(frozen=True)
class ThroughputTable:
    """Throughput of every model by GPU type, number of GPUs and level of nodes within one cluster; nobody can write it.

    Attributes:
        models: names, in the order of the first axis.
        throughputs: float64[num_models, num_gpu_types, max_gpus + 1, NUM_LEVELS], samples/s on GPUs of one type over
            `level_nodes(level)` nodes, or one node per GPU if those are fewer; 0 where the model does not run.
        levels: int64[num_gpu_types, max_gpus + 1], level of the fewest nodes of a type that hold so many GPUs;
            -1 where the cluster has too few.
        link_limit: float64[num_models, num_gpu_types, max_gpus + 1], the most samples/s that the slowest link of a
            type carries for a job on the fewest nodes; infinite where there is no limit. `throughputs` are without it.
        links_limit: int64[num_models], whether links limit jobs that are alone on them: 0 no, 1 where their placement
            names no plan, 2 always.
        traffic: float64[num_models, max_gpus + 1], GB that a sample sends around the ring of so many GPUs; 0 without
            contention.
        cpu_stage_fraction: float64[num_models], fraction of a step that uses the CPUs; 0 without contention.
        cpu_memory: effect of cores and memory on throughput; neutral where the scenario does not divide them.
        pair_factors: float64[num_gpu_types, num_models, num_models], the fraction of its throughput that a job keeps
            beside another one on the same GPUs; 0 where they do not fit together. Empty where none share.
        undivided: bool[num_models, num_gpu_types, max_gpus + 1], where nodes of a type cannot hold so many GPUs in the
            division that constraints demand. Empty where none do.
    """

    models: tuple[str, ...]
    throughputs: FloatArray
    levels: IntArray
    link_limit: FloatArray = field(default_factory=lambda: np.full((0, 0, 0), np.inf))
    links_limit: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    traffic: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    cpu_stage_fraction: FloatArray = field(default_factory=lambda: np.zeros(0))
    cpu_memory: CpuMemoryTable = field(default_factory=lambda: CpuMemoryTable.neutral(0, 0))
    pair_factors: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    undivided: BoolArray = field(default_factory=lambda: np.zeros((0, 0, 0), np.bool_))

    def __post_init__(self) -> None:
        columns = (
            "throughputs",
            "levels",
            "link_limit",
            "links_limit",
            "traffic",
            "cpu_stage_fraction",
            "pair_factors",
            "undivided",
        )
        for name in columns:
            object.__setattr__(self, name, seal(getattr(self, name)))

    @classmethod
    def of(cls, setup: Setup, models: Sequence[str], max_gpus: int) -> "ThroughputTable":
        """Return the table that `build` returns; it is built once for the lifetime of a setup."""
        if id(setup) not in _BUILT:
            _BUILT[id(setup)] = {}
            weakref.finalize(setup, _BUILT.pop, id(setup), None)
        built, key = _BUILT[id(setup)], (tuple(models), max_gpus)
        if key not in built:
            smaller = next((table for table in built.values() if table.models == key[0]), None)
            if len(built) >= MOST_BUILT:  # where throughputs are drawn, each workload has a table of its own
                del built[next(iter(built))]
            built[key] = cls.build(setup, models, max_gpus, smaller)
        return built[key]

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
        jobs, and at most the GPUs of the cluster. `smaller` is another table of the same setup and models; its values
        for cores and memory are reused.

        Raises:
            PerformanceError: a model or GPU type has no figures, or the zoo has none for its traffic or cores.
        """
        cluster, scenario = setup.cluster, setup.scenario
        num_types = len(cluster.gpu_types)
        max_gpus = min(max(max_gpus, 8), cluster.num_gpus)
        throughputs = _all_throughputs(setup, models, max_gpus)
        levels = np.full((num_types, max_gpus + 1), -1, np.int64)
        links = LinkLimit(setup)
        link_limit = np.full((len(models), num_types, max_gpus + 1), np.inf)
        for gpu_type, name in enumerate(cluster.gpu_types):
            sizes = np.sort(cluster.node_gpus[cluster.node_types == gpu_type])[::-1]
            held = np.cumsum(sizes)
            for gpus in range(1, min(max_gpus, int(held[-1])) + 1):
                nodes = int(np.searchsorted(held, gpus)) + 1
                levels[gpu_type, gpus] = node_level(nodes)
                for i, model in enumerate(models if links.active else ()):
                    spread = max(nodes, constraints_of(model).demand_nodes(gpus))
                    link_limit[i, gpu_type, gpus] = links.throughput(model, gpus, spread, links.least[name])
        shared = scenario.cpu_memory == "shared"
        if smaller is not None and smaller.models == tuple(models):
            cpu_memory = smaller.cpu_memory
        else:
            neutral = CpuMemoryTable.neutral(len(models), num_types)
            cpu_memory = CpuMemoryTable.of_draws(setup, models) if shared else neutral
        columns = _contention_columns(models, max_gpus, scenario)
        pairs = find_pair_factors(setup, models) if scenario.sharing == "pairs" else np.zeros((0, 0, 0))
        links_limit = np.array([int(links.active) + links.covers_plans(model) for model in models], np.int64)
        undivided = find_undivided(cluster, models, max_gpus)
        return cls(tuple(models), throughputs, levels, link_limit, links_limit, *columns, cpu_memory, pairs, undivided)

    def shared_resources(self, scenario: Scenario) -> SharedResources:
        """What schedulers may know about the resources that jobs share."""
        table = self.cpu_memory
        arrays = (table.cpus, table.memory, table.factor, table.saturating, table.scale)
        tables = ResourceTables(*(array.view() for array in (*arrays, self.traffic, self.cpu_stage_fraction)))
        return SharedResources(scenario.contention.mode, scenario.cpu_memory == "shared", self.models, tables)

    def reference(self) -> FloatArray:
        """float64[num_models, max_gpus + 1]: throughput on the fewest nodes of the fastest type."""
        return self._reference.view()  # whose shape may be changed without harm

    @cached_property
    def _reference(self) -> FloatArray:
        best: FloatArray = self.consolidated().max(axis=1)
        return seal(best)

    def requested_throughput(self, models: IntArray, num_gpus: IntArray) -> FloatArray:
        """float64[num_jobs]: `reference` for these models and sizes; larger sizes count as the table's largest."""
        throughput: FloatArray = self._reference[models, np.minimum(num_gpus, self._reference.shape[1] - 1)]
        return throughput

    def consolidated(self) -> FloatArray:
        """float64[num_models, num_gpu_types, max_gpus + 1]: on the fewest allowed nodes, alone on their links.

        Read only; 0 where the cluster has too few GPUs of the type. A larger size may be slower than a smaller one that
        needs fewer nodes.
        """
        return self._consolidated.view()

    @cached_property
    def _consolidated(self) -> FloatArray:
        return seal(self.consolidate(self.throughputs, slice(None)))

    @cached_property
    def _fewest_nodes(self) -> IntArray:
        """int64[num_gpu_types, max_gpus + 1]: place of the fewest nodes in a model's flat throughputs."""
        shape = self.throughputs.shape[1:]
        found: IntArray = np.ravel_multi_index((*np.indices(self.levels.shape), np.maximum(self.levels, 0)), shape)
        return found

    @cached_property
    def _demanded_nodes(self) -> dict[int, IntArray]:
        """The same for the models whose constraints demand a number of nodes, by row."""
        return {
            row: self._fewest_nodes - np.maximum(self.levels, 0) + self.levels_of(row)
            for row, model in enumerate(self.models)
            if constraints_of(model).demand_nodes(1)
        }

    def levels_of(self, row: int) -> IntArray:
        """int64[num_gpu_types, max_gpus + 1]: `levels` of a model, on the fewest nodes that its constraints allow."""
        asked, last = constraints_of(self.models[row]), self.throughputs.shape[3] - 1
        demanded = [asked.demand_nodes(gpus) for gpus in range(self.levels.shape[1])]
        least = [min(node_level(nodes), last) if nodes else 0 for nodes in demanded]
        found: IntArray = np.maximum(self.levels, least)
        return found

    def consolidate(self, throughputs: FloatArray, rows: slice | IntArray) -> FloatArray:
        """Return what `consolidated` would be with other throughputs of some models.

        Args:
            throughputs: float64[len(rows), num_gpu_types, max_gpus + 1, NUM_LEVELS].
            rows: the models.
        """
        best = throughputs.reshape(len(throughputs), -1)[:, self._fewest_nodes]
        for at, row in enumerate(np.arange(len(self.models))[rows].tolist() if self._demanded_nodes else ()):
            if row in self._demanded_nodes:
                best[at] = throughputs[at].reshape(-1)[self._demanded_nodes[row]]
        throughput: FloatArray = np.where(self.levels >= 0, best, 0.0)
        if self.undivided.size:
            throughput[self.undivided[rows]] = 0.0
        return np.minimum(throughput, self.link_limit[rows]) if self.links_limit.any() else throughput

    def most_nodes(self) -> IntArray:
        """int64[num_models, num_gpu_types, max_gpus + 1]: the most nodes on which so many GPUs of a type run a model.

        0 where they run it on no number of nodes; read only.
        """
        return self._most_nodes.view()

    @cached_property
    def _most_nodes(self) -> IntArray:
        runs = self.throughputs > 0
        last = runs.shape[3] - 1 - np.argmax(runs[..., ::-1], axis=3)
        nodes = np.array([level_nodes(level) for level in range(runs.shape[3])])
        nodes[-1] = runs.shape[2]  # the last level is open
        most = np.minimum(np.where(runs.any(axis=3), nodes[last], 0), np.arange(runs.shape[2]))
        for row, model in enumerate(self.models):
            if limit := constraints_of(model).max_nodes or constraints_of(model).num_nodes:
                most[row] = np.minimum(most[row], limit)
        return seal(most)


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
