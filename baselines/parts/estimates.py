"""Remaining work and time from the view, with one clear error where the scenario hides them."""

from collections.abc import Sequence

import numpy as np

from envs.scheduling import ClusterView
from envs.types import FloatArray, IntArray, JobId, MurmurationError, Placement


def require_remaining_work(view: ClusterView, jobs: IntArray, scheduler: str) -> FloatArray:
    """Return the samples left of each of `jobs`: float64[len(jobs)], exact or estimated.

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    return _require_known(view.remaining_work(jobs), scheduler)


def remaining_time(view: ClusterView, jobs: IntArray, scheduler: str) -> FloatArray:
    """Return the seconds left of each of `jobs` on its requested GPUs of its fastest type: float64[len(jobs)].

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    return _require_known(view.remaining_time(jobs), scheduler)


def remaining_time_on(view: ClusterView, jobs: IntArray, placements: Sequence[Placement], scheduler: str) -> FloatArray:
    """Return the seconds left of each of `jobs` on given GPUs: float64[len(jobs)].

    All GPUs of a job count as consolidated and as fast as the slowest of them.

    Raises:
        MurmurationError: the scenario hides remaining work.
    """
    left = require_remaining_work(view, jobs, scheduler)
    throughputs = [
        _slowest_throughput(view, job, placement) for job, placement in zip(jobs.tolist(), placements, strict=True)
    ]
    with np.errstate(divide="ignore"):  # a gang over several types has no throughput in the view, so no known end
        return np.asarray(left / np.array(throughputs, dtype=np.float64))


def as_long_again(view: ClusterView, jobs: IntArray) -> FloatArray:
    """Guess, where nothing is known, that each of `jobs` needs as many more seconds as it has run: float64[len(jobs)].

    Of the processes that have run for some time, half run for at least as long again (Harchol-Balter and Downey,
    "Exploiting process lifetime distributions for dynamic load balancing", TOCS 1997). The tail of training jobs is at
    least as heavy.
    """
    return view.attained_service(jobs) / view.num_gpus[jobs]


def _slowest_throughput(view: ClusterView, job: JobId, placement: Placement) -> float:
    gpu_types = view.cluster.node_types[list(placement.gpus)]
    return float(view.throughputs(job)[gpu_types, placement.num_gpus].min())


def _require_known(values: FloatArray, scheduler: str) -> FloatArray:
    if np.isnan(values).any():
        raise MurmurationError(
            f"{scheduler}: needs remaining work, which this scenario hides (information.work is none); "
            f"set scenario.information.work to exact or estimate, or take fifo, las or tiresias"
        )
    return values
