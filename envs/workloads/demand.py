"""Demand at efficient sizes: the least that jobs need of a cluster, whatever sizes a scheduler gives them."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from envs.performance import PerformanceModel, find_throughput
from envs.types import ClusterSpec, Configuration, FloatArray, IntArray, TraceError

LoadDefinition = Literal["requested", "efficient"]
LOAD_DEFINITIONS: tuple[LoadDefinition, ...] = ("requested", "efficient")


def check_load_definition(where: str, definition: str) -> None:
    """Assert that a definition of the offered load exists.

    Raises:
        TraceError: it does not; the message names the setting `where`.
    """
    if definition not in LOAD_DEFINITIONS:
        raise TraceError(f"{where} is {definition!r}; it must be {' or '.join(LOAD_DEFINITIONS)}")


def node_counts(gpus: int, fewest: int, num_nodes: int) -> list[int]:
    """Return the node counts from `fewest` on at which GPUs may be fastest: a spread placement can be the faster one.

    The world counts 9 to 16 nodes as 16, and so on up to 128, and never more nodes than GPUs.
    """
    counted = (*range(1, 9), 16, 32, 64, 128)
    return sorted({fewest, *(min(nodes, gpus) for nodes in counted if fewest <= nodes < 2 * num_nodes)})


def efficient_throughputs(
    models: Sequence[str], ranges: IntArray, cluster: ClusterSpec, performance: PerformanceModel
) -> FloatArray:
    """Return the most samples/s per GPU of each class of jobs on each GPU type, over all sizes of its range.

    The plan and the batch size are the simulator's. A size uses the fastest number of nodes, not fewer than those of
    any type that have this many GPUs, as in `envs.metrics.bounds.Relaxation`, so that no schedule does better.

    Args:
        models: names of the models.
        ranges: int64[num_classes, 3]: index into `models`, fewest GPUs, most GPUs.
        cluster: the nodes.
        performance: the performance model.

    Returns:
        float64[num_classes, num_gpu_types], samples/s per GPU; 0 where the class does not run.
    """
    best = np.zeros((len(ranges), len(cluster.gpu_types)))
    room = np.cumsum(np.sort(cluster.node_gpus)[::-1])
    for model in np.unique(ranges[:, 0]).tolist():
        rows = np.flatnonzero(ranges[:, 0] == model)
        least, most = int(ranges[rows, 1].min()), min(int(ranges[rows, 2].max()), cluster.num_gpus)
        sizes = np.arange(least, most + 1)
        nodes = np.searchsorted(room, sizes) + 1
        on = list(zip(sizes.tolist(), nodes.tolist(), strict=True))
        for column, gpu_type in enumerate(cluster.gpu_types):
            each = [
                max(
                    find_throughput(performance, models[model], Configuration(gpu_type, gpus, nodes))
                    for nodes in node_counts(gpus, fewest, cluster.num_nodes)
                )
                for gpus, fewest in on
            ]
            per_gpu = np.array(each) / sizes
            for row in rows.tolist():
                inside = per_gpu[(sizes >= ranges[row, 1]) & (sizes <= ranges[row, 2])]
                best[row, column] = inside.max(initial=0.0)
    return best


def least_cluster_seconds(gpu_seconds: FloatArray, num_gpus: IntArray) -> float:
    """Return the least time in which the whole cluster can do the work of all jobs, in seconds.

    Jobs can be divided among GPU types. With one type this is the sum of their demands over the number of GPUs; with
    several, the least largest share of time over the types, which a small linear program finds.

    Args:
        gpu_seconds: float64[num_classes, num_gpu_types]: demand of a class if it runs on this type only; infinite where
            it does not run.
        num_gpus: int64[num_gpu_types], GPUs of each type.

    Returns:
        Seconds; infinite if a class runs on no type.
    """
    runs = np.isfinite(gpu_seconds)
    if not runs.any(axis=1).all():
        return float("inf")
    if len(num_gpus) == 1:
        return float(gpu_seconds.sum() / num_gpus[0])
    import scipy.optimize  # imported here because it loads slowly
    import scipy.sparse

    rows, columns = np.nonzero(runs)
    shares = gpu_seconds[rows, columns] / num_gpus[columns]  # seconds of a whole type
    scale = float(shares.sum())
    if scale == 0:
        return 0.0
    # Variables: the share of each class on each type where it runs, then the time. No type takes longer than the time.
    index, last = np.arange(len(rows)), len(rows)
    entries = np.append(shares / scale, np.full(len(num_gpus), -1.0))
    places = np.append(columns, np.arange(len(num_gpus))), np.append(index, np.full(len(num_gpus), last))
    limits: Any = scipy.sparse.csr_matrix((entries, places), shape=(len(num_gpus), last + 1))
    whole: Any = scipy.sparse.csr_matrix((np.ones(last), (rows, index)), shape=(len(gpu_seconds), last + 1))
    cost = np.zeros(last + 1)
    cost[-1] = 1.0
    found = scipy.optimize.linprog(
        cost, A_ub=limits, b_ub=np.zeros(len(num_gpus)), A_eq=whole, b_eq=np.ones(len(gpu_seconds)), method="highs"
    )
    if found.fun is None:  # cannot happen: every class runs somewhere, and the time has no limit
        raise TraceError(f"demand at efficient sizes: the linear program has no solution ({found.message})")
    return float(found.fun) * scale
