"""Predictions of the step-time model compared with measurements that were held out.

Each protocol returns a frame with the columns of `PREDICTION_COLUMNS`:

- `gavel_errors`: the points of each (model, GPU type) are split into random halves, and each half is predicted from the
  other. The penalty of spreading a job over nodes (spread throughput over consolidated throughput) is predicted too if
  its spread point is unseen, and listed separately if its consolidated point is unseen as well.
- `elasticflow_errors`: points on one node predict those on several nodes (fit small, predict large).
- `t4_errors` (`experiments.performance.t4`): six points per model predict the others, on slow links.
- `scaling_errors`: each GPU type is predicted from the other types.
- `rubick_errors`: the protocols of `papers.rubick_model`, without the points of the fits.
- `contention_errors`: the protocols of `experiments.performance.contention`. The quantity is the law by which the
  factor on the throughput of a job beside another one is predicted.
- `efficiency_rows`: progress per sample at each batch size from the other batch sizes, of six applications.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from envs.performance.scaling import leave_one_type_out
from envs.performance.step_time import Priors, StepTime, fit_step_time
from envs.types import PerformanceError
from experiments.performance.contention import (
    LAWS,
    predict_from_traffic,
    predict_half_from_half,
    predict_held_out_models,
    read_deepshare,
)
from experiments.performance.efficiency import efficiency_errors
from experiments.performance.profiles import PREDICTION_COLUMNS, read_elasticflow, read_gavel, rows_to_steps
from experiments.performance.rubick_protocols import PROTOCOLS, prediction_errors
from experiments.performance.t4 import FITTED_NODES, t4_errors

SEEN_GPUS = 8  # ElasticFlow's points up to this number of GPUs are seen
DISTRIBUTED = 2  # a Gavel model measured on at least this number of GPUs has scaling to predict
NOT_SCALING = ("ncf", "yolov3", "resnet50_cifar10")
"""Models left out of ElasticFlow's strong scaling: slower on 8 GPUs than on 4, or not run on more than 8."""


def gavel_errors(path: Path | str, *, seed: int = 0) -> pd.DataFrame:
    """Predict each half of Gavel's points from the other half.

    Args:
        path: Gavel's isolated throughputs.
        seed: of the split.
    """
    table = read_gavel(path)
    rng = np.random.default_rng(seed)
    found = []
    for (model, gpu_type), rows in table.groupby(["model", "gpu_type"]):
        if rows["num_gpus"].max() < DISTRIBUTED:
            continue
        order = rng.permutation(len(rows))
        halves = (rows.iloc[order[::2]], rows.iloc[order[1::2]])
        for seen, unseen in (halves, halves[::-1]):
            throughputs = _predict(rows, fit_step_time(rows_to_steps(seen), Priors(), 8)).assign(
                unseen=rows.index.isin(unseen.index)
            )
            penalties = _penalties(throughputs)
            for quantity, values in (
                ("samples/s", throughputs[throughputs["unseen"]]),
                ("spread penalty", penalties),
                ("spread penalty, both unseen", penalties[penalties["unseen_together"]]),
            ):
                found.append(_rows("gavel, half from half", quantity, str(model), str(gpu_type), values))
    return pd.concat(found, ignore_index=True)


def elasticflow_errors(path: Path | str, *, multi_node_points: int = 0, gpu_type: str = "A100") -> pd.DataFrame:
    """Predict throughputs on more than 8 GPUs from those on up to 8.

    Args:
        path: ElasticFlow's strong-scaling table.
        multi_node_points: number of each model's points on more than 8 GPUs that are seen too: those with the fewest
            GPUs, and of these the largest batch.
        gpu_type: A100 or T4.
    """
    table = read_elasticflow(path)
    found = []
    for model, rows in table[table["gpu_type"] == gpu_type].groupby("model"):
        large = rows[rows["num_gpus"] > SEEN_GPUS].sort_values(["num_gpus", "batch_size"], ascending=[True, False])
        if model in NOT_SCALING or large.empty:
            continue
        seen = pd.concat((rows[rows["num_gpus"] <= SEEN_GPUS], large.iloc[:multi_node_points]))
        throughputs = _predict(large.iloc[multi_node_points:], fit_step_time(rows_to_steps(seen), Priors(), 8))
        protocol = f"elasticflow, up to 8 GPUs and {multi_node_points} multi-node"
        found.append(_rows(protocol, "samples/s", str(model), gpu_type, throughputs))
    return pd.concat(found, ignore_index=True)


def scaling_errors() -> pd.DataFrame:
    """Predict one-GPU throughputs on each measured type from the zoo's other measured types."""
    rows = [
        ("leave one GPU type out", "samples/s", e.model, e.gpu_type, 1, 1, 0, e.measured, e.predicted, e.relative)
        for e in leave_one_type_out()
    ]
    return pd.DataFrame(rows, columns=list(PREDICTION_COLUMNS))


def rubick_errors(root: Path | str) -> pd.DataFrame:
    """Predict execution plans on A800 that are not in the fit of Rubick's model, by each of its protocols.

    Args:
        root: folder of profiles, with `rubick` and `rubick_fit_points`.
    """
    found = []
    for protocol in PROTOCOLS:
        rows = prediction_errors(Path(root), protocol)
        rows = rows[~rows["fitted"].astype(bool)].rename(columns={"batch": "batch_size"})
        throughputs = rows.assign(
            measured=rows["batch_size"] / rows["measured_s"], predicted=rows["batch_size"] / rows["predicted_s"]
        )
        for model, group in throughputs.groupby("model", sort=False):
            name = f"rubick, {protocol.replace('_', ' ')}"
            found.append(_rows(name, "samples/s", str(model), "A800", group))
    return pd.concat(found, ignore_index=True)


def contention_errors(folder: Path | str, *, seed: int = 0) -> pd.DataFrame:
    """Predict how much pairs of jobs slow each other on network links, by each law.

    Args:
        folder: DeepShare's two tables.
        seed: of the random halves.
    """
    pairs, alone = read_deepshare(folder)
    protocols: dict[str, Callable[[str], pd.DataFrame]] = {
        "half from half": partial(predict_half_from_half, pairs, seed=seed),
        "pairs of models held out": partial(predict_held_out_models, pairs),
        "computed traffic, half from half": partial(predict_from_traffic, pairs, alone, seed=seed),
    }
    found = []
    for protocol, predict in protocols.items():
        for law in LAWS:
            for model, rows in predict(law).assign(batch_size=0).groupby("model", sort=False):
                found.append(_rows(f"deepshare, {protocol}", law, str(model), "not stated", rows))
    return pd.concat(found, ignore_index=True)


def efficiency_rows(path: Path | str) -> pd.DataFrame:
    """Return `efficiency_errors` in the columns of all protocols; it depends on no GPU.

    Args:
        path: progress of the training runs of Pollux's artifact.
    """
    rows = efficiency_errors(path).assign(gpu_type="any", num_gpus=0, num_nodes=0)
    return rows[list(PREDICTION_COLUMNS)]


def validate_performance(root: Path | str, *, seed: int = 0) -> pd.DataFrame:
    """Run all protocols on public profiles.

    Args:
        root: folder that holds `profiles`; must not be empty.
        seed: seed of the random halves of Gavel's points and DeepShare's pairs, and of the fitted points on T4.

    Raises:
        PerformanceError: no folder is given, or a file is missing or malformed.
    """
    if not str(root):
        raise PerformanceError("profiles: no folder is set; set data=<folder with profiles/> or $MURMURATION_DATA")
    profiles = Path(root) / "profiles"
    scaling_table = profiles / "elasticflow" / "elasticflow_throughputs_long.csv"
    return pd.concat(
        (
            gavel_errors(profiles / "gavel" / "simulation_throughputs_isolated.csv", seed=seed),
            elasticflow_errors(scaling_table),
            elasticflow_errors(scaling_table, multi_node_points=1),
            *(t4_errors(profiles / "pollux_t4", variant=variant, seed=seed) for variant in FITTED_NODES),
            scaling_errors(),
            rubick_errors(profiles),
            contention_errors(profiles / "deepshare", seed=seed),
            efficiency_rows(profiles / "pollux_noise" / "validation.csv"),
        ),
        ignore_index=True,
    )


def summarise_errors(predictions: pd.DataFrame, by: tuple[str, ...] = ("protocol", "quantity")) -> pd.DataFrame:
    """Tabulate number of points, and median, mean, 90th percentile and maximum of |error| in per cent, by group."""
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


def _predict(rows: pd.DataFrame, surface: StepTime) -> pd.DataFrame:
    points = rows_to_steps(rows)
    seconds = surface.seconds(points.num_gpus, points.num_nodes, points.local_batch)
    return rows.assign(measured=rows["samples_per_s"], predicted=rows["batch_size"] / seconds)


def _penalties(throughputs: pd.DataFrame) -> pd.DataFrame:
    """Return spread over consolidated throughput, for unseen spread rows with an otherwise equal consolidated row."""
    spread = throughputs[(throughputs["num_nodes"] > 1) & throughputs["unseen"]]
    together = throughputs[throughputs["num_nodes"] == 1]
    pairs = spread.merge(together, on=["num_gpus", "batch_size"], suffixes=("", "_together"))
    return pairs.assign(
        measured=pairs["measured"] / pairs["measured_together"],
        predicted=pairs["predicted"] / pairs["predicted_together"],
    )


def _rows(protocol: str, quantity: str, model: str, gpu_type: str, values: pd.DataFrame) -> pd.DataFrame:
    error = values["predicted"] / values["measured"] - 1.0
    named = values.assign(protocol=protocol, quantity=quantity, model=model, gpu_type=gpu_type, error=error)
    return named[list(PREDICTION_COLUMNS)].reset_index(drop=True)
