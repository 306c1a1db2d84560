"""What schedulers that look ahead ask of the view; one clear line where the scenario does not tell."""

from collections.abc import Sequence

import numpy as np

from envs.scheduling import ClusterView
from envs.types import FloatArray, IntArray, JobId, MurmurationError


def remaining_work(view: ClusterView, jobs: IntArray, scheduler: str) -> FloatArray:
    """Samples left of each of `jobs`: float64[len(jobs)], exact or estimated.

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    return _told(view.remaining_work(jobs), scheduler)


def remaining_time(view: ClusterView, jobs: IntArray, scheduler: str) -> FloatArray:
    """Seconds left of each of `jobs` on its requested GPUs of its fastest type: float64[len(jobs)].

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    return _told(view.remaining_time(jobs), scheduler)


def remaining_time_in_place(view: ClusterView, jobs: IntArray, scheduler: str) -> FloatArray:
    """Seconds left of running jobs on the GPUs that they hold, consolidated: float64[len(jobs)].

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    left = remaining_work(view, jobs, scheduler)
    for i, job in enumerate(jobs.tolist()):
        gpus = view.placement(job).gpus
        kinds = view.cluster.node_types[list(gpus)]
        left[i] /= view.speed(job)[kinds, sum(gpus.values())].min()
    return left


def types_by_speed(view: ClusterView, job: JobId, num_gpus: int) -> Sequence[int]:
    """Indices of the GPU types on which a job runs with so many GPUs, fastest first; ties in the cluster's order."""
    speed = view.speed(job)[:, num_gpus]
    order = np.argsort(-speed, kind="stable")
    return [int(kind) for kind in order if speed[kind] > 0]


def _told(values: FloatArray, scheduler: str) -> FloatArray:
    if np.isnan(values).any():
        raise MurmurationError(
            f"{scheduler}: needs remaining work, which this scenario hides (information.work is none); "
            f"set scenario.information.work to exact or estimate, or take fifo, las or tiresias"
        )
    return values
