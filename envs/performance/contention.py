"""Slowdown of co-located jobs that share a node's network and CPUs.

Jobs that share a GPU are in `envs.performance.colocation`.

Every function returns factors in [0, 1] on the throughput that a job has alone. There are four modes:

- `off`: co-located jobs do not slow each other down.
- `measured`: by measurements. Jobs on one node share its network link by the law of `collision_factors`, and none gets
  more than its max-min fair share. The CPU stages of a step (reading and preparing data) do not interfere as long as
  each job keeps to its proportional share. Muri's profiles (SIGCOMM'22; `tables/stages.csv`) show this: one 8-GPU job
  feeds eight times as many GPUs from one node's CPUs, and its CPU stage is at most 10 % longer.
- `worst_case`: nothing overlaps. Jobs on one node all communicate at the same time; CPU stages queue behind each other.
- `max_min`: as measured, but jobs share a link by max-min fairness alone: nothing is lost until their average traffic
  together exceeds the link. It predicts the measured pairs worse; it is here for comparison.

Measured: the stage times, and the law for two jobs on a link (DeepShare, ICPADS'23; its errors on held-out pairs are in
`experiments.performance.contention`). Modelled: the law for three or more jobs on a link, and queues of stages.
Guessed: the fallback for models without a stage profile, see `stage_profile`.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
import numpy.typing as npt

from envs.performance.zoo import architecture, model_profile
from envs.types import FloatArray, PerformanceError

Mode = Literal["off", "measured", "worst_case", "max_min"]
MODES: tuple[Mode, ...] = ("off", "measured", "worst_case", "max_min")


@dataclass(frozen=True, slots=True)
class StageProfile:
    """Shares of a step in which a job that runs alone uses each resource; they may overlap and sum to more than 1."""

    cpu: float  # reading and preprocessing
    gpu: float
    network: float
    measured: bool  # in Muri's table; otherwise CPU and GPU follow the zoo's `gpu_share`


@dataclass(frozen=True, slots=True)
class Contention:
    """Slowdown factors of co-located jobs in the chosen mode."""

    mode: Mode = "measured"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise PerformanceError(f"contention mode is {self.mode!r}; choose one of {', '.join(MODES)}")

    def network_factors(self, traffic: npt.ArrayLike, capacity: float) -> FloatArray:
        """Return throughputs of the jobs that share one node's link, relative to alone: float64[num_jobs].

        Measured: the smaller of `collision_factors` and of max-min fairness, by which each job requests its average
        traffic and runs at the ratio of granted to requested. Max-min alone: the latter. Worst case: each job's
        transfers coincide with those of all other jobs, and share the link equally.

        Args:
            traffic: float64[num_jobs], GB/s that each job sends across the link on average when it runs alone; more
                than `capacity` counts as `capacity`, since no job sends more than the link carries.
            capacity: GB/s of the link.

        Raises:
            PerformanceError: traffic is negative or NaN, or the capacity is not positive.
        """
        wanted = np.asarray(traffic, np.float64)
        if not (wanted >= 0).all() or not capacity > 0:
            raise PerformanceError(
                f"network: traffic is {wanted.tolist()} on a link of {capacity} GB/s; traffic must be at least 0, "
                "the link's capacity positive"
            )
        wanted = np.minimum(wanted, capacity)
        busy = wanted > 0
        if self.mode == "off" or not busy.any():
            return np.ones_like(wanted)
        share_of_time = wanted / capacity
        if self.mode == "worst_case":
            return np.asarray(1.0 / (1.0 + share_of_time * (int(busy.sum()) - 1)))
        granted = max_min_shares(wanted, capacity)
        fair = np.where(busy, granted / np.where(busy, wanted, 1.0), 1.0)
        return fair if self.mode == "max_min" else np.minimum(collision_factors(share_of_time), fair)


def collision_factors(share_of_time: FloatArray) -> FloatArray:
    """Return throughputs of jobs that use one link at independent times, relative to alone: float64[num_jobs].

    A job that runs alone uses the link during the share c of its time. The other jobs' transfers coincide with its own
    by chance, so that its transfers take `1 + sum of the others' c` times as long:

        factor of job i = 1 / (1 + c_i * sum of c_j over the other jobs j)

    The law was chosen on measured pairs of jobs (DeepShare, ICPADS'23), see `experiments.performance.contention`.
    More than two jobs were not measured. The form is ours.

    Args:
        share_of_time: float64[num_jobs], c of each job, from 0 to 1.
    """
    others = share_of_time.sum() - share_of_time
    return np.asarray(1.0 / (1.0 + share_of_time * others))


def max_min_shares(wanted: FloatArray, capacity: float) -> FloatArray:
    """Return max-min fair shares of a capacity: no job gets more than it wants; the rest goes to the other jobs."""
    granted = np.zeros_like(wanted)
    left, waiting = capacity, len(wanted)
    for job in np.argsort(wanted, kind="stable"):
        granted[job] = min(wanted[job], left / waiting)
        left -= granted[job]
        waiting -= 1
    return granted


@cache
def stage_profile(model: str, num_gpus: int = 1) -> StageProfile:
    """Return Muri's stage profile of a model on one GPU, or on eight with its network stage (`num_gpus` at least 8).

    Raises:
        PerformanceError: the model is unknown.
    """
    name = architecture(model)
    row = _stages().get((name, 8 if num_gpus >= 8 else 1))
    if row is None:
        gpu = model_profile(name).gpu_share
        return StageProfile(1.0 - gpu, gpu, 0.0, False)
    iteration, cpu, gpu, network = row
    return StageProfile(min(cpu / iteration, 1.0), min(gpu / iteration, 1.0), min(network / iteration, 1.0), True)


@cache
def _stages() -> dict[tuple[str, int], tuple[float, float, float, float]]:
    text = (files("envs.performance") / "tables" / "stages.csv").read_text(encoding="utf-8")
    return {
        (row["model"], int(row["num_gpus"])): (
            float(row["iteration_ms"]),
            float(row["cpu_ms"]),
            float(row["gpu_ms"]),
            float(row["network_ms"]),
        )
        for row in csv.DictReader(text.splitlines())
    }
