"""What schedulers that look ahead ask of the view; one clear line where the scenario does not tell."""

from collections.abc import Sequence

import numpy as np

from envs.scheduling import ClusterView
from envs.types import FloatArray, IntArray, JobId, MurmurationError, Placement


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


def remaining_time_on(view: ClusterView, jobs: IntArray, placements: Sequence[Placement], scheduler: str) -> FloatArray:
    """Seconds left of each of `jobs` on given GPUs, all as fast as the slowest and consolidated: float64[len(jobs)].

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    left = remaining_work(view, jobs, scheduler)
    speeds = [_speed(view, job, placement) for job, placement in zip(jobs.tolist(), placements, strict=True)]
    with np.errstate(divide="ignore"):  # a gang over several types: its speed is not in the view, so no end is in sight
        return np.asarray(left / np.array(speeds, dtype=np.float64))


def as_long_again(view: ClusterView, jobs: IntArray) -> FloatArray:
    """As many seconds left as each of `jobs` has run: float64[len(jobs)], the guess where nothing is known.

    Half of the processes that have run for a time run for as long again (Harchol-Balter and Downey, "Exploiting
    process lifetime distributions for dynamic load balancing", TOCS 1997), and training jobs are no lighter in the
    tail.
    """
    return view.attained_service(jobs) / view.num_gpus[jobs]


def _speed(view: ClusterView, job: JobId, placement: Placement) -> float:
    kinds = view.cluster.node_types[list(placement.gpus)]
    return float(view.speed(job)[kinds, placement.num_gpus].min())


def _told(values: FloatArray, scheduler: str) -> FloatArray:
    if np.isnan(values).any():
        raise MurmurationError(
            f"{scheduler}: needs remaining work, which this scenario hides (information.work is none); "
            f"set scenario.information.work to exact or estimate, or take fifo, las or tiresias"
        )
    return values
