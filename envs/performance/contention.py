"""What neighbours cost: jobs that share a node's network and host, and jobs that share a GPU.

Every answer is a factor in [0, 1] on the speed that a job has alone. Three modes:

- `off`: no job notices another.
- `measured`: what measurements say. Two jobs on one GPU run at Gavel's co-location speeds (OSDI'20; `tables/
  colocation.csv`, 84 pairs on K80, P100 and V100, of which a 0 says that both do not fit the memory). Jobs on one node
  share its network link max-min fairly once their average traffic exceeds it. The stages of a step on the host
  (reading and preparing data) do not interfere as long as each job keeps to its proportional share: Muri's profiles
  (SIGCOMM'22; `tables/stages.csv`) show one 8-GPU job feeding eight times as many GPUs from one node's host with its
  host stage at most 10 % longer.
- `worst_case`: nothing overlaps. Co-located jobs take turns on the GPU, and run no faster than the worst pair measured;
  jobs on one node all communicate at the same moments; host stages queue up behind each other.

Measured: the co-location pairs, the stage times. Modelled: fair shares of the link, stages that queue. Guessed: models
without a measured pair or stage profile fall back on what `_pair` and `stage_profile` say.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
import numpy.typing as npt

from envs.performance.gpus import gpu_type as known_gpu
from envs.performance.zoo import model_profile, zoo_name
from envs.types import FloatArray, PerformanceError

Mode = Literal["off", "measured", "worst_case"]
MODES: tuple[Mode, ...] = ("off", "measured", "worst_case")


@dataclass(frozen=True, slots=True)
class StageProfile:
    """Shares of a step's duration in which one job, alone, works each resource; they may overlap and sum to over 1."""

    host: float  # reading and preprocessing
    gpu: float
    network: float
    measured: bool  # in Muri's table; else host and GPU follow the zoo's `gpu_share`


@dataclass(frozen=True, slots=True)
class Contention:
    """The chosen mode, and the factors that follow from it."""

    mode: Mode = "measured"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise PerformanceError(f"contention mode is {self.mode!r}; choose one of {', '.join(MODES)}")

    def network_factors(self, traffic: npt.ArrayLike, capacity: float) -> FloatArray:
        """Speeds of the jobs that share one node's link, relative to each having it alone: float64[num_jobs].

        Measured: jobs ask for their average traffic and get max-min fair shares of the link; speed falls as far as
        the share falls short. Worst case: each job's transfers meet those of all others, and share the link
        equally while they last.

        Args:
            traffic: float64[num_jobs], GB/s that each job sends across the link on average when alone, at most
                `capacity` (more is cut: no job sends more than the link carries).
            capacity: GB/s of the link.

        Raises:
            PerformanceError: negative or undefined traffic, or a link that is not positive.
        """
        wanted = np.asarray(traffic, np.float64)
        if not (wanted >= 0).all() or not capacity > 0:
            raise PerformanceError(
                f"network: traffic {wanted.tolist()} on a link of {capacity} GB/s; traffic must be at least 0, "
                "the link positive"
            )
        wanted = np.minimum(wanted, capacity)
        busy = wanted > 0
        if self.mode == "off" or not busy.any():
            return np.ones_like(wanted)
        if self.mode == "measured":
            granted = max_min_shares(wanted, capacity)
            return np.where(busy, granted / np.where(busy, wanted, 1.0), 1.0)
        share_of_step = wanted / capacity
        return np.asarray(1.0 / (1.0 + share_of_step * (int(busy.sum()) - 1)))

    def host_factors(self, models: Sequence[str], node_share: npt.ArrayLike) -> FloatArray:
        """Speeds of the jobs that share one node's cores and storage, relative to alone: float64[num_jobs].

        A host stage slows down by the total demand once that exceeds the node: the sum of the jobs' host stages, each
        weighted by its share of the node. Worst case: not partitioned, so every job weighs 1.

        Args:
            models: zoo name or alias of each job.
            node_share: float64[num_jobs], the share of the node's cores that each job draws on; with CPU in
                proportion to GPUs, its GPUs over the node's.

        Raises:
            PerformanceError: unknown model, or a share outside [0, 1].
        """
        share = np.asarray(node_share, np.float64)
        if share.shape != (len(models),) or not ((share >= 0) & (share <= 1)).all():
            raise PerformanceError(
                f"host: node_share is {share.tolist()}; give each of {len(models)} jobs a share from 0 to 1"
            )
        if self.mode == "off" or not len(models):
            return np.ones(len(models))
        host = np.array([stage_profile(model).host for model in models])
        weight = share if self.mode == "measured" else np.ones(len(models))
        stretch = max(1.0, float((host * weight).sum()))
        return np.asarray(1.0 / (1.0 + np.minimum(host, 1.0) * (stretch - 1.0)))

    def shared_gpu_factors(self, models: Sequence[str], gpu_type: str) -> FloatArray:
        """Speeds of the jobs on one GPU, relative to each having it alone: float64[num_jobs]; all 0 if they do not fit.

        Measured for pairs; three jobs or more, and pairs without a measurement, share by Muri's stages: the sum of
        what they ask of each resource stretches that stage. Off means that sharing is free, a bound and no forecast.

        Raises:
            PerformanceError: unknown model or GPU type.
        """
        names = [zoo_name(model) for model in models]
        kind = known_gpu(gpu_type).name
        if self.mode == "off" or len(names) < 2:
            return np.ones(len(names))
        if not _fit_together(names, kind):
            return np.zeros(len(names))
        if self.mode == "worst_case":
            turns = np.full(len(names), 1.0 / len(names))
            return np.asarray(np.minimum(turns, [_worst_measured(name) for name in names]))
        pair = _pair(names[0], names[1], kind) if len(names) == 2 else None
        return stage_factors(names) if pair is None else np.array(pair)


def max_min_shares(wanted: FloatArray, capacity: float) -> FloatArray:
    """Max-min fair shares of a capacity: nobody gets more than wanted, and what is left over goes to the others."""
    granted = np.zeros_like(wanted)
    left, waiting = capacity, len(wanted)
    for job in np.argsort(wanted, kind="stable"):
        granted[job] = min(wanted[job], left / waiting)
        left -= granted[job]
        waiting -= 1
    return granted


def average_traffic(model: str, samples_per_s: float, batch_size: int, num_nodes: int) -> float:
    """GB/s that a data-parallel job sends across each node's link: a ring all-reduce of its gradients every step.

    Args:
        model: zoo name or alias.
        samples_per_s: speed of the job when alone.
        batch_size: global; speed over batch size is steps per second.
        num_nodes: nodes of the job; on one node nothing crosses the link.

    Raises:
        PerformanceError: unknown model, or a batch size below 1.
    """
    if batch_size < 1:
        raise PerformanceError(f"model {model}: batch_size is {batch_size}; it must be at least 1")
    per_step = 2.0 * (num_nodes - 1) / num_nodes * model_profile(model).gradient_gb
    return per_step * samples_per_s / batch_size


def stage_factors(models: Sequence[str]) -> FloatArray:
    """Speeds of jobs that share everything, by Muri's stages, relative to alone: float64[num_jobs].

    Each stage stretches by what all jobs together ask of its resource, if that is more than there is; jobs whose
    stages differ interleave and lose little, equal jobs lose most.
    """
    profiles = [stage_profile(model) for model in models]
    share = np.array([(profile.host, profile.gpu, profile.network) for profile in profiles])
    stretch = np.maximum(share.sum(axis=0), 1.0)
    longest = np.maximum(1.0, share.sum(axis=1))  # stages of one job that overlap already
    return np.asarray(1.0 / (1.0 + (share * (stretch - 1.0)).sum(axis=1) / longest))


@cache
def stage_profile(model: str, num_gpus: int = 1) -> StageProfile:
    """Muri's stage profile of a model on one GPU, or on eight (`num_gpus` 8 or more) with its network stage.

    Raises:
        PerformanceError: nobody knows the model.
    """
    name = zoo_name(model)
    row = _stages().get((name, 8 if num_gpus >= 8 else 1))
    if row is None:
        gpu = model_profile(name).gpu_share
        return StageProfile(1.0 - gpu, gpu, 0.0, False)
    iteration, host, gpu, network = row
    return StageProfile(min(host / iteration, 1.0), min(gpu / iteration, 1.0), min(network / iteration, 1.0), True)


@cache
def colocation() -> dict[tuple[str, str, str], float]:
    """(model, neighbour, GPU type) -> speed beside the neighbour relative to alone; 0 if both do not fit."""
    found: dict[tuple[str, str, str], float] = {}
    for row in csv.DictReader(_table("colocation.csv").splitlines()):
        found[row["model_1"], row["model_2"], row["gpu_type"]] = float(row["speed_1"])
        found[row["model_2"], row["model_1"], row["gpu_type"]] = float(row["speed_2"])
    return found


def _pair(first: str, second: str, kind: str) -> tuple[float, float] | None:
    """The measured speeds of two jobs on one GPU, on this type or else on the newest one measured; None if on none."""
    speeds = colocation()
    for measured in (kind, "V100"):
        if (first, second, measured) in speeds:
            return speeds[first, second, measured], speeds[second, first, measured]
    return None


def _fit_together(models: Sequence[str], kind: str) -> bool:
    """Whether jobs fit one GPU's memory: by measurement for a measured pair, else by their parameters."""
    if len(models) == 2 and (models[0], models[1], kind) in colocation():
        return colocation()[models[0], models[1], kind] > 0
    profiles = [model_profile(model) for model in models]
    needs = math.fsum(profile.state_gb + profile.working_gb for profile in profiles)
    return needs <= known_gpu(kind).usable_gb


@cache
def _worst_measured(model: str) -> float:
    """The slowest that a model was ever measured beside another that fits; 1 if it was not measured."""
    return min((speed for (name, _, _), speed in colocation().items() if name == model and speed > 0), default=1.0)


@cache
def _stages() -> dict[tuple[str, int], tuple[float, float, float, float]]:
    return {
        (row["model"], int(row["num_gpus"])): (
            float(row["iteration_ms"]),
            float(row["host_ms"]),
            float(row["gpu_ms"]),
            float(row["network_ms"]),
        )
        for row in csv.DictReader(_table("stages.csv").splitlines())
    }


def _table(name: str) -> str:
    return (files("envs.performance") / "tables" / name).read_text(encoding="utf-8")
