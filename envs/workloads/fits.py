"""Checks, made before any simulation, that a cluster can run every job of a workload."""

from collections.abc import Callable

import numpy as np

from envs.performance import PerformanceModel
from envs.types import ClusterError, ClusterSpec, IntArray, constraints_of
from envs.workloads.mix import ModelThroughputs
from envs.workloads.workload import Workload


def largest_job(cluster: ClusterSpec) -> int:
    """Return the most GPUs that a job may request: all GPUs of the cluster's most numerous GPU type."""
    return max(cluster.gpus_by_type.values())


def check_sizes(where: str, num_gpus: IntArray, cluster: ClusterSpec, label: Callable[[int], str]) -> None:
    """Assert that no job requests more GPUs than the cluster has of one type.

    A larger job could be spread over several types, but a scheduler that consolidates jobs would never start it.

    Args:
        where: source of the jobs, for messages: a file, or the name of a workload.
        num_gpus: int64[num_jobs], GPUs requested.
        cluster: the nodes.
        label: returns the name of a job in messages, given its index.

    Raises:
        ClusterError: one line with the first job that does not fit, its request, the cluster's limit, and the fix.
    """
    limit = largest_job(cluster)
    if not (num_gpus > limit).any():
        return
    job = int(np.argmax(num_gpus > limit))
    of_type = max(cluster.gpus_by_type, key=cluster.gpus_by_type.__getitem__)
    raise ClusterError(
        f"{where}: {label(job)}: num_gpus is {num_gpus[job]}; cluster {cluster.name} has {limit} GPUs of one type "
        f"({of_type}); leave larger jobs out with workload.max_gpus={limit}, or take a larger cluster"
    )


def check_workload_fits(workload: Workload, cluster: ClusterSpec, performance: PerformanceModel | None = None) -> None:
    """Assert that every job can run: its size fits (`check_sizes`), and its model runs, given a performance model.

    Raises:
        ClusterError: one line with the first job that cannot run, and the fix.
    """
    check_sizes(f"workload {workload.name}", workload.jobs["num_gpus"], cluster, workload.label)
    if performance is None:
        return
    throughputs = ModelThroughputs(performance)
    pairs, first = np.unique(workload.jobs[["model", "num_gpus"]], return_index=True)
    for pair, job in sorted(zip(pairs, first, strict=True), key=lambda found: int(found[1])):
        model, num_gpus = workload.models[pair["model"]], int(pair["num_gpus"])
        if not throughputs.runs(model, num_gpus, cluster):
            raise ClusterError(
                f"workload {workload.name}: {workload.label(int(job))} ({model}) does not run on "
                f"{num_gpus} GPUs of any type "
                f"of cluster {cluster.name} ({', '.join(cluster.gpu_types)}); take GPUs with more "
                "memory, or " + ("set workload.constraints=none" if constraints_of(model) else "leave the model out")
            )
