"""Readers of public throughput profiles, which return samples/s by GPUs, nodes and batch from the original files.

Each reader returns a frame with the columns of `PROFILE_COLUMNS`. Rows that the source marks as infeasible (blank, 0)
are left out. The files are never part of the package.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from envs.performance.step_time import StepPoints
from envs.types import PerformanceError

PROFILE_COLUMNS = ("model", "gpu_type", "num_gpus", "num_nodes", "batch_size", "samples_per_s")

PREDICTION_COLUMNS = (
    "protocol",
    "quantity",
    "model",
    "gpu_type",
    "num_gpus",
    "num_nodes",
    "batch_size",
    "measured",
    "predicted",
    "error",
)
"""Columns of a protocol's predictions; `error` is (predicted - measured) / measured."""

ELASTICFLOW_NODES = {"A100": 8, "T4": 4}
"""GPUs per node of the machines in ElasticFlow's table; inferred, as the file has no node count. Jobs are packed."""


def read_gavel(path: Path | str) -> pd.DataFrame:
    """Read Gavel's isolated throughputs (`*_throughputs_isolated.csv`), without pairs.

    A step is one worker's mini-batch, and the file counts the steps of all workers together, so samples/s = steps/s
    times the batch size in the job type's name (inferred: otherwise one-GPU and eight-GPU rows disagree).
    `_unconsolidated` rows are read as one GPU per node. For job types without a batch size (A3C, CycleGAN), a step
    counts as one sample.
    """
    table = read_columns(path, ("worker_type", "job_type", "scale_factor", "steps_per_s"))
    batch = table["job_type"].str.extract(r"batch size (\d+)", expand=False).astype(float).fillna(1.0)
    spread = table["worker_type"].str.endswith("_unconsolidated")
    gpus = table["scale_factor"].astype(int)
    found = pd.DataFrame(
        {
            "model": table["job_type"].str.partition(" (")[0],
            "gpu_type": table["worker_type"].str.removesuffix("_unconsolidated").str.upper(),
            "num_gpus": gpus,
            "num_nodes": np.where(spread, gpus, 1),
            "batch_size": (batch * gpus).astype(int),
            "samples_per_s": table["steps_per_s"] * batch,
        }
    )
    return _usable(found[~(spread & (gpus == 1))], path)  # on one GPU spread rows repeat the others


def read_elasticflow(path: Path | str) -> pd.DataFrame:
    """Read ElasticFlow's strong scaling (`elasticflow_throughputs_long.csv`): A100 and T4, 1 to 64 GPUs, packed."""
    table = read_columns(path, ("gpu", "model", "global_batch_size", "num_gpus", "iters_per_s"))
    per_node = table["gpu"].map(ELASTICFLOW_NODES)
    found = pd.DataFrame(
        {
            "model": table["model"],
            "gpu_type": table["gpu"],
            "num_gpus": table["num_gpus"],
            "num_nodes": np.ceil(table["num_gpus"] / per_node).astype(int),
            "batch_size": table["global_batch_size"],
            "samples_per_s": table["iters_per_s"] * table["global_batch_size"],
        }
    )
    return _usable(found, path)


def rows_to_steps(rows: pd.DataFrame) -> StepPoints:
    """Convert the rows of a reader's frame to step times."""
    gpus = rows["num_gpus"].to_numpy(np.float64)
    batch = rows["batch_size"].to_numpy(np.float64)
    seconds = batch / rows["samples_per_s"].to_numpy(np.float64)
    return StepPoints(gpus, rows["num_nodes"].to_numpy(np.float64), batch / gpus, seconds)


def read_columns(path: Path | str, columns: tuple[str, ...], *, text: tuple[str, ...] = ()) -> pd.DataFrame:
    """Read a public table, and check that it has the columns; `text` are those whose digits are no number.

    Raises:
        PerformanceError: the file is missing, or lacks a column.
    """
    if not Path(path).exists():
        raise PerformanceError(f"profile {path}: no such file; give the public table, or the folder that holds it")
    table = pd.read_csv(path, dtype=dict.fromkeys(text, str))
    absent = [column for column in columns if column not in table]
    if absent:
        raise PerformanceError(
            f"profile {path}: lacks column {absent[0]!r}, has {', '.join(table.columns)}; use the original table"
        )
    return table


def _usable(table: pd.DataFrame, path: Path | str) -> pd.DataFrame:
    kept = table[table["samples_per_s"].notna() & (table["samples_per_s"] != 0)].reset_index(drop=True)
    bad = kept["samples_per_s"].lt(0) | ~np.isfinite(kept["samples_per_s"])
    if bad.any():
        row = kept[bad].iloc[0]
        raise PerformanceError(
            f"profile {path}: {row['model']} on {row['num_gpus']} {row['gpu_type']}: throughput is "
            f"{row['samples_per_s']}; it must be positive and finite, correct or remove the row"
        )
    return kept
