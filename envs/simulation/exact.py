"""Exact throughputs of placements that set a plan, batch size, cores or memory, from the performance model."""

from collections.abc import Mapping

import numpy as np

from envs.performance import model_profile
from envs.simulation.setup import Setup
from envs.types import Configuration, NodeId, Placement

PARTS = 64  # cores and GB are counted in 64ths, so that sums are exact


def whole_parts(amount: float) -> float:
    """Round an amount of cores or GB down to 64ths."""
    return float(np.floor(amount * PARTS) / PARTS)


class ExactThroughputs:
    """The performance model, with a cache, for placements that the throughput table does not hold.

    Args:
        setup: the cluster, the performance model, and the scenario (how unequal GPUs divide a mini-batch).
    """

    def __init__(self, setup: Setup) -> None:
        self.performance, self.cluster = setup.performance, setup.cluster
        self.equal = setup.scenario.worker_shares == "equal"
        self._known: dict[tuple[str, Configuration], float] = {}

    def throughput(self, model: str, placement: Placement) -> float:
        """Samples/s of a placement without co-located jobs; a resource that it does not set is ample.

        On several GPU types the workers divide the mini-batch as in the throughput table.

        Raises:
            PerformanceError: the plan cannot be laid out on the GPUs, or the batch size is outside the model's range.
        """
        count = placement.num_gpus
        gpu_types = {node: self.cluster.nodes[node].gpu_type for node in sorted(placement.gpus)}
        by_type = {
            gpu_type: self.ask(
                model,
                Configuration(
                    gpu_type,
                    count,
                    len(placement.gpus),
                    batch_size=placement.batch_size,
                    plan=placement.plan,
                    cpus_per_gpu=_per_gpu(placement.cpus, placement.gpus),
                    memory_per_gpu=_per_gpu(placement.memory, placement.gpus),
                ),
            )
            for gpu_type in dict.fromkeys(gpu_types.values())
        }
        throughputs = [(placement.gpus[node], by_type[gpu_type]) for node, gpu_type in gpu_types.items()]
        slowest = min(throughput for _, throughput in throughputs)
        if slowest == max(throughput for _, throughput in throughputs) or slowest == 0.0 or self.equal:
            return slowest
        total = 0.0
        for gpus, throughput in throughputs:
            total += gpus * throughput
        return total / count

    def ask(self, model: str, configuration: Configuration) -> float:
        """Samples/s on GPUs of one type; see `PerformanceModel.throughput`."""
        key = (model, configuration)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.performance.throughput(model, configuration)
        return known

    def sample_traffic(self, model: str, placement: Placement) -> float:
        """GB that one sample sends around the ring of a data-parallel job: 2 gradients / batch.

        Raises:
            PerformanceError: the zoo does not know the model.
        """
        profile = model_profile(model)
        return 2.0 * profile.gradient_gb / (placement.batch_size or profile.usual_batch(placement.num_gpus))


def _per_gpu(amounts: Mapping[NodeId, float] | None, gpus: Mapping[NodeId, int]) -> float | None:
    """The smallest amount per GPU over the nodes; None if the placement sets none."""
    return None if amounts is None else min(whole_parts(amounts[node]) / count for node, count in gpus.items())
