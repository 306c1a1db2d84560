"""Speeds of placements that name a plan, a batch size, cores or memory: asked of the performance model itself."""

from collections.abc import Mapping

import numpy as np

from envs.performance import PerformanceModel, model_profile
from envs.types import ClusterSpec, ExecutionPlan, Gigabytes, NodeId, Placement

PARTS = 64  # cores and GB are counted in 64ths, so that sums are exact


def whole_parts(amount: float) -> float:
    """An amount of cores or GB rounded down to 64ths."""
    return float(np.floor(amount * PARTS) / PARTS)


class ExactSpeeds:
    """The performance model behind the engine, asked once for every placement that the tables do not hold.

    Args:
        performance: how fast jobs run.
        cluster: the nodes.
        worker_shares: how unequal GPUs divide a mini-batch, as `Scenario.worker_shares`.
    """

    def __init__(
        self, performance: PerformanceModel, cluster: ClusterSpec, worker_shares: str = "proportional"
    ) -> None:
        self.performance, self.cluster = performance, cluster
        self.equal = worker_shares == "equal"
        self._known: dict[tuple[object, ...], float] = {}

    def speed(self, model: str, placement: Placement) -> float:
        """Samples/s of a placement without neighbours; what it does not name is at its best.

        On several GPU types the workers share the mini-batch as in the table's placements.

        Raises:
            PerformanceError: the plan cannot be laid out on the GPUs, or the batch size is out of the model's range.
        """
        count, nodes = placement.num_gpus, len(placement.gpus)
        cpus = _per_gpu(placement.cpus, placement.gpus)
        memory = _per_gpu(placement.memory, placement.gpus)
        rates = [
            (gpus, self.ask(model, int(kind), count, nodes, placement.batch_size, placement.plan, cpus, memory))
            for gpus, kind in ((placement.gpus[node], self.cluster.node_types[node]) for node in sorted(placement.gpus))
        ]
        slowest = min(rate for _, rate in rates)
        if slowest == max(rate for _, rate in rates) or slowest == 0.0 or self.equal:
            return slowest
        total = 0.0
        for gpus, rate in rates:
            total += gpus * rate
        return total / count

    def ask(
        self,
        model: str,
        kind: int,
        num_gpus: int,
        num_nodes: int,
        batch_size: int | None = None,
        plan: ExecutionPlan | None = None,
        cpus_per_gpu: float | None = None,
        memory_per_gpu: Gigabytes | None = None,
    ) -> float:
        """Samples/s on GPUs of one type; see `PerformanceModel.throughput`."""
        key = (model, kind, num_gpus, num_nodes, batch_size, plan, cpus_per_gpu, memory_per_gpu)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.performance.throughput(
                model,
                self.cluster.gpu_types[kind],
                num_gpus,
                num_nodes,
                batch_size=batch_size,
                plan=plan,
                cpus_per_gpu=cpus_per_gpu,
                memory_per_gpu=memory_per_gpu,
            )
        return known

    def sample_traffic(self, model: str, placement: Placement) -> float:
        """GB that one sample sends around the ring of a data-parallel job: 2 gradients / batch.

        Raises:
            PerformanceError: the zoo does not know the model.
        """
        profile = model_profile(model)
        return 2.0 * profile.gradient_gb / (placement.batch_size or profile.usual_batch(placement.num_gpus))


def _per_gpu(amounts: Mapping[NodeId, float] | None, gpus: Mapping[NodeId, int]) -> float | None:
    """The least amount for a GPU over the nodes; None if unnamed."""
    return None if amounts is None else min(whole_parts(amounts[node]) / count for node, count in gpus.items())
