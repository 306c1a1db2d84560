"""Predictions of how much two jobs slow each other on network links, compared with DeepShare's measured pairs.

DeepShare (ICPADS'23) measured the throughput of jobs of four models on 2 to 8 GPUs of 2 or 4 nodes, each beside each
other job on the same nodes and relative to its throughput alone. The source states neither GPU type nor link. Its
launch scripts switch InfiniBand off, so the jobs communicated over Ethernet. It is therefore unknown which part of a
link a job uses: each model's share c of the time is fitted.

The source's table also has jobs of 8 GPUs on 8 nodes. They are left out, since they are not measured: there are no
launch scripts for 8 nodes, and ln(factor) on 2, 4 and 8 nodes of 8-GPU jobs is linear to the last digit wherever no
factor is cut off at 1.

Protocols; each is applied to every law of `LAWS`, as the simulation computes it:

- `predict_half_from_half`: random halves of the pairs predict each other. Both directions of a pair are in one half.
- `predict_held_out_models`: all pairs of one model with one model are predicted from all other pairs.
- `predict_from_traffic`: c is traffic over link, and traffic is computed as in the simulation, from gradients, batch
  size and throughput (`docs/world.md`). Only the capacity of the links is fitted, on random halves. For the two models
  whose launch scripts state parameters and batch size.
"""

from collections.abc import Callable
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pandas as pd

from envs.performance.contention import Contention, Mode
from envs.types import BoolArray, FloatArray, IntArray, PerformanceError

LAWS: dict[str, Mode] = {
    "measured law": "measured",
    "no contention": "off",
    "max-min": "max_min",
    "worst case": "worst_case",
}
"""Name of each law -> its mode of `Contention`."""

SHARES = np.linspace(0.0, 1.0, 101)  # grid of c
LINKS = np.geomspace(0.1, 10.0, 201)  # GB/s; grid of capacities
COARSE = 10  # steps of SHARES between the points of the first search
NUM_STARTS = 5  # points of it from which descents begin
REACH = 4  # steps of SHARES of a descent
EXTRAPOLATED_NODES = 8
WORKER_BATCH = 16  # samples of one GPU and step, of both models below (DeepShare's launch scripts)
PARAMS_MILLIONS = {
    "MobileNetV3": 2.04,  # mobilenetv3_small_075
    # 36 layers of width 410 with 2,100 inner units, and 267,735 words: 36 x 2.567 + 0.41 x 267.735 + biases.
    "Transformer-XL": 202.4,
}
"""Parameters of the models whose traffic can be computed. Gradients are in single precision."""


def read_deepshare(folder: Path | str) -> tuple[pd.DataFrame, pd.Series]:
    """Read both tables of a folder: the measured pairs (`read_pairs`), and samples/s alone (`read_alone`)."""
    return read_pairs(Path(folder) / "shared_throughput_ratio.csv"), read_alone(
        Path(folder) / "isolated_throughput.csv"
    )


def read_pairs(path: Path | str) -> pd.DataFrame:
    """Read DeepShare's table of factors (`shared_throughput_ratio.csv`), without extrapolated jobs.

    Returns:
        One row for each ordered pair of jobs: `model`, `num_gpus`, `num_nodes` of the job; `other_model`, `other_gpus`,
        `other_nodes` of the job beside it; `measured`, the factor on the job's throughput; and the labels `job` and
        `other`.

    Raises:
        PerformanceError: the file is missing, a job is not named `model,GPUs,nodes`, or a factor is outside (0, 1].
    """
    table = _read_labelled(path)
    if list(table.index) != list(table.columns):
        raise PerformanceError(
            f"profile {path}: rows and columns name different jobs; use the original square table of factors"
        )
    jobs = {label: _parse_job(path, label) for label in table.index}
    rows = []
    for label, (model, gpus, nodes) in jobs.items():
        for other, (other_model, other_gpus, other_nodes) in jobs.items():
            factor = float(table.loc[label, other])
            if not 0 < factor <= 1:
                raise PerformanceError(
                    f"profile {path}: {label} beside {other}: the factor is {factor}; it must be above 0 and at most 1"
                )
            if EXTRAPOLATED_NODES not in (nodes, other_nodes):
                rows.append((label, other, model, gpus, nodes, other_model, other_gpus, other_nodes, factor))
    columns = ["job", "other", "model", "num_gpus", "num_nodes", "other_model", "other_gpus", "other_nodes", "measured"]
    return pd.DataFrame(rows, columns=columns)


def read_alone(path: Path | str) -> pd.Series:
    """Read the samples/s of DeepShare's jobs alone (`isolated_throughput.csv`), by label.

    Raises:
        PerformanceError: the file is missing or has no column `samples_per_s`.
    """
    table = _read_labelled(path)
    if "samples_per_s" not in table:
        raise PerformanceError(f"profile {path}: lacks column 'samples_per_s'; use the original table")
    return table["samples_per_s"].astype(float)


def predict_half_from_half(pairs: pd.DataFrame, law: str, *, seed: int = 0) -> pd.DataFrame:
    """Add the column `predicted`: each random half of the pairs predicted by the c that fit the other half best.

    Args:
        pairs: as from `read_pairs`.
        law: a key of `LAWS`.
        seed: of the split.
    """
    first = _first_half(pairs, seed)
    return _predict_in_turn(pairs, law, [first, ~first])


def predict_held_out_models(pairs: pd.DataFrame, law: str) -> pd.DataFrame:
    """Add the column `predicted`: pairs of two models predicted by the c that fit the pairs of all other two models.

    Args:
        pairs: as from `read_pairs`.
        law: a key of `LAWS`.
    """
    together = [
        ((pairs["model"] == a) & (pairs["other_model"] == b) | (pairs["model"] == b) & (pairs["other_model"] == a))
        for a, b in combinations_with_replacement(sorted(set(pairs["model"])), 2)
    ]
    return _predict_in_turn(pairs, law, [held_out.to_numpy() for held_out in together])


def predict_from_traffic(pairs: pd.DataFrame, alone: pd.Series, law: str, *, seed: int = 0) -> pd.DataFrame:
    """Return the pairs of `PARAMS_MILLIONS` with `predicted`: each half by the link that fits the other half best.

    Args:
        pairs: as from `read_pairs`.
        alone: samples/s of each job alone, by label.
        law: a key of `LAWS`.
        seed: of the split.
    """
    known, traffic, others = _with_traffic(pairs, alone)
    measured, first = known["measured"].to_numpy(), _first_half(known, seed)
    predicted = np.zeros(len(known))
    for unseen in (first, ~first):
        link = _fit_link(traffic, others, measured, law, ~unseen)
        predicted[unseen] = _factors(law, traffic / link, others / link)[unseen]
    return known.assign(predicted=predicted)


def fitted_contention(pairs: pd.DataFrame, alone: pd.Series) -> pd.DataFrame:
    """Tabulate what fits all pairs best by law: the share c of each model, and the link in GB/s for computed traffic.

    Args:
        pairs: as from `read_pairs`.
        alone: samples/s of each job alone, by label.
    """
    models, first, second = _numbered(pairs)
    known, traffic, others = _with_traffic(pairs, alone)
    rows = []
    for law in LAWS:
        if law == "no contention":
            continue
        shares = SHARES[_fit_shares(law, first, second, pairs["measured"].to_numpy(), len(models))]
        link = _fit_link(traffic, others, known["measured"].to_numpy(), law, np.ones(len(known), bool))
        rows.append({"law": law, **dict(zip(models, shares.tolist(), strict=True)), "link, GB/s": link})
    return pd.DataFrame(rows)


def _read_labelled(path: Path | str) -> pd.DataFrame:
    if not Path(path).exists():
        raise PerformanceError(f"profile {path}: no such file; give the public table, or the folder that holds it")
    return pd.read_csv(path, index_col=0)


def _parse_job(path: Path | str, label: str) -> tuple[str, int, int]:
    model, *counts = str(label).split(",")
    if len(counts) != 2 or not all(count.isdecimal() for count in counts):
        raise PerformanceError(f"profile {path}: job {label!r} is not named model,GPUs,nodes; use the original table")
    return model, int(counts[0]), int(counts[1])


def _first_half(pairs: pd.DataFrame, seed: int) -> BoolArray:
    """bool[len(pairs)]: a random half of the unordered pairs of jobs."""
    keys = np.array(["|".join(sorted(labels)) for labels in zip(pairs["job"], pairs["other"], strict=True)])
    distinct = np.unique(keys)
    chosen = np.random.default_rng(seed).permutation(distinct)[: len(distinct) // 2]
    return np.isin(keys, chosen)


def _predict_in_turn(pairs: pd.DataFrame, law: str, parts: list[BoolArray]) -> pd.DataFrame:
    """Predict each part of the pairs from all other pairs."""
    models, first, second = _numbered(pairs)
    measured, predicted = pairs["measured"].to_numpy(), np.zeros(len(pairs))
    for unseen in parts:
        shares = _fit_shares(law, first[~unseen], second[~unseen], measured[~unseen], len(models))
        predicted[unseen] = _factor_table(law)[shares[first[unseen]], shares[second[unseen]]]
    return pairs.assign(predicted=predicted)


def _numbered(pairs: pd.DataFrame) -> tuple[list[str], IntArray, IntArray]:
    """Names of the models, and the index of each job's model and of the other job's."""
    models = sorted(set(pairs["model"]))
    first, second = (pairs[column].map(models.index).to_numpy() for column in ("model", "other_model"))
    return models, first, second


@cache
def _factor_table(law: str) -> FloatArray:
    """float64[101, 101]: factor of a job by its c and the other job's c, both on the grid."""
    return np.array([[_factor(law, own, other) for other in SHARES] for own in SHARES])


def _factor(law: str, own: float, other: float) -> float:
    return float(Contention(LAWS[law]).network_factors([own, other], 1.0)[0])


def _factors(law: str, own: FloatArray, other: FloatArray) -> FloatArray:
    return np.array([_factor(law, *loads) for loads in zip(own.tolist(), other.tolist(), strict=True)])


def _fit_shares(law: str, first: IntArray, second: IntArray, measured: FloatArray, num_models: int) -> IntArray:
    """int64[num_models]: indices of the c with the least mean |relative error|.

    A search of all combinations on a coarse grid, followed by descents from its best points.
    """
    if law == "no contention":  # any c fits as well as any other
        return np.zeros(num_models, np.int64)
    table = _factor_table(law)

    def losses(shares: IntArray) -> FloatArray:
        """float64[num_candidates]: mean |relative error|, by rows of int64[num_candidates, num_models]."""
        errors = np.abs(table[shares[:, first], shares[:, second]] / measured - 1.0)
        return np.asarray(errors.mean(axis=1))

    coarse = COARSE * np.indices([len(SHARES) // COARSE + 1] * num_models).reshape(num_models, -1).T
    best = coarse[np.argsort(losses(coarse), kind="stable")[:NUM_STARTS]]
    ends = np.array([_descend(losses, start) for start in best])
    return np.asarray(ends[losses(ends).argmin()], np.int64)


def _descend(losses: Callable[[IntArray], FloatArray], shares: IntArray) -> IntArray:
    """Move to the best point within `REACH` steps of two models' c, until there is none better."""
    steps = np.array(list(product(range(-REACH, REACH + 1), repeat=2)))
    moves = np.zeros((0, len(shares)), np.int64)
    for pair in combinations(range(len(shares)), 2):
        along = np.zeros((len(steps), len(shares)), np.int64)
        along[:, pair] = steps
        moves = np.concatenate((moves, along))
    least = np.inf
    while True:
        reached = np.clip(shares + moves, 0, len(SHARES) - 1)
        loss = losses(reached)
        if not loss.min() < least - 1e-12:  # more than rounding
            return shares
        least, shares = loss.min(), reached[loss.argmin()]


def _with_traffic(pairs: pd.DataFrame, alone: pd.Series) -> tuple[pd.DataFrame, FloatArray, FloatArray]:
    """Pairs of models with known gradients, and the traffic of both jobs in GB/s."""
    known = pairs[pairs["model"].isin(PARAMS_MILLIONS) & pairs["other_model"].isin(PARAMS_MILLIONS)]
    own = _traffic(known["model"], known["num_gpus"], known["num_nodes"], known["job"].map(alone))
    other = _traffic(known["other_model"], known["other_gpus"], known["other_nodes"], known["other"].map(alone))
    return known, own, other


def _traffic(model: pd.Series, gpus: pd.Series, nodes: pd.Series, alone: pd.Series) -> FloatArray:
    """GB/s across the link of each node of a ring all-reduce, as in the simulation (docs/world.md)."""
    gradient_gb = model.map(PARAMS_MILLIONS) * 4 / 1000
    return np.asarray(2 * gradient_gb / (WORKER_BATCH * gpus) * alone * (nodes - 1) / nodes, np.float64)


def _fit_link(traffic: FloatArray, others: FloatArray, measured: FloatArray, law: str, seen: BoolArray) -> float:
    """Capacity in GB/s with the least mean |relative error| on the seen pairs."""

    def loss(link: float) -> float:
        return float(np.abs(_factors(law, traffic[seen] / link, others[seen] / link) / measured[seen] - 1).mean())

    return float(min(LINKS, key=loss))
