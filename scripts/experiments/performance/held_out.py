"""Throughputs that the simulator plays compared with measurements of sources that no fit uses.

The sources are in `envs/performance/tables/held_out/throughputs.csv`, with their citations. They are held out as a
whole. Each row is compared twice:

- as played: the model's usual batch size, the fastest plan, nodes of 8 GPUs. That is what a scheduler meets.
- at equal samples: the model is asked for as many samples per GPU and step as were measured, so that growing batches
  are not compared with a fixed one. Rows whose source states no batch size are left out here.

A measured language model is compared with the zoo's MPT model of nearly its size, and its samples are converted by the
operations of a training step (`experiments.performance.language`). Runs in FP8 have no counterpart: all language models
of the zoo were measured in half precision.
"""

from collections.abc import Hashable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from envs.performance.measurements import measured_points, measured_types, played_points
from envs.performance.scaling import nearest_type
from envs.performance.table_model import TableModel, default_model, raw_throughputs
from envs.performance.zoo import model_profile
from envs.types import Configuration
from experiments.performance.language import SHAPES, nearest_zoo_model, zoo_samples
from experiments.performance.reproduction import Reproduction


class Counterpart(NamedTuple):
    """The zoo model that a measured model is compared with."""

    name: str  # in the zoo
    tokens: float = np.nan  # of a sample of the zoo's source; NaN where samples are no token sequences


COUNTERPARTS = {
    **{name: Counterpart(nearest_zoo_model(name)) for name in SHAPES},
    "BERT-large pre-training": Counterpart("bert_large", 512),
    "BERT-large SQuAD": Counterpart("bert_large", 512),
    "ResNet-50 v1.5": Counterpart("resnet50"),
    "ResNet-50": Counterpart("resnet50_imagenet"),
    "VGG-16": Counterpart("vgg16"),
    "DeepSpeech2": Counterpart("deepspeech2"),
    "NCF": Counterpart("ncf"),
}
"""By model name in the table."""

ACCUMULATED = {"BERT-large pre-training": {128: 65536, 512: 32768}}
"""Sequences of one step on all GPUs, by model and tokens of a sequence, where gradients are accumulated.

`batch_per_gpu` is one micro-batch of theirs. PyTorch's tables have these steps on 8 GPUs and more, TensorFlow 2's have
30,720 to 90,112 sequences. Steps on one GPU are smaller, but there no gradients are exchanged.
"""

GPUS_PER_NODE = 8
GROUPS = ("source", "program", "zoo_model", "gpu_type", "num_nodes", "provenance", "batch")
WANTED = 0.10  # error of scaling
TOLERATED = 0.40  # error of the throughput of a language model
_SERIES = ["source", "program", "model", "gpu_type", "precision", "sequence_length", "note"]
_ALIKE = ["source", "program", "model", "num_gpus", "num_nodes", "precision", "sequence_length"]
_ERRORS = ["log_ratio", "log_ratio_equal", "log_ratio_linear"]
_PLAYED = ["zoo_model", "measured", "played", "played_equal", "provenance", "batch", "lacks"]


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
        The rows and `zoo_model`; `measured`, `played` and `played_equal` (samples/s of the zoo's samples; the last at
        equal samples per GPU, NaN where they are not stated); `provenance` of the played throughput; `batch`, whether
        the samples per GPU are among those that the model was fitted to; and `lacks`, why there is no counterpart, or
        an empty string.
    """
    found = [_play_row(row, model or default_model()) for row in rows.to_dict("records")]
    return rows.join(pd.DataFrame(found, columns=_PLAYED, index=rows.index))


def _play_row(row: dict[Hashable, Any], model: TableModel) -> tuple[str, float, float, float, str, str, str]:
    counterpart = COUNTERPARTS.get(str(row["model"]))
    if counterpart is None:
        return "", np.nan, np.nan, np.nan, "", "", "no such model in the zoo"
    name, gpu_type, gpus, nodes = counterpart.name, str(row["gpu_type"]), int(row["num_gpus"]), int(row["num_nodes"])
    if reason := _lacks(row):
        return name, np.nan, np.nan, np.nan, "", "", reason
    samples = _zoo_samples(row, counterpart)
    played, equal, where = model.throughput(name, Configuration(gpu_type, gpus, nodes)), np.nan, "not stated"
    batch = find_step_batch(row) * samples
    if batch > 0:
        whole = max(round(batch), 1)
        equal = float(model.raw(name, model_profile(name), gpu_type, gpus, np.array([nodes]), whole)[-1, 0])
        where = _place_batch(name, gpu_type, batch / gpus)
    provenance = model.provenance(name, gpu_type)
    lacks = "" if played > 0 else "the zoo's model does not run there"
    return name, float(row["samples_per_second"]) * samples, played, equal, provenance, where, lacks


def _lacks(row: dict[Hashable, Any]) -> str:
    if int(row["num_gpus"]) > GPUS_PER_NODE * int(row["num_nodes"]):
        return f"more than {GPUS_PER_NODE} GPUs on a node"
    return "FP8" if row["precision"] == "fp8" and row["model"] in SHAPES else ""


def _zoo_samples(row: dict[Hashable, Any], counterpart: Counterpart) -> float:
    """Return how many samples of the zoo's model have the work of one of the measured model's."""
    if row["model"] in SHAPES:
        return zoo_samples(str(row["model"]), float(row["sequence_length"]))
    return 1.0 if np.isnan(counterpart.tokens) else float(row["sequence_length"]) / counterpart.tokens


def find_step_batch(row: Mapping[Any, Any]) -> float:
    """Return the measured samples of one step on all GPUs of a row; 0 if they are not stated."""
    steps = ACCUMULATED.get(str(row["model"]))
    if steps is not None:
        return float(steps[int(row["sequence_length"])])
    return float(row["batch_per_gpu"] or 0) * int(row["num_gpus"])


def _place_batch(name: str, gpu_type: str, per_gpu: float) -> str:
    origin = gpu_type if gpu_type in measured_types(name) else nearest_type(name, gpu_type)
    fitted = [point.batch_size / point.num_gpus for point in played_points(name, origin)]
    if min(fitted) <= per_gpu <= max(fitted):
        return "as fitted"
    return "fewer than fitted" if per_gpu < min(fitted) else "more than fitted"


def compare_quantities(played: pd.DataFrame) -> pd.DataFrame:
    """Compare throughputs, their scaling, and their ratios between GPU types.

    Args:
        played: as from `play_rows`; rows without a counterpart are left out.

    Returns:
        One row per quantity, with the columns of `played`, `quantity`, and the logarithms of played over measured:
        `log_ratio` as played, `log_ratio_equal` at equal samples per GPU, and `log_ratio_linear` if every GPU added as
        much as the others, which any model of scaling should beat. Quantities are "samples/s"; "8/1 GPUs", "16/8 GPUs",
        "32/8 GPUs" and "more/8 GPUs", throughputs over those on 1 and on 8 GPUs of the same table; and "types, 1 GPU"
        and "types, more GPUs", throughputs over those on another GPU type.
    """
    known = played[played["lacks"] == ""].reset_index(drop=True)
    known = known.assign(
        quantity="samples/s",
        log_ratio=np.log(known["played"] / known["measured"]),
        log_ratio_equal=np.log(known["played_equal"] / known["measured"]),
        log_ratio_linear=np.log(known["num_gpus"] / known["measured"]),
    )
    scaling = _pair_rows(known, _SERIES, "num_gpus")
    gpus, base = scaling["num_gpus"], scaling["num_gpus_base"]
    scaling = scaling[(base == 1) & (gpus == GPUS_PER_NODE) | (base == GPUS_PER_NODE) & (gpus > GPUS_PER_NODE)]
    named = scaling["num_gpus"].map({8: "8/1 GPUs", 16: "16/8 GPUs", 32: "32/8 GPUs"}).fillna("more/8 GPUs")
    types = _pair_rows(known, _ALIKE, "gpu_type")
    types = types[types["gpu_type_base"] < types["gpu_type"]]
    types = types.assign(
        quantity=np.where(types["num_gpus"] == 1, "types, 1 GPU", "types, more GPUs"),
        gpu_type=types["gpu_type"] + "/" + types["gpu_type_base"],
    )
    parts = [known, scaling.assign(quantity=named)[known.columns], types[known.columns]]
    for part in (parts[0], parts[2]):
        part["log_ratio_linear"] = np.nan
    return pd.concat(parts, ignore_index=True)


def _pair_rows(known: pd.DataFrame, alike: list[str], differs: str) -> pd.DataFrame:
    """All pairs of rows that are alike; the errors become those of the ratio of the first over the second, the base."""
    pairs = known.merge(known[[*alike, differs, *_ERRORS]], on=alike, suffixes=("", "_base"))
    return pairs.assign(**{name: pairs[name] - pairs[f"{name}_base"] for name in _ERRORS})


def summarise_ratios(compared: pd.DataFrame, by: tuple[str, ...] = ()) -> pd.DataFrame:
    """Tabulate errors by quantity and group, in per cent: a factor of 2, in either direction, is an error of 100 %.

    Returns:
        The group; and, as played, at equal samples per GPU and for linear scaling, the number of rows, median and 90th
        percentile of the error, and the bias: the median of played over measured, less 1, negative where too little is
        played.
    """
    keys = ["quantity", *by]
    columns: dict[str, pd.Series] = {}
    for name, before in zip(_ERRORS, ("", "equal: ", "linear: "), strict=True):
        sizes = compared.assign(size=compared[name].abs()).groupby(keys, sort=False)["size"]
        columns[f"{before}rows"] = sizes.count()
        columns[f"{before}median %"] = np.expm1(sizes.median()) * 100
        columns[f"{before}p90 %"] = np.expm1(sizes.quantile(0.9)) * 100
        columns[f"{before}bias %"] = np.expm1(compared.groupby(keys, sort=False)[name].median()) * 100
    return pd.DataFrame(columns).reset_index()


def _in_lines(compared: pd.DataFrame) -> pd.DataFrame:
    """The table of `summarise_ratios`, without the columns that repeat others."""
    return summarise_ratios(compared).drop(columns=["linear: rows", "linear: bias %"])


def tabulate_groups(compared: pd.DataFrame, by: str) -> pd.DataFrame:
    """Tabulate the errors at equal samples per GPU of each group, one quantity a column.

    Returns:
        The group, and in each cell the median error and the 90th percentile in per cent, and the number of rows.
    """
    summary = summarise_ratios(compared.dropna(subset="log_ratio_equal"), (by,))
    cells = [
        f"{median:.0f}, {high:.0f} ({rows})"
        for median, high, rows in zip(
            summary["equal: median %"], summary["equal: p90 %"], summary["equal: rows"], strict=True
        )
    ]
    table = summary.assign(cell=cells).pivot(index=by, columns="quantity", values="cell").fillna("")
    order = [name for name in dict.fromkeys(compared["quantity"]) if name in table.columns]
    return table[order].reset_index()


def tabulate_language(compared: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the errors of the throughputs of language models, as played, by source, tokens of a sequence and GPUs.

    Returns:
        source, tokens, GPUs ("8 to 64" or "more"), the number of rows, the median and the largest error in per cent,
        and how many rows are off by more than `TOLERATED`.
    """
    rows = compared[(compared["quantity"] == "samples/s") & compared["model"].isin(SHAPES)]
    rows = rows.assign(
        tokens=rows["sequence_length"].astype(int),
        GPUs=np.where(rows["num_gpus"] <= 64, "8 to 64", "more"),
        error=np.expm1(rows["log_ratio"].abs()) * 100,
    )
    errors = rows.groupby(["source", "tokens", "GPUs"], sort=False)["error"]
    many = f"above {TOLERATED:.0%}"
    columns = {"rows": errors.size(), "median %": errors.median(), "largest %": errors.max()}
    columns[many] = errors.agg(lambda error: int((error > TOLERATED * 100).sum()))
    return pd.DataFrame(columns).reset_index()


def describe_misses(compared: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the models whose scaling misses by more than `WANTED` at equal samples per GPU.

    Returns:
        source, model, gpu_type, provenance and batch, as from `play_rows`; the number of rows, and of those that miss;
        and the median error and the bias in per cent.
    """
    scaling = compared[compared["quantity"].str.contains("/[18] GPUs")].dropna(subset="log_ratio_equal")
    scaling = scaling.assign(size=np.expm1(scaling["log_ratio_equal"].abs()))
    groups = scaling.groupby(["source", "model", "gpu_type", "provenance", "batch"], sort=False)
    table = pd.DataFrame(
        {
            "rows": groups.size(),
            "missed": groups["size"].agg(lambda size: int((size > WANTED).sum())),
            "median %": groups["size"].median() * 100,
            "bias %": np.expm1(groups["log_ratio_equal"].median()) * 100,
        }
    ).reset_index()
    return table[table["missed"] > 0].sort_values("median %", ascending=False, kind="stable")


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
        ("Held-out sources: as played, at equal samples per GPU, and linear scaling", _in_lines(compared)),
        *(
            (f"At equal samples, by {name.replace('_', ' ')}: median, p90 % (rows)", tabulate_groups(compared, name))
            for name in GROUPS
        ),
        ("Language models, as played", tabulate_language(compared)),
        (f"Scaling that misses by more than {WANTED:.0%}", describe_misses(compared)),
        (f"Rows without a counterpart: {len(lacking)} of {len(played)}", without),
        ("Rows of measured.csv, to which the model is fitted, that are played with a larger error", missed),
        ("Rows of measured.csv that contradict the others and are left out", left_out),
    )
    return compared, Reproduction(tables, ())
