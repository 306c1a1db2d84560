"""The project's own small table of measured speeds, by model and GPU type, and what they were measured on."""

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from envs.performance.fitted import fitted
from envs.performance.gpus import gpu_type
from envs.performance.step_time import Priors, StepPoints, StepTime, fit, surface_through
from envs.performance.zoo import ModelProfile, model_profile
from envs.types import FloatArray, PerformanceError


@dataclass(frozen=True, slots=True)
class Testbed:
    """The machines of one source."""

    __test__ = False  # not a test, whatever its name begins with

    gpus_per_node: int
    inter_node_gb_s: float  # link between nodes; used only where no point crosses nodes
    citation: str


TESTBEDS: dict[str, Testbed] = {
    "gavel": Testbed(8, 1.25, "Narayanan et al., OSDI'20, simulation_throughputs.json; spread read as one GPU a node"),
    "elasticflow": Testbed(8, 100.0, "Gu et al., ASPLOS'23, A100 profiles; nodes inferred as the fewest of 8 GPUs"),
    "pollux": Testbed(4, 6.25, "Qiao et al., OSDI'21, T4 profiles as published with ElasticFlow; nodes of 4 GPUs"),
    "rubick": Testbed(8, 100.0, "Zhang et al., MLSys'25, artifact profiles; the best plan of each GPU and node count"),
    "muri": Testbed(8, 12.5, "Zhao et al., SIGCOMM'22, iteration times by number of GPUs in its traces"),
    "synergy": Testbed(8, 1.25, "Mohan et al., OSDI'22, iteration times at saturating CPU and memory"),
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured speed; a row of `tables/measured.csv`."""

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


def parse_measurements(text: str, origin: str = "measured.csv") -> dict[tuple[str, str], tuple[Measurement, ...]]:
    """Measured speeds by (model, GPU type) from a table's text, header first.

    Raises:
        PerformanceError: a speed is not a positive finite number.
    """
    found: dict[tuple[str, str], list[Measurement]] = {}
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        point = Measurement(
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
                "drop the row"
            )
        found.setdefault((point.model, point.gpu_type), []).append(point)
    return {key: tuple(points) for key, points in found.items()}


@cache
def measurements() -> dict[tuple[str, str], tuple[Measurement, ...]]:
    """All measured speeds of the zoo by (model, GPU type)."""
    table = files("envs.performance") / "tables" / "measured.csv"
    return parse_measurements(table.read_text(encoding="utf-8"))


@cache
def measured_types(model: str) -> tuple[str, ...]:
    """GPU types on which a zoo model was measured."""
    return tuple(kind for name, kind in measurements() if name == model)


def step_points(points: tuple[Measurement, ...]) -> StepPoints:
    """Measured speeds as measured steps."""

    def column(values: list[float]) -> FloatArray:
        return np.array(values, np.float64)

    return StepPoints(
        column([point.num_gpus for point in points]),
        column([point.num_nodes for point in points]),
        column([point.batch_size / point.num_gpus for point in points]),
        column([point.seconds for point in points]),
    )


def priors(profile: ModelProfile, kind: str, testbed: Testbed) -> Priors:
    """All-reduce times expected from the gradients' bytes: twice the bytes over the bandwidth (ring all-reduce)."""
    volume = 2.0 * profile.gradient_gb
    return Priors(
        intra_seconds=volume / gpu_type(kind).intra_node_gb_s,
        inter_seconds=volume / testbed.inter_node_gb_s,
    )


@cache
def measured_surface(model: str, kind: str) -> StepTime:
    """The step-time surface of a zoo model on a GPU type that it was measured on; its parameters are fitted ahead."""
    if (model, kind) not in fitted():
        return fit_anew(model, kind)
    points = measurements()[model, kind]
    return surface_through(step_points(points), fitted()[model, kind], TESTBEDS[points[0].source].gpus_per_node)


def fit_anew(model: str, kind: str) -> StepTime:
    """As `measured_surface`, without the table of fitted parameters."""
    points = measurements()[model, kind]
    testbed = TESTBEDS[points[0].source]
    return fit(step_points(points), priors(model_profile(model), kind, testbed), testbed.gpus_per_node)
