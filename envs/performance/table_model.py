"""Speeds from measured points: the default performance model."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from envs.performance.cpu_memory import sensitivity_of
from envs.performance.envelope import monotone, node_grid
from envs.performance.gpus import gpu_type as known_gpu
from envs.performance.measurements import measurements
from envs.performance.memory_fit import fits
from envs.performance.planned import planned, planned_throughput
from envs.performance.scaling import surface
from envs.performance.zoo import ModelProfile, model_profile, zoo
from envs.types import ExecutionPlan, FloatArray, Gigabytes, IntArray, PerformanceError

FIRST_GPUS = 64  # size of a table when it is first built; it doubles when asked for more
FIRST_NODES = 8
EVER_SO_MANY = 1 << 20  # GPUs, to ask whether a model fits on any number


@dataclass(frozen=True)
class TableModel:
    """Samples per second from the project's small tables of measured points.

    Answers for every model of the zoo on every GPU type: from the fitted surface through the measured points where
    the type was measured (`envs.performance.step_time`), else from the surface of the measured type nearest in
    speed, scaled (`envs.performance.scaling`). `provenance` says which.

    More is never slower (`envs.performance.envelope`): a measured speed that adding GPUs lowers is answered with that
    of the best subset. Beyond the measured counts the fitted surface goes on, under the same envelope.

    Speeds are at the usual batch size unless told otherwise: for models of weak scaling so many samples per GPU, for
    models of strong scaling so many in all. Replicas that have no sample wait: a job is at most as wide as its batch.
    Cores and memory slow a job down by `envs.performance.cpu_memory`, the measured speeds standing for saturated ones.
    A plan of None is the best that the source measured; a given plan is answered by `envs.performance.planned`.

    Args:
        gpus_per_node: GPUs of the nodes that jobs are packed on.
    """

    gpus_per_node: int = 8
    _tables: dict[tuple[str, str, int | None], FloatArray] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.gpus_per_node < 1:
            raise PerformanceError(f"gpus_per_node is {self.gpus_per_node}; it must be at least 1")

    @property
    def models(self) -> tuple[str, ...]:
        """Zoo names; aliases are understood too."""
        return tuple(zoo())

    def throughput(
        self,
        model: str,
        gpu_type: str,
        num_gpus: int,
        num_nodes: int = 1,
        *,
        batch_size: int | None = None,
        plan: ExecutionPlan | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> float:
        """Samples per second; see `PerformanceModel.throughput`."""
        if not 1 <= num_nodes <= num_gpus:
            raise PerformanceError(
                f"model {model}: {num_gpus} GPUs on {num_nodes} nodes; each of at least one node needs a GPU"
            )
        if plan is not None and planned(model, plan, num_gpus):
            return planned_throughput(
                model,
                gpu_type,
                num_gpus,
                num_nodes,
                plan,
                batch_size=batch_size,
                cpus_per_gpu=cpus_per_gpu,
                memory_per_gpu=memory_per_gpu,
                gpus_per_node=self.gpus_per_node,
            )
        key = (model, gpu_type, batch_size)
        table = self._tables.get(key)
        if table is None or num_gpus >= table.shape[0] or num_nodes >= table.shape[1]:
            table = self._extended(key, num_gpus, num_nodes)
        speed = float(table[num_gpus, num_nodes])
        if cpus_per_gpu is None and memory_per_gpu is None:
            return speed
        return speed * sensitivity_of(model, -(-num_gpus // num_nodes)).factor(cpus_per_gpu, memory_per_gpu)

    def table(self, model: str, gpu_type: str, max_gpus: int, *, batch_size: int | None = None) -> FloatArray:
        """float64[max_gpus + 1]: samples/s by GPUs on the fewest nodes; ascending from 0 at index 0."""
        counts = np.arange(1, max_gpus + 1)
        nodes = -(-counts // self.gpus_per_node)
        self.throughput(model, gpu_type, max_gpus, int(nodes[-1]), batch_size=batch_size)
        dense = self._tables[model, gpu_type, batch_size]
        return np.concatenate(([0.0], dense[counts, nodes]))

    def provenance(self, model: str, gpu_type: str, num_gpus: int | None = None) -> str:
        """Where the speed of a model on a GPU type comes from.

        Args:
            model: zoo name or alias.
            gpu_type: the type.
            num_gpus: ask of so many GPUs in particular.

        Returns:
            "measured" if that type was measured (of `num_gpus`: if that many were, else "interpolated" or
            "extrapolated"), "scaled" if it is carried over from another type, "infeasible" if the model does not
            fit the memory, of any number of GPUs or of that many.

        Raises:
            PerformanceError: unknown model or GPU type.
        """
        profile = model_profile(model)
        if not fits(profile, known_gpu(gpu_type).name, EVER_SO_MANY if num_gpus is None else num_gpus):
            return "infeasible"
        points = measurements().get((profile.name, gpu_type))
        if points is None:
            return "scaled"
        counts = {point.num_gpus for point in points}
        if num_gpus is None or num_gpus in counts:
            return "measured"
        return "interpolated" if min(counts) < num_gpus < max(counts) else "extrapolated"

    def _extended(self, key: tuple[str, str, int | None], num_gpus: int, num_nodes: int) -> FloatArray:
        model, kind, batch_size = key
        profile = model_profile(model)
        if batch_size is not None:
            profile.check_batch(batch_size)
        have = self._tables.get(key, np.zeros((FIRST_GPUS + 1, FIRST_NODES + 1)))
        gpus = max(have.shape[0] - 1, _power_of_two(num_gpus))
        nodes = max(have.shape[1] - 1, _power_of_two(num_nodes), _power_of_two(-(-gpus // self.gpus_per_node)))
        grid = node_grid(nodes)
        raw = raw_speeds(profile, known_gpu(kind).name, gpus, grid, batch_size)
        table = monotone(raw, grid, self.gpus_per_node, nodes)
        self._tables[key] = table
        return table


@cache
def default_model() -> TableModel:
    """The performance model that everything uses unless told otherwise; the same one, so it learns its tables once."""
    return TableModel()


def raw_speeds(
    profile: ModelProfile, kind: str, max_gpus: int, nodes: IntArray, batch_size: int | None = None
) -> FloatArray:
    """float64[max_gpus + 1, len(nodes)]: samples/s as the surface has it, without envelopes.

    0 where replicas would have no sample, and where memory does not suffice.

    Args:
        profile: the model.
        kind: GPU type.
        max_gpus: last row.
        nodes: node counts of the columns; fewer GPUs than that are on as many nodes.
        batch_size: global; None for the usual one of each GPU count.
    """
    counts = np.arange(1, max_gpus + 1)
    batch = np.array([batch_size or profile.usual_batch(int(count)) for count in counts], np.float64)[:, None]
    n, on = np.broadcast_arrays(counts[:, None], nodes)
    possible = np.array([fits(profile, kind, int(count)) for count in counts])[:, None]
    local = batch / n
    if profile.plans == "dp":
        possible = possible & (batch >= counts[:, None])
        local = np.ceil(local)  # the worker with the most samples is waited for
    seconds = surface(profile, kind).seconds(n, np.minimum(on, n), local)
    return np.concatenate((np.zeros((1, len(nodes))), np.where(possible, batch / seconds, 0.0)))


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
