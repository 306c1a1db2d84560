"""Exact throughputs of placements that set a plan, batch size, cores or memory, from the performance model."""

from collections.abc import Mapping

import numpy as np

from envs.performance import find_throughput, model_profile
from envs.simulation.setup import Setup
from envs.simulation.world.link_limit import LinkLimit
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
        self.links = LinkLimit(setup)
        self.equal = setup.scenario.worker_shares == "equal"
        self.batches = setup.scenario.offered_batches(setup.performance)
        self._known: dict[tuple[str, Configuration], float] = {}

    def throughput(self, model: str, placement: Placement) -> float:
        """Samples/s of a placement without co-located jobs; links, and a resource that it does not set, are ample.

        On several GPU types the workers divide the mini-batch as in the throughput table.

        Raises:
            PerformanceError: the plan cannot be laid out on the GPUs, or the batch size is outside the model's range.
        """
        count = placement.num_gpus
        gpu_types = {node: self.cluster.nodes[node].gpu_type for node in sorted(placement.gpus)}
        by_type = {
            gpu_type: self._unlimited(
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

    def useful_throughput(self, model: str, placement: Placement) -> float:
        """Useful samples/s of a placement: throughput x statistical efficiency of the batch size that it names.

        Raises:
            PerformanceError: as for `throughput`, or the batch size is not offered.
        """
        gpu_types = list(dict.fromkeys(self.cluster.nodes[node].gpu_type for node in placement.gpus))
        self.batches.check(model, gpu_types, placement.num_gpus, placement.batch_size)
        return self.throughput(model, placement) * self.batches.efficiency(
            model, placement.num_gpus, placement.batch_size
        )

    def goodput(self, model: str, configuration: Configuration) -> float:
        """Useful samples/s on GPUs of one type: `ask`, times the statistical efficiency of the batch size.

        Raises:
            PerformanceError: as for `ask`, or the batch size is not offered.
        """
        num_gpus, batch_size = configuration.num_gpus, configuration.batch_size
        self.batches.check(model, (configuration.gpu_type,), num_gpus, batch_size)
        return self.ask(model, configuration) * self.batches.efficiency(model, num_gpus, batch_size)

    def ask(self, model: str, configuration: Configuration) -> float:
        """Samples/s on GPUs of one type, alone on the links of its nodes; see `PerformanceModel.throughput`.

        At most what the slowest link of the type carries, unless it names a plan that the limit does not cover.
        """
        throughput = self._unlimited(model, configuration)
        if configuration.gpu_type not in self.links.least or configuration.num_nodes < 2:
            return throughput
        if configuration.plan is not None and not self.links.covers_plans(model):
            return throughput
        link = self.links.least[configuration.gpu_type]
        size = configuration.num_gpus, configuration.num_nodes
        return min(throughput, self.links.throughput(model, *size, link, configuration.batch_size))

    def _unlimited(self, model: str, configuration: Configuration) -> float:
        """Samples/s of the performance model, with a cache."""
        key = (model, configuration)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = find_throughput(self.performance, model, configuration)
        return known

    def sample_traffic(self, model: str, placement: Placement) -> float:
        """GB that a data-parallel job sends around its ring for one useful sample: 2 gradients / batch / efficiency.

        The traffic of a job, its useful throughput times this, is that of the samples which it processes.

        Raises:
            PerformanceError: the zoo does not know the model.
        """
        profile = model_profile(model)
        per_sample = 2.0 * profile.gradient_gb / (placement.batch_size or profile.usual_batch(placement.num_gpus))
        return per_sample / self.batches.efficiency(model, placement.num_gpus, placement.batch_size)


def _per_gpu(amounts: Mapping[NodeId, float] | None, gpus: Mapping[NodeId, int]) -> float | None:
    """The smallest amount per GPU over the nodes; None if the placement sets none."""
    return None if amounts is None else min(whole_parts(amounts[node]) / count for node, count in gpus.items())
