"""The provenance of each model's throughput on each GPU type, and the error of scaled ones.

A throughput is measured, fitted between or beyond measured points, or scaled from another GPU type. Two errors can be
measured. A point that is left out of the fit is predicted from the model's others on the same type. A whole type that
is left out is predicted from the model's other types, by the rule for types that were not measured.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from envs.performance.gpus import gpu_types
from envs.performance.measurements import TESTBEDS, measured_points, measured_types, points_to_steps, priors
from envs.performance.memory_fit import fits_memory
from envs.performance.scaling import common_exponent, leave_one_type_out, log_index, nearest_type
from envs.performance.step_time import fit_step_time
from envs.performance.table_model import ANY_NUMBER, default_model
from envs.performance.zoo import zoo
from experiments.performance.profiles import read_columns

_FEWEST = 3  # points of a fit from which one is left out
_LLM_KEYS = ["model", "seq_len", "num_gpus", "sharding", "checkpointing", "cpu_offload", "micro_batch"]


def describe_measured() -> pd.DataFrame:
    """Tabulate the measured pairs of model and GPU type.

    Returns:
        model, gpu_type, source, points, most GPUs and nodes measured; the median error in per cent of a point that is
        left out of the fit (NaN with fewer than three points); and the error in per cent of the one-GPU throughput if
        it were scaled from the model's other types (NaN without any).
    """
    scaled = {(error.model, error.gpu_type): error.relative for error in leave_one_type_out()}
    rows = []
    for (model, gpu_type), points in sorted(measured_points().items()):
        rows.append(
            (
                model,
                gpu_type,
                ", ".join(sorted({point.source for point in points})),
                len(points),
                max(point.num_gpus for point in points),
                max(point.num_nodes for point in points),
                float(np.median(np.abs(_left_out_errors(model, gpu_type)))) * 100 if len(points) >= _FEWEST else np.nan,
                scaled.get((model, gpu_type), np.nan) * 100,
            )
        )
    columns = ["model", "GPU type", "source", "points", "GPUs", "nodes", "point left out: %", "type left out: %"]
    return pd.DataFrame(rows, columns=columns)


def describe_models() -> pd.DataFrame:
    """Tabulate what each model's throughputs are on each GPU type, by `TableModel.provenance`.

    Returns:
        model, measured (GPU types after their source), guessed (GPU types), and those whose memory is too small.
    """
    known, rows = default_model(), []
    for model in zoo():
        known_types: dict[str, list[str]] = {"measured": [], "guessed": [], "infeasible": []}
        for gpu_type in gpu_types():
            known_types[known.provenance(model, gpu_type)].append(gpu_type)
        sources: dict[str, list[str]] = {}
        for gpu_type in known_types.pop("measured"):
            sources.setdefault(measured_points()[model, gpu_type][0].source, []).append(gpu_type)
        measured = "; ".join(f"{source}: {', '.join(types)}" for source, types in sources.items())
        rows.append((model, measured, *(", ".join(types) for types in known_types.values())))
    return pd.DataFrame(rows, columns=["model", "measured", "guessed", "too large for"])


def describe_scaled() -> pd.DataFrame:
    """Tabulate the guessed pairs: one row per model.

    Returns:
        model; its GPU types that are scaled, each after the type from which; those on which it does not fit the memory;
        and the range of the factor by which the rule missed the model's measured types, each left out in turn.
    """
    factors: dict[str, list[float]] = {}
    for error in leave_one_type_out():
        factors.setdefault(error.model, []).append(1.0 + error.relative)
    rows = []
    for model, profile in zoo().items():
        runs = {gpu_type: fits_memory(profile, gpu_type, ANY_NUMBER) for gpu_type in gpu_types()}
        guessed = [name for name, fits in runs.items() if fits and name not in measured_types(model)]
        origin: dict[str, list[str]] = {}
        for name in guessed:
            origin.setdefault(nearest_type(model, name), []).append(name)
        scaled = "; ".join(f"{nearest}: {', '.join(names)}" for nearest, names in origin.items())
        lacking = ", ".join(name for name, fits in runs.items() if not fits)
        known = factors.get(model)
        missed = f"{min(known):.2f} to {max(known):.2f} ({len(known)} types)" if known else "not measurable"
        rows.append((model, scaled or "none", lacking or "none", missed))
    return pd.DataFrame(rows, columns=["model", "scaled from: to", "does not fit", "predicted / measured"])


def check_h100(path: Path | str) -> pd.DataFrame:
    """Compare the rule from A100 to H100 with llm-foundry's language models, measured alike on both types.

    Args:
        path: llm-foundry's table.

    Returns:
        One row: configurations, the rule's factor for a model without a slope of its own, and median, least and largest
        measured factor of tokens/s in bfloat16.

    Raises:
        PerformanceError: the file is missing, or lacks a column.
    """
    table = read_columns(path, (*_LLM_KEYS, "gpu", "precision", "tokens_per_s"))
    table = table[table["precision"].isin(["amp_bf16", "bf16"])]
    best = table.groupby([*_LLM_KEYS, "gpu"])["tokens_per_s"].max().unstack()
    measured = (best["h100_80gb"] / best["a100_80gb"]).dropna()
    rule = float(np.exp(common_exponent() * (log_index("H100") - log_index("A100"))))
    row = (len(measured), rule, measured.median(), measured.min(), measured.max())
    return pd.DataFrame([row], columns=["configurations", "rule", "measured: median", "least", "largest"])


def _left_out_errors(model: str, gpu_type: str) -> list[float]:
    """(predicted - measured) / measured of each point, predicted from the model's others on the type."""
    points = measured_points()[model, gpu_type]
    testbed = TESTBEDS[points[0].source]
    known = priors(zoo()[model], gpu_type, testbed)
    errors = []
    for place in range(len(points)):
        seen = points_to_steps(points[:place] + points[place + 1 :])
        surface = fit_step_time(seen, known, testbed.gpus_per_node, network_cards=testbed.network_cards)
        left = points_to_steps((points[place],))
        predicted = surface.seconds(left.num_gpus, left.num_nodes, left.local_batch)
        errors.append(float(left.seconds[0] / predicted[0]) - 1.0)
    return errors
