"""A lower bound on makespan in Rubick's measured world, including the cost of starts."""

import numpy as np

from baselines.rubick.curves import meets
from envs.performance import rubick_cost
from envs.performance.rubick.measured import MeasuredModel
from envs.types import ClusterSpec, Configuration, FloatArray, JobSpec, Seconds
from envs.workloads import Workload


def least_makespan(
    workload: Workload, cluster: ClusterSpec, measured: MeasuredModel, slack: float | None = None
) -> Seconds:
    """Lower bound on the makespan of every schedule, in seconds from t = 0.

    The larger of two bounds. First, for each job: its submission, its start and its work at its highest throughput.
    Second, for each time: the work submitted from then on, on all GPUs at their best. Both ignore node boundaries, all
    starts but the cheapest, and that the future is unknown.

    Args:
        workload: the jobs, which may run on any number of GPUs.
        cluster: nodes of one GPU type.
        measured: throughputs.
        slack: guaranteed jobs run with at least 1 / slack of their user plan's throughput, or not at all; None for no
            guarantee.
    """
    needs = [least_need(job, cluster, measured, slack) for job in workload]
    alone, gpu_seconds = (np.array(column) for column in zip(*needs, strict=True))
    submit: FloatArray = workload.jobs["submit_time"]
    still_to_come = np.cumsum(gpu_seconds[::-1])[::-1] / cluster.num_gpus
    return float(max((submit + alone).max(), (submit + still_to_come).max()))


def least_need(
    job: JobSpec, cluster: ClusterSpec, measured: MeasuredModel, slack: float | None = None
) -> tuple[Seconds, float]:
    """Lower bounds on the seconds and on the GPU-seconds of a job, including its starts.

    A job that keeps one size pays for one start. A job that changes pays for at least two starts, on at least its
    smallest number of GPUs, and each sample costs at least what it costs at the most efficient size.
    """
    start = rubick_cost().seconds(job.model, first=True)
    throughputs = _throughputs(job, cluster, measured, slack)
    sizes = np.array(sorted(throughputs))
    times = job.work / np.array([throughputs[size] for size in sorted(throughputs)])
    stays = (sizes * (start + times)).min()
    changes = 2 * start * sizes.min() + (sizes * times).min()
    return float(start + times.min()), float(min(stays, changes))


def _throughputs(job: JobSpec, cluster: ClusterSpec, measured: MeasuredModel, slack: float | None) -> dict[int, float]:
    """Samples/s of the best plan by number of GPUs, on the fewest nodes; more nodes are never faster here."""
    found = {}
    for size in range(1, cluster.num_gpus + 1):
        best = measured.best_plan(job.model, size, -(-size // measured.gpus_per_node))
        found[best.num_gpus] = best.throughput
    level = 0.0
    if slack is not None and job.guaranteed:
        nodes = -(-job.num_gpus // measured.gpus_per_node)
        level = measured.throughput(job.model, Configuration("A800", job.num_gpus, nodes, plan=job.plan)) / slack
    return {size: throughput for size, throughput in found.items() if throughput > 0 and meets(throughput, level)}
