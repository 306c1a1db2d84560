"""Throughputs from measured points: the default performance model."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import ClassVar, TypeAlias

import numpy as np

from envs.performance.colocation import colocated_factor, colocation
from envs.performance.concave import is_concave, slowest_so_far
from envs.performance.cpu_memory import SENSITIVITY_GPU, sensitivity_of
from envs.performance.gpus import find_gpu_type, find_parts
from envs.performance.measurements import measured_points, measured_types, played_points
from envs.performance.memory_fit import fits_memory
from envs.performance.model import check_nodes_have_gpus
from envs.performance.planned import needs_plan_model, planned_throughput
from envs.performance.scaling import nearest_type, surface
from envs.performance.slices import part_factor
from envs.performance.step_time import StepTime
from envs.performance.zoo import ModelProfile, fraction_of, model_profile, zoo, zoo_name
from envs.types import Configuration, FloatArray, IntArray, PerformanceError

SurfaceOf: TypeAlias = Callable[[ModelProfile, str], StepTime]
"""A model and a GPU type -> its step times."""

FIRST_GPUS = 64  # size of a table when it is first built; it doubles when asked for more
FIRST_NODES = 8
FIRST_AT_BATCH = (16, 2)  # GPUs and nodes of a table at a chosen batch size: there are many, and few are asked for more
MOST_SURFACES = 4096  # that a process keeps; a small one has 4 KB
EXACT_NODES = 8  # node counts up to here have a column each; above, those between powers of two are interpolated
ANY_NUMBER = 1 << 20  # GPUs; stands for any number when checking whether a model fits at all


@dataclass(frozen=True)
class TableModel:
    """Samples per second from the project's small tables of measured points.

    It covers every model of the zoo on every GPU type. If the type was measured, the throughput comes from the surface
    fitted through the measured points (`envs.performance.step_time`); otherwise from the scaled surface of the measured
    type with the nearest performance index (`envs.performance.scaling`). `provenance` returns which.

    A job uses all of its GPUs, so more GPUs or more nodes can lower its throughput, as they do where it was measured.
    For models of weak scaling, the throughput per GPU does not rise with more GPUs at equal samples per GPU, and
    measurements that say so by more than 3 % are left out (`envs.performance.concave`). Beyond the measured counts the
    fitted surface is extrapolated.

    Throughputs are at the usual batch size unless another is given. The usual batch size is per GPU for models of
    weak scaling, and global for models of strong scaling. Replicas without a sample wait for the others. Limited
    cores and memory lower the throughput by `envs.performance.cpu_memory`; measured throughputs count as saturated.
    The cores that a GPU needs are proportional to its throughput (`cpu_scale`). A plan of None means the best plan
    that the source measured; a given plan is handled by `envs.performance.planned`.

    Args:
        gpus_per_node: GPUs of the nodes that jobs are packed on.
    """

    gpus_per_node: int = 8
    _tables: dict[tuple[str, str, int | None], FloatArray] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _scales: dict[tuple[str, str], float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.gpus_per_node < 1:
            raise PerformanceError(f"gpus_per_node is {self.gpus_per_node}; it must be at least 1")

    knows_fractions: ClassVar[bool] = True  # of a GPU, in names of models: "resnet50@0.25"

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the zoo; aliases are accepted too."""
        return tuple(zoo())

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return samples per second; see `PerformanceModel.throughput`."""
        num_gpus, num_nodes = configuration.num_gpus, configuration.num_nodes
        check_nodes_have_gpus(model, configuration)
        if configuration.plan is not None and needs_plan_model(model, configuration.plan, num_gpus):
            return planned_throughput(model, configuration, gpus_per_node=self.gpus_per_node)
        key = (model, configuration.gpu_type, configuration.batch_size)
        table = self._tables.get(key)
        if table is None or num_gpus >= table.shape[0] or num_nodes >= table.shape[1]:
            table = self._extend(key, num_gpus, num_nodes)
        throughput = float(table[num_gpus, num_nodes])
        cpus, memory = configuration.cpus_per_gpu, configuration.memory_per_gpu
        if cpus is None and memory is None:
            return throughput
        if cpus is not None:
            cpus /= self.cpu_scale(model, configuration.gpu_type)
        return throughput * sensitivity_of(model, -(-num_gpus // num_nodes)).factor(cpus, memory)

    def cpu_scale(self, model: str, gpu_type: str) -> float:
        """Return the cores that a GPU of a type needs for each core that a GPU needs where sensitivity was measured.

        Preparing a sample takes the same CPU time for every GPU type, so the cores that keep a GPU busy are
        proportional to its samples per second: the result is throughput on `gpu_type` / throughput on
        `SENSITIVITY_GPU` (V100), on the fewest GPUs on which the model runs on both; 1 if there are none. A part of a
        GPU needs as much less as its throughput is lower.
        """
        key = (model, gpu_type)
        if key not in self._scales:
            self._scales[key] = 1.0
            for gpus in (1, 2, 4, 8, 16, 32, 64):
                here, there = (
                    self.throughput(asked, Configuration(name, gpus, -(-gpus // self.gpus_per_node)))
                    for asked, name in ((model, gpu_type), (zoo_name(model), SENSITIVITY_GPU))
                )
                if here > 0 and there > 0:
                    self._scales[key] = here / there
                    break
        return self._scales[key]

    def table(self, model: str, gpu_type: str, max_gpus: int, *, batch_size: int | None = None) -> FloatArray:
        """Return float64[max_gpus + 1]: samples/s by GPUs on the fewest nodes; ascending from 0 at index 0."""
        counts = np.arange(1, max_gpus + 1)
        nodes = -(-counts // self.gpus_per_node)
        self.throughput(model, Configuration(gpu_type, max_gpus, int(nodes[-1]), batch_size=batch_size))
        dense = self._tables[model, gpu_type, batch_size]
        return np.concatenate(([0.0], dense[counts, nodes]))

    def provenance(
        self,
        model: str,
        gpu_type: str,
        num_gpus: int | None = None,
        num_nodes: int | None = None,
        batch_size: int | None = None,
    ) -> str:
        """Return the provenance of a model's throughput on a GPU type.

        Args:
            model: zoo name or alias.
            gpu_type: the type.
            num_gpus: a particular number of GPUs; None for any number.
            num_nodes: on so many nodes; None for the fewest.
            batch_size: global; None for the usual one.

        Returns:
            "measured" if the type was measured; with `num_gpus`, if that placement was measured at the batch size.
            "interpolated" where GPUs, nodes and samples per GPU lie between those of measured placements, and
            "modelled" beyond them, and on parts of a GPU. "guessed" if the throughput is scaled from another type.
            "infeasible" if the model does not fit the memory of that number of GPUs, or of any number.

        Raises:
            PerformanceError: the model or GPU type is unknown.
        """
        profile = model_profile(model)
        on_part = find_parts(find_gpu_type(gpu_type).name).number > 1 or fraction_of(model) < 1.0
        if on_part:
            return "modelled" if self.throughput(model, Configuration(gpu_type, 1)) > 0 else "infeasible"
        if not fits_memory(profile, gpu_type, ANY_NUMBER if num_gpus is None else num_gpus):
            return "infeasible"
        if gpu_type not in measured_types(profile.name):
            return "guessed"
        if num_gpus is None:
            return "measured"
        nodes = -(-num_gpus // self.gpus_per_node) if num_nodes is None else num_nodes
        return _provenance_of_cell(profile, gpu_type, num_gpus, nodes, batch_size or profile.usual_batch(num_gpus))

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        """Return the fraction of its throughput alone that a job keeps beside another job on the same GPU.

        It is measured or modelled, see `envs.performance.colocation`. A draw counts as the model of its name. Jobs that
        ask for fractions of a GPU fit together if their sum is at most 1, and keep all.

        Args:
            model: zoo name or alias of the job's model.
            other: zoo name or alias of the model of the job beside it.
            gpu_type: the type.

        Returns:
            Above 0 and at most 1; 0 if the two do not fit the memory together, in both directions then.

        Raises:
            PerformanceError: a model or the GPU type is unknown.
        """
        fractions = fraction_of(model), fraction_of(other)
        whole = find_parts(find_gpu_type(gpu_type).name).number == 1
        if min(fractions) < 1.0:
            return float(whole and sum(fractions) <= 1.0)
        return colocated_factor(zoo_name(model), zoo_name(other), gpu_type)

    def pair_provenance(self, model: str, other: str, gpu_type: str) -> str:
        """Return the provenance of a pair's factors: "measured", "modelled" or "infeasible"; see `pair_factor`.

        Raises:
            PerformanceError: a model or the GPU type is unknown.
        """
        key = (zoo_name(model), zoo_name(other), find_gpu_type(gpu_type).name)
        if not self.pair_factor(model, other, gpu_type):
            return "infeasible"
        if min(fraction_of(model), fraction_of(other)) < 1.0:
            return "modelled"
        return "measured" if key in colocation() else "modelled"

    def measured_batches(self, model: str, gpu_type: str) -> tuple[float, float] | None:
        """Return the least and most samples per GPU at which throughput was measured; None: at one batch size only.

        Raises:
            PerformanceError: the model or GPU type is unknown.
        """
        return local_batches(model_profile(model).name, find_parts(find_gpu_type(gpu_type).name).gpu_type)

    def raw(
        self, model: str, profile: ModelProfile, gpu_type: str, max_gpus: int, nodes: IntArray, batch_size: int | None
    ) -> FloatArray:
        """Return `raw_throughputs`, which a derived class may change by `model`."""
        parts, fraction = find_parts(gpu_type), fraction_of(model)
        if parts.number > 1 or fraction < 1.0:
            return _on_one_part(profile, gpu_type, fraction, max_gpus, nodes, batch_size)
        return _known_throughputs(profile, gpu_type, max_gpus, tuple(nodes.tolist()), batch_size)

    def _extend(self, key: tuple[str, str, int | None], num_gpus: int, num_nodes: int) -> FloatArray:
        model, gpu_type, batch_size = key
        profile = model_profile(model)
        if batch_size is not None:
            profile.check_batch(batch_size)
        least_gpus, least_nodes = (FIRST_GPUS, FIRST_NODES) if batch_size is None else FIRST_AT_BATCH
        have = self._tables.get(key, np.zeros((least_gpus + 1, least_nodes + 1)))
        gpus = max(have.shape[0] - 1, _power_of_two(num_gpus))
        nodes = max(have.shape[1] - 1, _power_of_two(num_nodes), _power_of_two(-(-gpus // self.gpus_per_node)))
        grid = node_grid(nodes)
        raw = self.raw(model, profile, find_gpu_type(gpu_type).name, gpus, grid, batch_size)
        table = between_columns(raw, grid, nodes)
        self._tables[key] = table
        return table


@cache
def default_model() -> TableModel:
    """Return the default performance model, always the same object, so that its tables are computed once."""
    return TableModel()


def raw_throughputs(
    profile: ModelProfile,
    gpu_type: str,
    max_gpus: int,
    nodes: IntArray,
    batch_size: int | None = None,
    surface_of: SurfaceOf = surface,
) -> FloatArray:
    """Return float64[max_gpus + 1, len(nodes)]: samples/s of the surface; 0 where memory does not suffice.

    Args:
        profile: the model.
        gpu_type: GPU type.
        max_gpus: last row.
        nodes: node counts of the columns; fewer GPUs than nodes are on one node each.
        batch_size: global; None for the usual one of each GPU count.
        surface_of: returns the surface of a model on a GPU type; another one than the default model's serves
            comparisons.
    """
    counts = np.arange(1, max_gpus + 1)
    batch = np.array([batch_size or profile.usual_batch(int(count)) for count in counts], np.float64)
    possible = np.array([fits_memory(profile, gpu_type, int(count)) for count in counts])
    local = batch / counts
    if profile.plans == "dp":
        local = np.ceil(local)  # a step takes as long as the worker with the most samples
    if is_concave(profile):
        seconds = slowest_so_far(surface_of(profile, gpu_type), local, max_gpus, nodes)
    else:
        n = counts[:, None]
        seconds = surface_of(profile, gpu_type).seconds(n, np.minimum(nodes, n), local[:, None])
    batch, possible = batch[:, None], possible[:, None]
    return np.concatenate((np.zeros((1, len(nodes))), np.where(possible, batch / seconds, 0.0)))


@lru_cache(MOST_SURFACES)
def _provenance_of_cell(profile: ModelProfile, gpu_type: str, num_gpus: int, num_nodes: int, batch: int) -> str:
    points = played_points(profile.name, gpu_type)
    if any((num_gpus, num_nodes, batch) == (point.num_gpus, point.num_nodes, point.batch_size) for point in points):
        return "measured"
    seen = np.array([(point.num_gpus, point.num_nodes, point.batch_size / point.num_gpus) for point in points])
    here = np.array((num_gpus, num_nodes, batch / num_gpus))
    between = (seen.min(axis=0) <= here).all() and (here <= seen.max(axis=0)).all()
    return "interpolated" if between else "modelled"


def _on_one_part(
    profile: ModelProfile, gpu_type: str, fraction: float, max_gpus: int, nodes: IntArray, batch_size: int | None
) -> FloatArray:
    """Return float64[max_gpus + 1, len(nodes)]: samples/s on a slice, or with a fraction of a GPU (`slices`).

    A job works on one of them; others stay idle.
    """
    found = np.zeros((max_gpus + 1, len(nodes)))
    parts = find_parts(gpu_type)
    if parts.memory >= fraction if fraction < 1.0 else fits_memory(profile, gpu_type, 1):
        whole = _known_throughputs(profile, parts.gpu_type, 1, tuple(nodes.tolist()), batch_size)[1]
        found[1:] = whole * part_factor(profile.name, parts.gpu_type, min(fraction, parts.compute))
    return found


@lru_cache(MOST_SURFACES)
def _known_throughputs(
    profile: ModelProfile, gpu_type: str, max_gpus: int, nodes: tuple[int, ...], batch_size: int | None
) -> FloatArray:
    """Return `raw_throughputs`, computed once for all models of a process, read-only."""
    found = raw_throughputs(profile, gpu_type, max_gpus, np.array(nodes), batch_size)
    found.flags.writeable = False
    return found


def node_grid(max_nodes: int) -> IntArray:
    """Return int64[k]: 1 to `EXACT_NODES` and the powers of two up to the first that is at least `max_nodes`."""
    nodes = list(range(1, EXACT_NODES + 1))
    while nodes[-1] < max_nodes:
        nodes.append(nodes[-1] * 2)
    return np.array(nodes, np.int64)


def between_columns(throughputs: FloatArray, grid: IntArray, max_nodes: int) -> FloatArray:
    """Return float64[max_gpus + 1, max_nodes + 1]: samples/s by GPUs and nodes; 0 where nodes are more than GPUs.

    Args:
        throughputs: float64[max_gpus + 1, len(grid)], samples/s of n GPUs on `grid[k]` nodes.
        grid: node counts of the columns, from `node_grid`; between them the result is linear in log2 of the nodes.
        max_nodes: last node count of the result, at most `grid[-1]`.
    """
    nodes = np.arange(1, max_nodes + 1)
    upper = np.searchsorted(grid, nodes)
    lower = np.where(grid[upper] == nodes, upper, upper - 1)
    share = np.log2(nodes / grid[lower]) / np.where(upper > lower, np.log2(grid[upper] / grid[lower]), 1.0)
    dense = (1 - share) * throughputs[:, lower] + share * throughputs[:, upper]
    possible = nodes <= np.arange(len(throughputs))[:, None]
    return np.pad(np.where(possible, dense, 0.0), ((0, 0), (1, 0)))


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


@cache
def local_batches(model: str, gpu_type: str) -> tuple[float, float] | None:
    """Return the least and most samples per GPU at which throughput was measured; None if at one batch size only.

    Only GPU counts at which several batch sizes were measured count: where each count was measured at one batch size,
    the effect of the batch size cannot be told from that of the GPUs. NCF, fitted so, is off by a factor of ten at the
    median at other batch sizes. If the GPU type was not measured, the range is that of the type from which throughputs
    are scaled, with at most the samples that every measured type held, since its memory may be smaller.

    Args:
        model: zoo name.
        gpu_type: any GPU type.
    """
    gpu_types = measured_types(model)
    source = gpu_type if gpu_type in gpu_types else nearest_type(model, gpu_type)
    by_count: dict[tuple[int, int], set[float]] = defaultdict(set)
    for point in measured_points()[model, source]:
        by_count[point.num_gpus, point.num_nodes].add(point.batch_size / point.num_gpus)
    measured = [batch for batches in by_count.values() if len(batches) > 1 for batch in batches]
    if not measured:
        return None
    low, high = min(measured), max(measured)
    if source != gpu_type:
        held = (max(point.batch_size / point.num_gpus for point in measured_points()[model, one]) for one in gpu_types)
        high = min(high, *held)
    return (low, high) if low < high else None
