"""What no scheduler can beat on Rubick's measured world: a lower bound on makespan that counts what starts cost."""

import numpy as np

from baselines.rubick.curves import meets
from envs.performance import rubick_cost
from envs.performance.rubick_measured import MeasuredModel
from envs.types import ClusterSpec, FloatArray, JobSpec, Seconds
from envs.workloads import Workload


def least_makespan(
    workload: Workload, cluster: ClusterSpec, measured: MeasuredModel, slack: float | None = None
) -> Seconds:
    """No schedule ends before this, whatever it knows: seconds from t = 0.

    Two bounds, the later counts: a job's submission, its start, and its work on what is fastest for it; and whatever
    is submitted from some time on, on all GPUs at their best. Nodes, other starts than the cheapest, and what is not
    known of the future are left out.

    Args:
        workload: the jobs; they may have any number of GPUs.
        cluster: nodes of one GPU type.
        measured: speeds.
        slack: guaranteed jobs run at 1 / slack of their users' speed or not at all; None for no such promise.
    """
    needs = [least_need(job, cluster, measured, slack) for job in workload]
    alone, gpu_seconds = (np.array(column) for column in zip(*needs, strict=True))
    submit: FloatArray = workload.jobs["submit_time"]
    still_to_come = np.cumsum(gpu_seconds[::-1])[::-1] / cluster.num_gpus
    return float(max((submit + alone).max(), (submit + still_to_come).max()))


def least_need(
    job: JobSpec, cluster: ClusterSpec, measured: MeasuredModel, slack: float | None = None
) -> tuple[Seconds, float]:
    """Seconds that a job takes at least, and GPU-seconds, its starts included.

    It stays at one size, and pays for one start there. Or it changes: then it pays for two starts at least, on no fewer
    GPUs than its smallest size, and does no sample for less than at its most efficient size.
    """
    start = rubick_cost().seconds(job.model, first=True)
    speeds = _speeds(job, cluster, measured, slack)
    sizes = np.array(sorted(speeds))
    times = job.work / np.array([speeds[size] for size in sorted(speeds)])
    stays = (sizes * (start + times)).min()
    changes = 2 * start * sizes.min() + (sizes * times).min()
    return float(start + times.min()), float(min(stays, changes))


def _speeds(job: JobSpec, cluster: ClusterSpec, measured: MeasuredModel, slack: float | None) -> dict[int, float]:
    """Samples/s by GPUs, of the best plans on the fewest nodes: more nodes are never faster in this world."""
    found = {}
    for size in range(1, cluster.num_gpus + 1):
        best = measured.best_plan(job.model, size, -(-size // measured.gpus_per_node))
        found[best.num_gpus] = best.throughput
    level = 0.0
    if slack is not None and job.guaranteed:
        nodes = -(-job.num_gpus // measured.gpus_per_node)
        level = measured.throughput(job.model, "A800", job.num_gpus, nodes, plan=job.plan) / slack
    return {size: speed for size, speed in found.items() if speed > 0 and meets(speed, level)}
