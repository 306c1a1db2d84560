"""The cost of uneven placements: measured step times of uneven and even placements of the same GPUs and nodes.

The performance model prices all placements of n GPUs on N nodes alike. Two sources measured both kinds:

- Pollux, on T4 machines with one link per node;
- Rubick, on A800 machines with 8 GPUs, where each two GPUs share one of 4 network cards
  (`envs.performance.rubick.iteration`).
"""

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.performance.profiles import read_columns
from experiments.performance.t4 import read_pollux_t4

GPUS_PER_CARD = {"T4": 4, "A800": 2}
REPLICAS = ("ga", "gc", "zero-dp", "zero-offload")  # Rubick's plans that divide a model among no GPUs
RUBICK_MODELS = ("bert", "gpt2", "roberta", "t5", "vit")  # measured in uneven placements


def uneven_ratios(profiles: Path | str) -> pd.DataFrame:
    """Compare uneven placements with the most even one of the same job, GPUs, nodes and samples per GPU.

    Args:
        profiles: folder with `pollux_t4` and `rubick`.

    Returns:
        One row for each uneven placement: gpu_type, model, setting (batch or plan), placement, num_gpus, num_nodes,
        ratio (its step time over that of the most even placement; the geometric mean of several arrangements) and
        fewer_cards (whether its smallest share has fewer network cards than that of the most even placement).
    """
    rows = pd.concat((_t4_placements(profiles), _a800_placements(profiles)), ignore_index=True)
    shares = rows["placement"].map(lambda digits: [int(digit) for digit in digits])
    rows = rows.assign(num_gpus=shares.map(sum), num_nodes=shares.map(len), smallest=shares.map(min))
    key = ["gpu_type", "model", "setting", "num_gpus", "num_nodes"]
    placed = rows.groupby([*key, "placement", "smallest"], as_index=False)["log"].mean()
    spread = placed["placement"].map(lambda digits: int(digits[-1]) - int(digits[0]))
    even = spread <= 1
    pairs = placed[~even].merge(placed[even][[*key, "smallest", "log"]], on=key, suffixes=("", "_even"))
    group = pairs["gpu_type"].map(GPUS_PER_CARD)
    fewer = np.ceil(pairs["smallest"] / group) < np.ceil(pairs["smallest_even"] / group)
    pairs = pairs.assign(ratio=np.exp(pairs["log"] - pairs["log_even"]), fewer_cards=fewer)
    found: pd.DataFrame = pairs[[*key[:3], "placement", "num_gpus", "num_nodes", "ratio", "fewer_cards"]]
    return found


def summarise_uneven(ratios: pd.DataFrame) -> pd.DataFrame:
    """Tabulate how much slower uneven placements are, in per cent, by GPU type and network cards; ViT on its own."""
    named = ratios.assign(models=np.where(ratios["model"] == "vit", "ViT", "all but ViT"))
    groups = named.groupby(["gpu_type", "models", "fewer_cards"])["ratio"]
    slower = {f"{name} %": (groups.quantile(share) - 1) * 100 for name, share in _QUANTILES.items()}
    return pd.DataFrame({"placements": groups.size(), **slower}).reset_index()


def arrangement_scatter(profiles: Path | str) -> float:
    """Return the median |difference| in per cent of a T4 placement from the mean of those with the same shares.

    Pollux measured placements such as 1132 and 1123, which differ only in the order of their nodes.
    """
    rows = _t4_placements(profiles)
    groups = rows.groupby(["model", "placement", "setting"])["log"]
    count = groups.transform("size")
    several = count > 1
    away = (rows["log"] - groups.transform("mean"))[several] * np.sqrt(count / (count - 1))[several]
    return float(np.expm1(away.abs().median()) * 100)


_QUANTILES = {"10th": 0.1, "median": 0.5, "90th": 0.9}


def _t4_placements(profiles: Path | str) -> pd.DataFrame:
    table = read_pollux_t4(Path(profiles) / "pollux_t4")
    table = table[(table["placement"] != "") & (table["num_nodes"] > 1)]
    named = table.assign(gpu_type="T4", setting=table["local_batch"].astype(str), log=np.log(table["seconds"]))
    return named[["gpu_type", "model", "setting", "placement", "log"]]


def _a800_placements(profiles: Path | str) -> pd.DataFrame:
    found = []
    for model in RUBICK_MODELS:
        path = Path(profiles) / "rubick" / model / "placements.csv"
        rows = read_columns(path, ("exec_plan", "placement", "iter_time"), text=("exec_plan", "placement"))
        rows = rows[rows["exec_plan"].isin(REPLICAS) & (rows["iter_time"] > 0)]
        digits = rows["placement"].map(lambda shares: "".join(sorted(shares)))
        rows = rows.assign(gpu_type="A800", model=model, setting=rows["exec_plan"], placement=digits)
        found.append(rows.assign(log=np.log(rows["iter_time"]))[rows["placement"].str.len() > 1])
    return pd.concat(found)[["gpu_type", "model", "setting", "placement", "log"]]
