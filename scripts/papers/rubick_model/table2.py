"""The paper's table of prediction errors, by the protocol of its artifact.

All inputs are the artifact's: fit points, measured forward time of every plan, given constants for LLaMA, and the
measurements for comparison. They are in `tables/rubick_artifact.yaml`, with notes on their quirks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from envs.performance.rubick.data import load_table, read_fit_points, read_mega_params
from envs.performance.rubick.iteration import MEGA, PerfParams
from envs.types import ExecutionPlan
from papers.rubick_model.artifact import (
    ArtifactLinks,
    data_parallel_time,
    fit_artifact,
    model_parallel_time,
)

OFFLOAD_THREADS = 4.0  # CPU threads per GPU in the artifact's runs with offload


@dataclass(frozen=True, slots=True)
class ArtifactModel:
    """One model in the artifact's validation."""

    params: PerfParams
    links: ArtifactLinks
    mega_params: float
    shape: Mapping[str, float]  # for plans with tensor and pipeline parallelism; empty for models without such plans

    def time(self, point: tuple[str, int, int, float], *, micro: int, recompute: float, p_norms: bool) -> float:
        """Predict the iteration time in ms of a point (plan, nodes, GPUs per node, forward ms)."""
        name, nodes, per_node, forward = point
        if not name.isdigit():
            zero, offload = (0 if name == "dp" else 2), name == "zero-offload"
            plan = ExecutionPlan(data=per_node, zero_stage=zero, offload=offload, accumulation=micro)
            threads = OFFLOAD_THREADS if offload else 1.0
            return data_parallel_time(
                *(self.params, self.links, self.mega_params, forward, plan),
                cpus=threads,
                recompute=recompute,
                p_norms=p_norms,
            )[2]
        pipeline, tensor = int(name[0]), int(name[1])
        plan = ExecutionPlan(nodes * per_node // (pipeline * tensor), tensor, pipeline)
        return model_parallel_time(
            *(self.params, self.links, self.mega_params, forward, plan, per_node, nodes),
            batch=int(self.shape["batch"]),
            sequence_hidden=self.shape["sequence_hidden"],
            layers=int(self.shape["layers"]),
        )


def artifact_model(root: Path, model: str, *, p_norms: bool = False) -> ArtifactModel:
    """Return a model of the artifact; without given constants it is fitted on `rubick_fit_points`.

    Args:
        root: folder of profiles.
        model: name of the model.
        p_norms: see `artifact_errors`.

    Raises:
        PerformanceError: fit points are missing or broken.
    """
    table = load_table("rubick_artifact")
    links = ArtifactLinks(**table["links"][model])
    if model in table["given"]:
        params = PerfParams(**table["given"][model])
    else:
        folder = root / "rubick_fit_points"
        params, _ = fit_artifact(
            read_fit_points(folder, model), links, read_mega_params(folder, model), p_norms=p_norms
        )
    return ArtifactModel(params, links, table["parameters"][model] / MEGA, table["shapes"].get(model, {}))


def artifact_errors(root: Path, *, p_norms: bool = False) -> pd.DataFrame:
    """Predict each point of the table: model, class, plan, num_gpus, predicted_ms, measured_ms, error (relative).

    Args:
        root: folder of profiles.
        p_norms: whether overlaps of offload and swap are p-norms (see `papers.rubick_model.artifact`).

    Raises:
        PerformanceError: fit points are missing or broken.
    """
    classes: list[dict[str, Any]] = load_table("rubick_artifact")["classes"]
    models = {name: artifact_model(root, name, p_norms=p_norms) for name in dict.fromkeys(c["model"] for c in classes)}
    rows = []
    for entry in classes:
        micros = entry.get("micro", [1] * len(entry["points"]))
        for (name, nodes, per_node, forward, measured), micro in zip(entry["points"], micros, strict=True):
            predicted = models[entry["model"]].time(
                (name, nodes, per_node, forward), micro=micro, recompute=entry.get("recompute", 1.0), p_norms=p_norms
            )
            gpus = nodes * per_node
            rows.append((entry["model"], entry["class"], name, gpus, predicted, measured, predicted / measured - 1))
    columns = ["model", "class", "plan", "num_gpus", "predicted_ms", "measured_ms", "error"]
    return pd.DataFrame(rows, columns=columns)


def artifact_table(errors: pd.DataFrame) -> pd.DataFrame:
    """Tabulate average and largest error in per cent by (model, class), ours and published, in the paper's order."""
    size = 100.0 * errors["error"].abs()
    grouped = size.groupby([errors["model"], errors["class"]], sort=False)
    table = grouped.agg(average="mean", maximum="max").reset_index()
    published = {(e["model"], e["class"]): e["published"] for e in load_table("rubick_artifact")["classes"]}
    pairs = [published[key] for key in zip(table["model"], table["class"], strict=True)]
    return table.assign(published_average=[p[0] for p in pairs], published_maximum=[p[1] for p in pairs])
