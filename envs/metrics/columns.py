"""Columns: the ways in which a job may run, each with what it holds and at most how fast it is.

A column is a number of GPUs of one type with so many cores and so much memory for each of them. Whatever a job holds at
an instant, some mixture of columns holds no more of any resource and is no slower:

- **Several types.** A job on n GPUs, g_i of type i, is no faster than the columns of n GPUs of each type in the shares
  g_i / n, and holds as much. Its cores and memory for each GPU, the least over its nodes, are those of all columns.
- **Cores and memory.** The factor on throughput is bilinear between grid points, so a point within a cell is a mixture
  of its corners. On k nodes, no more is held for each GPU than k / n of what a node has.
- **Links.** A limit makes throughput a concave function of what is held, which corners of a cell need not reach. So
  where one corner of a cell exceeds the limit, all have it. A limit counts where all types that run a size reach it:
  together, GPUs of several types can fill a link that those of one type would exceed or not reach.
- **Pairs.** A job beside another one on the same GPUs counts its throughput's share of `most_together` of each GPU.

Where cores and memory are unlimited, or the performance model's figures for them are no grid, columns hold none.
"""

import itertools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from envs.metrics.best_batches import most_throughputs
from envs.performance import TableModel, find_pair_factor, plain_model
from envs.simulation import LinkLimit, Setup
from envs.simulation.compiled.jit import kernel
from envs.simulation.world.throughput import MOST_NODE_GPUS, ThroughputTable, node_level
from envs.types import BoolArray, FloatArray, IntArray
from envs.workloads import Workload
from envs.workloads.demand import node_counts


def most_together(workload: Workload, setup: Setup) -> FloatArray:
    """float64[num_gpu_types]: the most that two jobs on a GPU do together, in units of what each does alone.

    If both count their share of it, no GPU-second is counted more than once.
    """
    gpu_types = setup.cluster.gpu_types
    if setup.scenario.sharing == "off":
        return np.ones(len(gpu_types))
    models = sorted({plain_model(model) for model in workload.models})
    pairs = list(itertools.combinations_with_replacement(models, 2))
    found = [
        [sum(find_pair_factor(setup.performance, *names, gpu_type) for names in ((a, b), (b, a))) for a, b in pairs]
        for gpu_type in gpu_types
    ]
    most: FloatArray = np.maximum(np.array(found).max(axis=1), 1.0)
    return most


Made = dict[tuple[int, int], tuple[FloatArray, float]]  # by model and GPUs: columns, and the most samples/s
Factors = dict[tuple[str, int, int], tuple[FloatArray, ...]]  # by model, GPU type, GPUs and nodes
_KEPT: dict[int, tuple[Made, Factors]] = {}  # by the identity of a table of throughputs


class GpuSpread(NamedTuple):
    """So many GPUs on so many nodes.

    Fields:
        gpus: GPUs.
        nodes: nodes; 0 if any number of them.
        throughputs: float64[num_gpu_types], samples/s with ample cores and memory, without links; 0 where it does not
            run.
        limit: the most samples/s that links carry.
    """

    gpus: int
    nodes: int
    throughputs: FloatArray
    limit: float


@dataclass(frozen=True)
class Supply:
    """Resources of a cluster, and of its largest nodes.

    Attributes:
        num_gpus: int64[num_gpu_types].
        node_gpus: int64[num_gpu_types], GPUs of the largest node of each type.
        node_most: float64[2, num_gpu_types], most cores, and GB, of a node of each type.
        total: float64[2, num_gpu_types], cores, and GB, of all nodes of each type.
        shares: whether cores and memory count.
    """

    num_gpus: IntArray
    node_gpus: IntArray
    node_most: FloatArray
    total: FloatArray
    shares: bool

    @classmethod
    def of(cls, setup: Setup) -> "Supply":
        """Count what the nodes of a cluster have."""
        nodes, types = setup.cluster.nodes, setup.cluster.node_types
        of_node = np.array([[node.cpu_cores for node in nodes], [node.memory for node in nodes]])
        own = [types == each for each in range(len(setup.cluster.gpu_types))]
        return cls(
            np.array(list(setup.cluster.gpus_by_type.values()), dtype=np.int64),
            np.array([setup.cluster.node_gpus[each].max() for each in own]),
            np.array([of_node[:, each].max(axis=1) for each in own]).T,
            np.array([of_node[:, each].sum(axis=1) for each in own]).T,
            setup.scenario.cpu_memory == "shared" and isinstance(setup.performance, TableModel),
        )

    @property
    def resources(self) -> FloatArray:
        """float64[3, num_gpu_types]: GPUs, cores and GB of each type; the first row alone if only GPUs count."""
        rows = [self.num_gpus[None], self.total] if self.shares else [self.num_gpus[None]]
        return np.concatenate(rows).astype(np.float64)


class ColumnBuilder:
    """Makes the columns of jobs of a workload, and keeps them for other workloads of the same models.

    Args:
        workload: the jobs.
        setup: the cluster, the performance model and the scenario.
    """

    def __init__(self, workload: Workload, setup: Setup) -> None:
        self.workload, self.setup, self.supply = workload, setup, Supply.of(setup)
        self.table = ThroughputTable.of(setup, workload.models, int(workload.jobs["max_gpus"].max()))
        self.links, self.share = LinkLimit(setup), most_together(workload, setup)
        self._room = np.cumsum(np.sort(setup.cluster.node_gpus)[::-1])
        if id(self.table) not in _KEPT:
            _KEPT[id(self.table)] = {}, {}
            weakref.finalize(self.table, _KEPT.pop, id(self.table), None)
        self._made, self._factors = _KEPT[id(self.table)]

    def of_range(self, model: int, sizes: IntArray) -> tuple[FloatArray, float]:
        """Return the columns of a model on these numbers of GPUs, and the most samples/s that one job reaches.

        Returns:
            float64[num_columns, 5], ascending in samples/s: GPU type, GPUs counted, cores, GB, samples/s; none is
            worse than another. Without columns, the job does not run.
        """
        parts = []
        for size in sizes.tolist():
            if (model, size) not in self._made:
                made = [self._columns(model, spread) for spread in self._spreads(model, size)]
                rows = np.concatenate([rows for rows, _ in made])
                self._made[model, size] = undominated(rows), max(most for _, most in made)
            parts.append(self._made[model, size])
        return self._joined(parts)

    def of_batches(self, model: int, sizes: IntArray, own: tuple[int, int]) -> tuple[FloatArray, float]:
        """Return the same if the scheduler may choose any batch size that is offered within the job's own range."""
        name, ranges = self.workload.models[model], np.array([[sizes[0], sizes[-1]]])
        throughputs, limit = most_throughputs(name, ranges, own, self.setup)
        return self._joined(
            [self._columns(model, GpuSpread(n, 0, throughputs[:, n], limit[n])) for n in sizes.tolist()]
        )

    def _joined(self, parts: list[tuple[FloatArray, float]]) -> tuple[FloatArray, float]:
        columns = undominated(np.concatenate([rows for rows, _ in parts] or [np.zeros((0, 5))]))
        return columns[np.argsort(columns[:, 4], kind="stable")], max((most for _, most in parts), default=0.0)

    def _spreads(self, model: int, gpus: int) -> Iterator[GpuSpread]:
        """Yield the numbers of nodes on which a model may run on so many GPUs, at the batch size of the simulator."""
        cluster, table, name = self.setup.cluster, self.table, self.workload.models[model]
        covered = self.links.active and self.links.covers_plans(name)
        for nodes in node_counts(gpus, int(np.searchsorted(self._room, gpus)) + 1, cluster.num_nodes):
            throughputs = table.throughputs[model, :, gpus, node_level(nodes)].copy()
            if nodes == 1:
                throughputs[self.supply.node_gpus < gpus] = 0.0
            limit = self.links.throughput(name, gpus, nodes, self.links.fastest) if covered else np.inf
            yield GpuSpread(gpus, nodes, throughputs, limit)

    def _columns(self, model: int, spread: GpuSpread) -> tuple[FloatArray, float]:
        """Return the columns of one spread, and the most samples/s that a job on it reaches."""
        made, top, fastest = [np.zeros((0, 5))], 0.0, float(spread.throughputs.max())
        reached = spread.throughputs >= spread.limit
        capped = bool((reached | (spread.throughputs == 0)).all()) or len(reached) == 1
        for gpu_type in np.flatnonzero(spread.throughputs).tolist():
            cores, memory, factor = self._fed(model, gpu_type, spread)
            throughputs = factor * (fastest if capped else spread.throughputs[gpu_type])
            top = max(top, min(float(throughputs.max()), spread.limit))
            if capped:
                throughputs = rounded_to(throughputs, spread.limit)
            rows = np.empty((factor.size, 5))
            rows[:, 0], rows[:, 1] = gpu_type, spread.gpus / self.share[gpu_type]
            rows[:, 2:4] = spread.gpus * np.stack(np.meshgrid(cores, memory, indexing="ij"), axis=-1).reshape(-1, 2)
            rows[:, 4] = throughputs.ravel()
            made.append(undominated(rows))
        return np.concatenate(made), top

    def _fed(self, model: int, gpu_type: int, spread: GpuSpread) -> tuple[FloatArray, ...]:
        """Return cores and GB for each GPU, and the fraction of throughput that a job keeps with them at most.

        float64[c], float64[m] and float64[c, m].
        """
        if not self.supply.shares:
            return np.zeros(1), np.zeros(1), np.ones((1, 1))
        name, fed = self.workload.models[model], self.table.cpu_memory
        key = plain_model(name), gpu_type, spread.gpus * 1000 + spread.nodes
        if key not in self._factors:
            scale = fed.scale[model]
            least = self.supply.node_most / np.stack([scale, np.ones(len(scale))])  # in units of the grid
            own = least[:, gpu_type] if spread.nodes == 1 or len(scale) == 1 else least.max(axis=1)
            most = own * (spread.nodes / spread.gpus if spread.nodes else np.inf)
            narrow = -(-spread.gpus // spread.nodes) if spread.nodes else 1
            wide = min(spread.gpus, int(self.supply.node_gpus.max()), MOST_NODE_GPUS)
            widths = range(min(narrow, MOST_NODE_GPUS), max(wide, min(narrow, MOST_NODE_GPUS)) + 1)
            grids = [axis_up_to(grid, limit) for grid, limit in zip((fed.cpus, fed.memory), most, strict=True)]
            across, along = (
                hat_weights(grid, points) for grid, points in zip((fed.cpus, fed.memory), grids, strict=True)
            )
            factor = np.max([across @ fed.factor[model, gpu_type, width] @ along.T for width in widths], axis=0)
            self._factors[key] = grids[0] * scale[gpu_type], grids[1], factor
        return self._factors[key]


def axis_up_to(grid: FloatArray, limit: float) -> FloatArray:
    """Return the positive points of a grid up to a limit, and the limit if it is within the grid."""
    inside = grid[(grid > 0) & (grid < limit)]
    return np.append(inside, limit) if limit <= grid[-1] else inside


def hat_weights(grid: FloatArray, points: FloatArray) -> FloatArray:
    """float64[num_points, grid]: weights of linear interpolation at points from the first to the last of a grid."""
    return np.stack([np.interp(points, grid, unit) for unit in np.eye(len(grid))], axis=1)


def rounded_to(throughputs: FloatArray, limit: float) -> FloatArray:
    """Limit throughputs on a grid so that every mixture of a cell's corners has what it would have with the limit.

    Corners of cells of which one exceeds the limit get it.

    Args:
        throughputs: float64[c, m], ascending along both axes.
        limit: samples/s.
    """
    above = np.pad(throughputs >= limit, ((0, 1), (0, 1)))
    near: BoolArray = above[:-1, :-1] | above[1:, :-1] | above[:-1, 1:] | above[1:, 1:]
    return np.where(near, limit, throughputs)


def undominated(columns: FloatArray) -> FloatArray:
    """Return the columns of positive throughput that no other one of the same GPU type makes useless."""
    columns = columns[columns[:, 4] > 0]
    columns = columns[np.lexsort((columns[:, 3], columns[:, 2], columns[:, 1], -columns[:, 4], columns[:, 0]))]
    useful = np.ones(len(columns), np.bool_)
    mark_useless(columns, useful)
    return columns[useful]


@kernel
def mark_useless(columns: FloatArray, useful: BoolArray) -> None:
    """Clear the marks of columns of which an earlier one of the same type, so at least as fast, holds no more."""
    first = 0
    for row in range(len(columns)):
        if columns[row, 0] != columns[first, 0]:
            first = row
        for before in range(first, row):
            holds_no_more = useful[before]
            for resource in range(1, 4):
                holds_no_more = holds_no_more and columns[before, resource] <= columns[row, resource]
            if holds_no_more:
                useful[row] = False
                break
