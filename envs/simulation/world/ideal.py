"""Throughputs of jobs alone on the GPUs that they request, which their ideal durations follow from."""

import numpy as np

from envs.simulation.setup import Setup
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.throughput import ThroughputTable
from envs.types import FloatArray, IntArray, Placement


def ideal_throughput(setup: Setup, table: ThroughputTable, models: IntArray, num_gpus: IntArray) -> FloatArray:
    """Return the throughput of each job alone on its requested GPUs, on the fewest nodes of its fastest GPU type.

    Where no type has so many GPUs, it is that of a gang over several types: the GPUs of the fastest types, which divide
    the mini-batch as in the simulation. Where this does not run either, it is that of the largest size that does.

    Args:
        setup: the cluster, the performance model and the scenario.
        table: of the models.
        models: int64[num_jobs], places in `table.models`.
        num_gpus: int64[num_jobs], requested; more than the cluster has count as all of them.

    Returns:
        float64[num_jobs], samples/s; 0 for a model that runs nowhere in the cluster.
    """
    found = table.requested_throughput(models, num_gpus)
    missing = np.flatnonzero(found == 0.0)
    if len(missing):
        found, exact = found.copy(), ExactThroughputs(setup)
        sizes = np.minimum(num_gpus, setup.cluster.num_gpus)
        known = {
            (model, size): _gang_throughput(exact, table.models[model], size)
            for model, size in {*zip(models[missing].tolist(), sizes[missing].tolist(), strict=True)}
        }
        found[missing] = [known[int(models[job]), int(sizes[job])] for job in missing]
    return found


def _gang_throughput(exact: ExactThroughputs, model: str, num_gpus: int) -> float:
    """Return samples/s of a job on the GPUs of the fastest types, of the largest size up to `num_gpus` that runs."""
    nodes = exact.cluster.nodes
    for size in range(num_gpus, 0, -1):
        alone = {
            node: exact.throughput(model, Placement(dict.fromkeys([node], min(size, nodes[node].num_gpus))))
            / min(size, nodes[node].num_gpus)
            for node in range(len(nodes))
        }
        left, gpus = size, dict[int, int]()
        for node in sorted(alone, key=lambda node: (-alone[node], -nodes[node].num_gpus, node)):
            if left and alone[node] > 0:
                gpus[node] = min(left, nodes[node].num_gpus)
                left -= gpus[node]
        found = 0.0 if left else exact.throughput(model, Placement(gpus))
        links = (exact.links.throughput(model, size, len(gpus), nodes[node].inter_node_bandwidth) for node in gpus)
        if found > 0:
            return min(found, *links)
    return 0.0
