"""Predictions of the step-time model beside measurements that it did not see.

Frames with the columns of `PREDICTION_COLUMNS`, by protocol:

- `gavel_errors`: the points of each (model, GPU type) are split into halves by chance; each half is predicted from
  the other. The penalty of spreading a job over nodes (speed spread over speed consolidated) is predicted too, wherever
  its spread point is unseen, and listed apart where its consolidated point is unseen as well.
- `elasticflow_errors`: points on one node predict those on many (fit small, predict large).
- `scaling_errors`: each GPU type predicted from the other types.
- `rubick_errors`: the protocols of `envs.performance.rubick_validation`, without the points that were fitted on.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from envs.performance.profiles import read_elasticflow, read_gavel, step_points
from envs.performance.rubick_validation import PROTOCOLS, prediction_errors
from envs.performance.scaling import leave_one_type_out
from envs.performance.step_time import Priors, StepTime, fit
from envs.types import PerformanceError

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
SMALL = 8  # GPUs up to which ElasticFlow's points are seen
DISTRIBUTED = 2  # GPUs from which a Gavel family counts as measured for scaling
NOT_SCALING = ("ncf", "yolov3", "resnet50_cifar10")
"""Left out of ElasticFlow's strong scaling: slower on 8 GPUs than on 4, or not run on more than 8."""


def gavel_errors(path: Path | str, *, seed: int = 0) -> pd.DataFrame:
    """Each half of Gavel's points predicted from the other half.

    Args:
        path: Gavel's isolated throughputs.
        seed: of the split.
    """
    table = read_gavel(path)
    rng = np.random.default_rng(seed)
    found = []
    for (model, kind), rows in table.groupby(["model", "gpu_type"]):
        if rows["num_gpus"].max() < DISTRIBUTED:
            continue
        order = rng.permutation(len(rows))
        halves = (rows.iloc[order[::2]], rows.iloc[order[1::2]])
        for seen, unseen in (halves, halves[::-1]):
            speeds = _predicted(rows, fit(step_points(seen), Priors())).assign(unseen=rows.index.isin(unseen.index))
            penalties = _penalties(speeds)
            for quantity, values in (
                ("samples/s", speeds[speeds["unseen"]]),
                ("spread penalty", penalties),
                ("spread penalty, both unseen", penalties[penalties["unseen_together"]]),
            ):
                found.append(_rows("gavel, half from half", quantity, str(model), str(kind), values))
    return pd.concat(found, ignore_index=True)


def elasticflow_errors(path: Path | str, *, multi_node_points: int = 0, gpu_type: str = "A100") -> pd.DataFrame:
    """Speeds on more than 8 GPUs predicted from those on up to 8.

    Args:
        path: ElasticFlow's strong-scaling table.
        multi_node_points: points of each model on more than 8 GPUs that are seen too: fewest GPUs, largest batch.
        gpu_type: A100 or T4.
    """
    table = read_elasticflow(path)
    found = []
    for model, rows in table[table["gpu_type"] == gpu_type].groupby("model"):
        large = rows[rows["num_gpus"] > SMALL].sort_values(["num_gpus", "batch_size"], ascending=[True, False])
        if model in NOT_SCALING or large.empty:
            continue
        seen = pd.concat((rows[rows["num_gpus"] <= SMALL], large.iloc[:multi_node_points]))
        speeds = _predicted(large.iloc[multi_node_points:], fit(step_points(seen), Priors()))
        protocol = f"elasticflow, up to 8 GPUs and {multi_node_points} multi-node"
        found.append(_rows(protocol, "samples/s", str(model), gpu_type, speeds))
    return pd.concat(found, ignore_index=True)


def scaling_errors() -> pd.DataFrame:
    """One-GPU speeds on each measured type predicted from the zoo's other measured types."""
    rows = [
        ("leave one GPU type out", "samples/s", e.model, e.gpu_type, 1, 1, 0, e.measured, e.predicted, e.relative)
        for e in leave_one_type_out()
    ]
    return pd.DataFrame(rows, columns=list(PREDICTION_COLUMNS))


def rubick_errors(root: Path | str) -> pd.DataFrame:
    """Execution plans on A800 that Rubick's model was not fitted on, by each of its protocols.

    Args:
        root: folder of profiles, with `rubick` and `rubick_fit_points`.
    """
    found = []
    for protocol in PROTOCOLS:
        rows = prediction_errors(Path(root), protocol)
        rows = rows[~rows["fitted"].astype(bool)].rename(columns={"batch": "batch_size"})
        speeds = rows.assign(
            measured=rows["batch_size"] / rows["measured_s"], predicted=rows["batch_size"] / rows["predicted_s"]
        )
        for model, group in speeds.groupby("model", sort=False):
            name = f"rubick, {protocol.replace('_', ' ')}"
            found.append(_rows(name, "samples/s", str(model), "A800", group))
    return pd.concat(found, ignore_index=True)


def validate(root: Path | str, *, seed: int = 0) -> pd.DataFrame:
    """All protocols on public profiles.

    Args:
        root: folder that holds `profiles`; empty is an error.
        seed: of Gavel's halves.

    Raises:
        PerformanceError: a file is absent or not what it should be.
    """
    if not str(root):
        raise PerformanceError("profiles: no folder given; set data=<folder with profiles/>, or $MURMURATION_DATA")
    profiles = Path(root) / "profiles"
    scaling_table = profiles / "elasticflow" / "elasticflow_throughputs_long.csv"
    return pd.concat(
        (
            gavel_errors(profiles / "gavel" / "simulation_throughputs_isolated.csv", seed=seed),
            elasticflow_errors(scaling_table),
            elasticflow_errors(scaling_table, multi_node_points=1),
            scaling_errors(),
            rubick_errors(profiles),
        ),
        ignore_index=True,
    )


def summary(predictions: pd.DataFrame, by: tuple[str, ...] = ("protocol", "quantity")) -> pd.DataFrame:
    """Number of predictions, and median, mean, 90th percentile and maximum of |error| in per cent, by group."""
    size = predictions.assign(size=predictions["error"].abs() * 100).groupby(list(by), sort=False)["size"]
    return pd.DataFrame(
        {
            "points": size.size(),
            "median %": size.median(),
            "mean %": size.mean(),
            "p90 %": size.quantile(0.9),
            "max %": size.max(),
        }
    ).reset_index()


def _predicted(rows: pd.DataFrame, surface: StepTime) -> pd.DataFrame:
    points = step_points(rows)
    seconds = surface.seconds(points.num_gpus, points.num_nodes, points.local_batch)
    return rows.assign(measured=rows["samples_per_s"], predicted=rows["batch_size"] / seconds)


def _penalties(speeds: pd.DataFrame) -> pd.DataFrame:
    """Speed spread over speed consolidated: of unseen spread rows, each with the row that differs in nothing else."""
    spread = speeds[(speeds["num_nodes"] > 1) & speeds["unseen"]]
    together = speeds[speeds["num_nodes"] == 1]
    pairs = spread.merge(together, on=["num_gpus", "batch_size"], suffixes=("", "_together"))
    return pairs.assign(
        measured=pairs["measured"] / pairs["measured_together"],
        predicted=pairs["predicted"] / pairs["predicted_together"],
    )


def _rows(protocol: str, quantity: str, model: str, kind: str, values: pd.DataFrame) -> pd.DataFrame:
    error = values["predicted"] / values["measured"] - 1.0
    named = values.assign(protocol=protocol, quantity=quantity, model=model, gpu_type=kind, error=error)
    return named[list(PREDICTION_COLUMNS)].reset_index(drop=True)
