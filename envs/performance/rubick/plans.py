"""Plan search: the fastest execution plan whose memory fits the given resources.

The space is Rubick's: data parallelism alone, with ZeRO stage 2 or with ZeRO-Offload, or tensor and pipeline
parallelism; each with any number of micro-batches, with or without gradient checkpointing. The global batch is not
changed, so accuracy is not affected.

`PlanSearch.using` is what a job does with given GPUs: it uses all of them, and may be slower than on fewer.
`PlanSearch.within` serves decisions: the best over every subset of the GPUs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from envs.performance.rubick.iteration import (
    POINT,
    Figures,
    Hardware,
    ModelShape,
    Points,
    check_layout,
    even_shares,
    iteration_time,
    points,
)
from envs.performance.rubick.memory import DeviceMemory, excess
from envs.types import ExecutionPlan, Gigabytes, PerformanceError

SATURATING_CPUS = 12.0
"""CPU threads per GPU beyond which no plan gets faster: a GPU's share of the testbed's 96 threads for 8 GPUs."""


@dataclass(frozen=True, slots=True)
class BestPlan:
    """The fastest plan on some resources and the GPUs that it uses; throughput 0.0 and no plan if no plan fits."""

    throughput: float  # samples per second
    plan: ExecutionPlan | None = None
    num_gpus: int = 0
    num_nodes: int = 0


@cache
def divisors(number: int) -> tuple[int, ...]:
    """Return all divisors, ascending."""
    return tuple(one for one in range(1, number + 1) if number % one == 0)


def candidate_plans(shape: ModelShape, num_gpus: int, batch: int) -> Iterator[ExecutionPlan]:
    """Generate all plans on exactly `num_gpus` GPUs that divide layers, heads and batch; memory is not checked."""
    for tensor in divisors(shape.heads):
        for pipeline in divisors(shape.layers):
            data, rest = divmod(num_gpus, tensor * pipeline)
            if rest or not data or batch % data or (tensor * pipeline > 1 and not shape.model_parallel):
                continue
            variants = ((0, False), (2, False), (2, True)) if tensor * pipeline == 1 else ((0, False),)
            for zero, offload in variants:
                for micro in divisors(batch // data):
                    for again in (False, True):
                        yield ExecutionPlan(data, tensor, pipeline, zero, offload, micro, again)


def feasible_plans(
    shape: ModelShape,
    num_gpus: int,
    batch: int,
    *,
    memory_per_gpu: Gigabytes | None = None,
    device: DeviceMemory | None = None,
) -> list[ExecutionPlan]:
    """Return the candidate plans that fit GPU and CPU memory."""
    device = device or DeviceMemory()
    return [
        plan
        for plan in candidate_plans(shape, num_gpus, batch)
        if not any(excess(shape, plan, batch, memory_per_gpu=memory_per_gpu, device=device))
    ]


@dataclass(frozen=True)
class PlanSearch:
    """Best plans of one model at one batch size and given CPU threads and memory per GPU; results are cached.

    Attributes:
        shape: the model.
        figures: its fitted figures.
        batch: global batch size.
        cpus: CPU threads per GPU.
        memory_per_gpu: CPU memory per GPU of the job; all of a node's if None.
        hardware: nodes.
        device: memory of GPUs and nodes.
    """

    shape: ModelShape
    figures: Figures
    batch: int
    cpus: float = SATURATING_CPUS
    memory_per_gpu: Gigabytes | None = None
    hardware: Hardware = field(default_factory=Hardware)
    device: DeviceMemory = field(default_factory=DeviceMemory)
    _plans: dict[int, tuple[list[ExecutionPlan], Points]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _best: dict[tuple[int, int], BestPlan] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.cpus > 0:
            raise PerformanceError(f"model {self.shape.name}: {self.cpus} CPU threads per GPU; it must be positive")
        if self.memory_per_gpu is not None and not self.memory_per_gpu >= 0:
            raise PerformanceError(
                f"model {self.shape.name}: {self.memory_per_gpu} GB of CPU memory per GPU; it must be at least 0"
            )

    def exactly(self, num_gpus: int, num_nodes: int = 1) -> BestPlan:
        """Return the best plan that uses all of `num_gpus`, spread evenly over `num_nodes`."""
        shares = even_shares(num_gpus, num_nodes)
        plans, rows = self._rows(num_gpus)
        rows = rows.copy()
        rows["num_nodes"], rows["smallest"] = num_nodes, min(shares)
        rows["straddles"] = (max(shares) % rows["tensor"] != 0) | (min(shares) % rows["tensor"] != 0)
        keep = np.flatnonzero(rows["tensor"] <= min(shares))
        if not keep.size or num_gpus > num_nodes * self.hardware.gpus_per_node:
            return BestPlan(0.0)
        time = iteration_time(self.shape, self.figures, rows[keep], self.hardware).total
        fastest = int(np.argmin(time))
        throughput = self.batch / float(time[fastest]) * 1e3
        return BestPlan(throughput, plans[int(keep[fastest])], num_gpus, num_nodes)

    def using(self, num_gpus: int, num_nodes: int = 1) -> BestPlan:
        """Return the best plan that uses all GPUs; where none can, that of one GPU fewer, and so on."""
        even_shares(num_gpus, num_nodes)
        for gpus in range(num_gpus, 0, -1):
            best = self.exactly(gpus, min(num_nodes, gpus))
            if best.plan is not None:
                return best
        return BestPlan(0.0)

    def within(self, num_gpus: int, num_nodes: int = 1) -> BestPlan:
        """Return the best plan on at most these GPUs.

        The subsets of `num_gpus` spread evenly over `num_nodes` have one GPU fewer, or one node fewer. On the fewest
        possible nodes they also include the whole nodes of a packed placement.
        """
        even_shares(num_gpus, num_nodes)
        for nodes in range(1, num_nodes + 1):  # smaller subsets first, to avoid deep recursion
            for gpus in range(nodes, num_gpus + 1):
                if (gpus, nodes) not in self._best:
                    self._best[gpus, nodes] = max(self._contained(gpus, nodes), key=lambda best: best.throughput)
        return self._best[num_gpus, num_nodes]

    def time_of(self, plan: ExecutionPlan, num_gpus: int, num_nodes: int = 1) -> float:
        """Return the seconds of an iteration under a given plan; memory is not checked.

        Raises:
            PerformanceError: the plan cannot be laid out on the GPUs.
        """
        check_layout(self.shape, plan, num_gpus, num_nodes, self.batch)
        rows = points([(plan, even_shares(num_gpus, num_nodes), self.batch, self.cpus)])
        return float(iteration_time(self.shape, self.figures, rows, self.hardware).total[0]) / 1e3

    def _contained(self, gpus: int, nodes: int) -> list[BestPlan]:
        """Return the best plans of the resources' subsets, smaller ones first, so that they win among equals."""
        per_node = self.hardware.gpus_per_node
        found = [BestPlan(0.0)]
        if nodes > 1:
            found.append(self._best[gpus - gpus // nodes, nodes - 1])
            if nodes == -(-gpus // per_node):
                found.append(self._best[per_node * (nodes - 1), nodes - 1])
        if gpus > nodes:
            found.append(self._best[gpus - 1, nodes])
        return [*found, self.exactly(gpus, nodes)]

    def _rows(self, num_gpus: int) -> tuple[list[ExecutionPlan], Points]:
        if num_gpus not in self._plans:
            plans = feasible_plans(
                self.shape, num_gpus, self.batch, memory_per_gpu=self.memory_per_gpu, device=self.device
            )
            whole = (num_gpus,)  # the caller fills in the nodes
            rows = points((plan, whole, self.batch, self.cpus) for plan in plans) if plans else np.zeros(0, POINT)
            self._plans[num_gpus] = plans, rows
        return self._plans[num_gpus]
