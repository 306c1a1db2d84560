"""Throughputs that the simulator plays compared with measurements of sources that no fit uses.

The sources are in `envs/performance/tables/held_out/throughputs.csv`, with their citations. Played is what the default
performance model answers an engine: the model's usual batch size, the fastest plan, nodes of 8 GPUs.

A measured language model is compared with a zoo model of nearly its size. Its samples/s are converted to the zoo's
samples by tokens and by parameters, since the work of a training step is nearly proportional to both.
"""

from collections.abc import Hashable
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from envs.performance.measurements import measured_points, played_points
from envs.performance.table_model import TableModel, default_model, raw_throughputs
from envs.performance.zoo import model_profile
from envs.types import Configuration
from experiments.performance.reproduction import Reproduction


class Counterpart(NamedTuple):
    """The zoo model that a measured model is compared with."""

    name: str  # in the zoo
    tokens: float = np.nan  # of a sample of the zoo's source; NaN where samples are no token sequences
    billions: float = np.nan  # parameters of the measured model; NaN where it is the zoo model itself


COUNTERPARTS = {
    "MPT-7B": Counterpart("llama7b", 2048, 6.66),
    "MPT-30B": Counterpart("llama30b", 2048, 29.98),
    "Llama-2-7B": Counterpart("llama7b", 2048),
    "Llama-3-8B": Counterpart("llama7b", 2048, 8.03),
    "Llama-3.1-8B": Counterpart("llama7b", 2048, 8.03),
    "BERT-large pre-training": Counterpart("bert_large", 512),
    "BERT-large SQuAD": Counterpart("bert_large", 512),
    "ResNet-50 v1.5": Counterpart("resnet50"),
    "ResNet-50": Counterpart("resnet50_imagenet"),
    "VGG-16": Counterpart("vgg16"),
    "DeepSpeech2": Counterpart("deepspeech2"),
    "NCF": Counterpart("ncf"),
}
"""By model name in the table. MPT-125M has none: the source of the zoo's gpt2 does not state its sequence length."""

GPUS_PER_NODE = 8
GROUPS = ("source", "gpu_type", "num_nodes", "precision", "provenance")
_SERIES = ["source", "program", "model", "gpu_type", "precision", "sequence_length", "note"]
_ALIKE = ["source", "program", "model", "num_gpus", "num_nodes", "precision", "sequence_length"]


def read_held_out() -> pd.DataFrame:
    """Read the measured rows of all held-out sources."""
    table = files("envs.performance") / "tables" / "held_out" / "throughputs.csv"
    with table.open(encoding="utf-8") as text:
        return pd.read_csv(text, comment="#", keep_default_na=False, na_values={"sequence_length": [""]})


def play_rows(rows: pd.DataFrame, model: TableModel | None = None) -> pd.DataFrame:
    """Add what is played beside what was measured.

    Args:
        rows: as from `read_held_out`.
        model: the performance model; None for the default one.

    Returns:
        The rows and `zoo_model`, `measured` and `played` (samples/s of the zoo's samples), `provenance` of the played
        throughput, and `lacks`: why there is no counterpart, or an empty string.
    """
    found = [_play_row(row, model or default_model()) for row in rows.to_dict("records")]
    columns = ["zoo_model", "measured", "played", "provenance", "lacks"]
    return rows.join(pd.DataFrame(found, columns=columns, index=rows.index))


def _play_row(row: dict[Hashable, Any], model: TableModel) -> tuple[str, float, float, str, str]:
    counterpart = COUNTERPARTS.get(str(row["model"]))
    if counterpart is None:
        return "", np.nan, np.nan, "", "no such model in the zoo"
    gpu_type, gpus, nodes = str(row["gpu_type"]), int(row["num_gpus"]), int(row["num_nodes"])
    if gpus > GPUS_PER_NODE * nodes:
        return counterpart.name, np.nan, np.nan, "", f"more than {GPUS_PER_NODE} GPUs on a node"
    measured = float(row["samples_per_second"])
    if not np.isnan(counterpart.tokens):
        measured *= float(row["sequence_length"]) / counterpart.tokens
    if not np.isnan(counterpart.billions):
        measured *= counterpart.billions * 1000 / model_profile(counterpart.name).params_millions
    played = model.throughput(counterpart.name, Configuration(gpu_type, gpus, nodes))
    provenance = model.provenance(counterpart.name, gpu_type)
    return counterpart.name, measured, played, provenance, "" if played > 0 else "the zoo's model does not run there"


def compare_quantities(played: pd.DataFrame) -> pd.DataFrame:
    """Compare throughputs, their scaling, and their ratios between GPU types.

    Args:
        played: as from `play_rows`; rows without a counterpart are left out.

    Returns:
        One row per quantity, with the columns of `played` and `quantity` ("samples/s", "scaling within a node",
        "scaling over nodes" or "ratio of GPU types") and `log_ratio`, the logarithm of played over measured. Scaling is
        the throughput over that on the next smaller number of GPUs of the same table; its row is that of the larger.
    """
    known = played[played["lacks"] == ""].reset_index(drop=True)
    known = known.assign(quantity="samples/s", log_ratio=np.log(known["played"] / known["measured"]))
    ordered = known.sort_values([*_SERIES, "num_gpus"], kind="stable")
    before = ordered.groupby(_SERIES, dropna=False, sort=False)["log_ratio"].shift()
    scope = np.where(ordered["num_nodes"] > 1, "scaling over nodes", "scaling within a node")
    scaling = ordered.assign(quantity=scope, log_ratio=ordered["log_ratio"] - before).dropna(subset="log_ratio")
    pairs = known.merge(known[[*_ALIKE, "gpu_type", "log_ratio"]], on=_ALIKE, suffixes=("", "_below"))
    pairs = pairs[pairs["gpu_type_below"] < pairs["gpu_type"]]
    types = pairs.assign(
        quantity="ratio of GPU types",
        gpu_type=pairs["gpu_type"] + "/" + pairs["gpu_type_below"],
        log_ratio=pairs["log_ratio"] - pairs["log_ratio_below"],
    )
    return pd.concat((known, scaling, types[known.columns]), ignore_index=True)


def summarise_ratios(compared: pd.DataFrame, by: tuple[str, ...] = ()) -> pd.DataFrame:
    """Tabulate errors by quantity and group, in per cent: a factor of 2, in either direction, is an error of 100 %.

    Returns:
        The group, the number of rows, median and 90th percentile of the error, and the bias: the median of played over
        measured, less 1, negative where too little is played.
    """
    groups = compared.groupby(["quantity", *by])["log_ratio"]
    sizes = compared.assign(size=compared["log_ratio"].abs()).groupby(["quantity", *by])["size"]
    columns = {
        "rows": groups.size(),
        "median %": np.expm1(sizes.median()) * 100,
        "p90 %": np.expm1(sizes.quantile(0.9)) * 100,
        "bias %": np.expm1(groups.median()) * 100,
    }
    return pd.DataFrame(columns).reset_index()


def describe_missed(shares: tuple[float, ...] = (0.03, 0.2)) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare the rows of `tables/measured.csv`, to which the model is fitted, with what it plays at their batch sizes.

    Returns:
        One row per share: rows that a curve claims to have measured, and how many are played more than that share above
        and below the measurement. And the rows that contradict the others (`envs.performance.concave`) and are left
        out, with what is played there.
    """
    errors, left_out = [], []
    for (model, gpu_type), points in measured_points().items():
        for point in points:
            nodes, profile = np.array([point.num_nodes]), model_profile(model)
            played = raw_throughputs(profile, gpu_type, point.num_gpus, nodes, point.batch_size)[-1, 0]
            if point in played_points(model, gpu_type):
                errors.append(played / point.samples_per_s)
            else:
                left_out.append((model, gpu_type, point.num_gpus, point.num_nodes, point.samples_per_s, played))
    counts = [
        (share * 100, len(errors), int(np.sum(np.array(errors) > 1 + share)), int(np.sum(np.array(errors) < 1 - share)))
        for share in shares
    ]
    return (
        pd.DataFrame(counts, columns=["error above %", "rows", "played too high", "played too low"]),
        pd.DataFrame(left_out, columns=["model", "GPU type", "GPUs", "nodes", "measured", "played"]),
    )


def validate_held_out() -> tuple[pd.DataFrame, Reproduction]:
    """Compare what is played with all held-out sources.

    Returns:
        The rows of `compare_quantities`, and the tables of their errors.
    """
    played = play_rows(read_held_out())
    compared = compare_quantities(played)
    lacking = played[played["lacks"] != ""]
    missed, left_out = describe_missed()
    without = lacking.groupby(["source", "model", "lacks"], sort=False).size().reset_index(name="rows")
    tables = (
        ("Held-out sources: played over measured, by quantity", summarise_ratios(compared)),
        *((f"The same by {name.replace('_', ' ')}", summarise_ratios(compared, (name,))) for name in GROUPS),
        (f"Rows without a counterpart: {len(lacking)} of {len(played)}", without),
        ("Rows of measured.csv, to which the model is fitted, that are played with a larger error", missed),
        ("Rows of measured.csv that contradict the others and are left out", left_out),
    )
    return compared, Reproduction(tables, ())
