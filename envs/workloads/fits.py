"""Whether a cluster can hold a workload at all; asked before any simulation."""

import numpy as np

from envs.performance import PerformanceModel
from envs.types import ClusterError, ClusterSpec
from envs.workloads.mix import Speeds
from envs.workloads.workload import Workload


def largest_job(cluster: ClusterSpec) -> int:
    """GPUs of the largest job that a cluster holds: all that there are of its most numerous GPU type."""
    return max(cluster.gpus_by_type.values())


def check_fits(workload: Workload, cluster: ClusterSpec, performance: PerformanceModel | None = None) -> None:
    """Assert that every job can run.

    A job must find its requested GPUs within one GPU type: across types it may be spread, but no scheduler
    that consolidates would ever start it. With a performance model, its model must also run there.

    Raises:
        ClusterError: one line with the first job that does not fit, what it asks for, what there is, and the fix.
    """
    limit = largest_job(cluster)
    asked = workload.jobs["num_gpus"]
    if (asked > limit).any():
        job = int(np.argmax(asked > limit))
        of_type = max(cluster.gpus_by_type, key=cluster.gpus_by_type.__getitem__)
        raise ClusterError(
            f"workload {workload.name}: {_name(workload, job)} asks for {asked[job]} GPUs; cluster {cluster.name} has "
            f"{limit} of one type ({of_type}); leave larger jobs out with workload.max_gpus={limit}, "
            "or take a larger cluster"
        )
    if performance is None:
        return
    speeds = Speeds(performance)
    pairs, first = np.unique(workload.jobs[["model", "num_gpus"]], return_index=True)
    for pair, job in sorted(zip(pairs, first, strict=True), key=lambda found: int(found[1])):
        model, num_gpus = workload.models[pair["model"]], int(pair["num_gpus"])
        if not speeds.runs(model, num_gpus, cluster):
            raise ClusterError(
                f"workload {workload.name}: {_name(workload, int(job))} ({model}) does not run on "
                f"{num_gpus} GPUs of any type "
                f"of cluster {cluster.name} ({', '.join(cluster.gpu_types)}); take GPUs with more "
                "memory, or leave the model out"
            )


def _name(workload: Workload, job: int) -> str:
    return f"job {job} ({workload.names[job]})" if workload.names and workload.names[job] else f"job {job}"
