"""Levels of cores and memory: the amounts for each GPU among which a node chooses when it gives GPUs to a job.

Level 0 names no amounts, so the simulator divides what is left. Each further level is a pair of amounts for each GPU.
The pairs differ by model, GPU type and GPUs on the node, and only useful ones are kept: a pair is left out if a smaller
one has the same throughput. Candidates are the points at which the model's sensitivity was measured, the node's share
for each GPU, and all that the node has.
"""

from typing import NamedTuple

import numpy as np

from envs.simulation import Setup, ThroughputTable
from envs.simulation.exact import PARTS, ExactThroughputs
from envs.types import Configuration, FloatArray, NodeSpec

SAME = 1e-9  # throughputs that differ by less, relatively, count as equal


class LevelTable(NamedTuple):
    """Cores and GB for each GPU by level; NaN at level 0 and where a model has fewer levels.

    Attributes:
        cpus: float64[num_models, num_gpu_types, most GPUs of a node + 1, num_levels].
        memory: the same shape, GB.
    """

    cpus: FloatArray
    memory: FloatArray


def level_table(setup: Setup | None, table: ThroughputTable, node_gpus: int, num_levels: int) -> LevelTable:
    """Find the levels of all models.

    Where there are more useful pairs than levels, those with the highest throughputs are kept. If jobs do not share
    cores and memory, or there is one level only, nothing is ever named.

    Args:
        setup: cluster, performance model and scenario; only needed for several levels.
        table: throughputs of the models.
        node_gpus: GPUs of the largest node.
        num_levels: levels for each model, level 0 included.
    """
    shape = (len(table.models), table.throughputs.shape[1], node_gpus + 1, num_levels)
    cpus, memory = np.full(shape, np.nan), np.full(shape, np.nan)
    if num_levels == 1 or setup is None or setup.scenario.cpu_memory != "shared":
        return LevelTable(cpus, memory)
    exact = ExactThroughputs(setup)
    grid = table.cpu_memory.cpus, table.cpu_memory.memory
    for gpu_type, name in enumerate(setup.cluster.gpu_types):
        node = next(node for node in setup.cluster.nodes if node.gpu_type == name)
        for m, model in enumerate(table.models):
            for gpus in range(1, node.num_gpus + 1):
                found = useful_amounts(exact, model, node, gpus, grid)[-(num_levels - 1) :]
                for level, (cores, gigabytes) in enumerate(found, start=1):
                    cpus[m, gpu_type, gpus, level], memory[m, gpu_type, gpus, level] = cores, gigabytes
    return LevelTable(cpus, memory)


def useful_amounts(
    exact: ExactThroughputs, model: str, node: NodeSpec, gpus: int, grid: tuple[FloatArray, FloatArray]
) -> list[tuple[float, float]]:
    """Return pairs of cores and GB for each of a job's GPUs on one node, none with the throughput of a smaller pair.

    Args:
        exact: the performance model.
        model: the job's model.
        node: the node.
        gpus: GPUs of the job there.
        grid: cores and GB for each GPU at which sensitivity was measured, ascending.

    Returns:
        The pairs by ascending throughput; empty if the model does not run there.
    """
    cpus, memory = (
        amounts(total, points, node.num_gpus, gpus)
        for total, points in zip((node.cpu_cores, node.memory), grid, strict=True)
    )
    throughput = np.array(
        [
            [
                exact.ask(model, Configuration(node.gpu_type, gpus, 1, cpus_per_gpu=cores, memory_per_gpu=gigabytes))
                for gigabytes in memory
            ]
            for cores in cpus
        ]
    )
    found = []
    for row, cores in enumerate(cpus):
        for column, gigabytes in enumerate(memory):
            fewer, smaller = throughput[:row, : column + 1], throughput[row, :column]
            less = max(float(fewer.max(initial=0.0)), float(smaller.max(initial=0.0)))
            if throughput[row, column] > less * (1 + SAME):
                found.append((float(throughput[row, column]), cores, gigabytes))
    return [(cores, gigabytes) for _, cores, gigabytes in sorted(found)]


def amounts(total: float, points: FloatArray, node_gpus: int, gpus: int) -> list[float]:
    """Return amounts for each GPU, ascending: grid points, the node's share for a GPU, and the most that it has.

    The most leaves a 64th for each GPU of the node that the job does not have.
    """
    most = int((total - (node_gpus - gpus) / PARTS) / gpus * PARTS) / PARTS
    found = {*points[points < most].tolist(), min(total / node_gpus, most), most}
    return sorted(amount for amount in found if amount > 0)
