"""The project's own small table of measured throughputs, by model and GPU type, and the machines behind them."""

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from envs.performance.concave import consistent, is_concave, pool_violators
from envs.performance.fitted import fitted_parameters
from envs.performance.gpus import find_gpu_type
from envs.performance.step_time import Priors, StepPoints, StepTime, fit_step_time, surface_through
from envs.performance.zoo import ModelProfile, model_profile
from envs.types import FloatArray, PerformanceError


@dataclass(frozen=True, slots=True)
class Testbed:
    """The machines of one source."""

    __test__ = False  # pytest collects classes by the prefix of their name

    gpus_per_node: int
    inter_node_gb_s: float  # link between nodes; used only if no measured point crosses nodes
    citation: str
    network_cards: int = 1  # per node; several only where the measured points show them


TESTBEDS: dict[str, Testbed] = {
    "gavel": Testbed(8, 1.25, "Narayanan et al., OSDI'20, simulation_throughputs.json; spread read as one GPU a node"),
    "elasticflow": Testbed(8, 100.0, "Gu et al., ASPLOS'23, A100 profiles; nodes inferred as the fewest of 8 GPUs"),
    "pollux": Testbed(4, 6.25, "Qiao et al., OSDI'21, artifact: T4 of AWS, nodes of 4 GPUs (Sia's placements-aws.csv)"),
    "sia": Testbed(
        8, 12.5, "Subramanya et al., SOSP'23, artifact: placements-dgx.csv (A100), placements-azure.csv (V100)"
    ),
    "rubick": Testbed(
        8, 100.0, "Zhang et al., MLSys'25, artifact profiles; the best plan of each GPU and node count", 4
    ),
    "muri": Testbed(8, 12.5, "Zhao et al., SIGCOMM'22, iteration times by number of GPUs in its traces"),
    "synergy": Testbed(8, 1.25, "Mohan et al., OSDI'22, iteration times at saturating CPU and memory"),
    # Rows of 40 GB cards stand for A100 where there are any: only they were measured on more than one node, at equal
    # settings. Rows of 80 GB stand for mpt_70b and for mpt_30b on one node. mpt_1b on 32 GPUs is a fifth below the rows
    # of 16 and 64 GPUs, and is held out. A batch is one micro-batch of every GPU, since full sharding gathers the
    # weights again for each.
    "llm_foundry": Testbed(
        8, 200.0, "github.com/mosaicml/llm-foundry, training benchmarks, commit 8c8dd48f (2025-07-21); RoCE, 1600 Gb/s"
    ),
    "llm_foundry_h100": Testbed(8, 400.0, "the same page's H100 tables; eight cards of 400 Gb/s a node (assumed)"),
    "megatron_bridge": Testbed(
        8,
        400.0,
        "github.com/NVIDIA-NeMo/Megatron-Bridge, performance summary of the 26.04.01 container, commit 067f987d "
        "(2026-08-22); eight cards of 400 Gb/s a node",
    ),
}


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One measured throughput; a row of `tables/measured.csv`."""

    model: str
    gpu_type: str
    num_gpus: int
    num_nodes: int
    batch_size: int  # global
    samples_per_s: float
    source: str  # a key of TESTBEDS

    @property
    def seconds(self) -> float:
        """Duration of one step."""
        return self.batch_size / self.samples_per_s


def parse_measured_points(text: str, origin: str = "measured.csv") -> dict[tuple[str, str], tuple[MeasuredPoint, ...]]:
    """Parse measured throughputs by (model, GPU type) from a table's text, header first.

    Raises:
        PerformanceError: a throughput is not a positive finite number.
    """
    found: dict[tuple[str, str], list[MeasuredPoint]] = {}
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        point = MeasuredPoint(
            row["model"],
            row["gpu_type"],
            int(row["num_gpus"]),
            int(row["num_nodes"]),
            int(row["batch_size"]),
            float(row["samples_per_s"]),
            row["source"],
        )
        if not (math.isfinite(point.samples_per_s) and point.samples_per_s > 0):
            raise PerformanceError(
                f"{origin}: row {number}: samples_per_s is {row['samples_per_s']}; it must be positive and finite, "
                "remove the row"
            )
        found.setdefault((point.model, point.gpu_type), []).append(point)
    return {key: tuple(points) for key, points in found.items()}


@cache
def measured_points() -> dict[tuple[str, str], tuple[MeasuredPoint, ...]]:
    """Read all measured throughputs of the zoo by (model, GPU type)."""
    table = files("envs.performance") / "tables" / "measured.csv"
    return parse_measured_points(table.read_text(encoding="utf-8"))


@cache
def measured_types(model: str) -> tuple[str, ...]:
    """Return the GPU types on which a zoo model was measured."""
    return tuple(gpu_type for name, gpu_type in measured_points() if name == model)


def points_to_steps(points: tuple[MeasuredPoint, ...]) -> StepPoints:
    """Convert measured throughputs to step times."""

    def column(values: list[float]) -> FloatArray:
        return np.array(values, np.float64)

    return StepPoints(
        column([point.num_gpus for point in points]),
        column([point.num_nodes for point in points]),
        column([point.batch_size / point.num_gpus for point in points]),
        column([point.seconds for point in points]),
    )


@cache
def played_points(model: str, gpu_type: str) -> tuple[MeasuredPoint, ...]:
    """Return the measured points that a curve passes through: those that do not contradict each other (`concave`)."""
    points = measured_points()[model, gpu_type]
    if not is_concave(model_profile(model)):
        return points
    keep = consistent(points_to_steps(points))
    return tuple(point for point, kept in zip(points, keep.tolist(), strict=True) if kept)


def fitted_steps(model: str, gpu_type: str) -> StepPoints:
    """Return the steps that a surface is fitted to: as measured, or pooled (`envs.performance.concave`)."""
    points = played_points(model, gpu_type)
    steps = points_to_steps(points)
    if not is_concave(model_profile(model)):
        return steps
    return pool_violators(steps, TESTBEDS[points[0].source].gpus_per_node)


def priors(profile: ModelProfile, gpu_type: str, testbed: Testbed) -> Priors:
    """Return the all-reduce times expected from the gradients: twice the bytes over the bandwidth (ring all-reduce)."""
    volume = 2.0 * profile.gradient_gb
    return Priors(
        intra_seconds=volume / find_gpu_type(gpu_type).intra_node_gb_s,
        inter_seconds=volume / testbed.inter_node_gb_s,
    )


@cache
def measured_surface(model: str, gpu_type: str) -> StepTime:
    """Return the step-time surface of a zoo model on a measured GPU type, with parameters from the table if there."""
    if (model, gpu_type) not in fitted_parameters():
        return fit_measured_surface(model, gpu_type)
    points = measured_points()[model, gpu_type]
    testbed = TESTBEDS[points[0].source]
    bare = StepTime(fitted_parameters()[model, gpu_type], testbed.gpus_per_node, network_cards=testbed.network_cards)
    return surface_through(fitted_steps(model, gpu_type), bare)


def fit_measured_surface(model: str, gpu_type: str) -> StepTime:
    """Fit the surface of `measured_surface` without the table of fitted parameters."""
    points = measured_points()[model, gpu_type]
    testbed = TESTBEDS[points[0].source]
    return fit_step_time(
        fitted_steps(model, gpu_type),
        priors(model_profile(model), gpu_type, testbed),
        testbed.gpus_per_node,
        network_cards=testbed.network_cards,
    )
