"""Predictions of how much two jobs on one GPU slow each other, compared with Gavel's measured pairs.

Gavel (OSDI'20) measured all pairs of 26 job types, seven models at several batch sizes, on one K80, P100 and V100.

`FORMS` are ways to predict a factor, the fraction of its throughput alone that a job keeps. `predict_pairs` holds out

- random pairs: a fifth of the pairs in turn, on all GPU types at once;
- a job type: all pairs of each job type in turn, so that its batch size was never seen in a pair;
- a model: all pairs of all job types of each model in turn, so that the model was never seen in a pair;
- both models: as before, of each two models in turn, whose pairs with each other are predicted;
- a GPU type: all pairs on each type in turn.

Both directions of a pair are held out together. Pairs that do not fit the memory are left out.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pandas as pd

from envs.performance import default_model, find_pair_factor, zoo, zoo_name
from envs.performance.colocation import PairEffects, colocation, fit_effects
from envs.performance.gavel_model import LOCATION, PAIRS_LOCATION, GavelModel
from envs.performance.gpus import gpu_types
from envs.types import BoolArray, FloatArray, PerformanceError
from experiments.performance.reproduction import Reproduction

NUM_FOLDS = 5
GPU_TYPES = ("K80", "P100", "V100")
Predict = Callable[[pd.DataFrame], FloatArray]  # rows -> their factors
SharingForm = Callable[[pd.DataFrame], Predict]  # measured rows -> how to predict others


def read_gavel_factors(root: Path | str) -> pd.DataFrame:
    """Read the factors of Gavel's pairs.

    Args:
        root: folder that holds `profiles`; must not be empty.

    Returns:
        A row for each ordered pair of job types on each GPU type: `gpu_type`, `job_type`, `other_type`, and their zoo
        names `model` and `other_model`; and `measured`, the factor on `job_type`'s throughput, 0 if the pair does not
        fit.

    Raises:
        PerformanceError: no folder is given, or a file is missing or malformed.
    """
    if not str(root):
        raise PerformanceError("profiles: no folder is set; set data=<folder with profiles/> or $MURMURATION_DATA")
    gavel = GavelModel(str(Path(root) / LOCATION), pairs_path=str(Path(root) / PAIRS_LOCATION))
    names = {job_type: zoo_name(job_type.partition(" (")[0]) for job_type in gavel.models}
    rows = [
        (gpu_type, own, other, names[own], names[other], find_pair_factor(gavel, own, other, gpu_type))
        for gpu_type in GPU_TYPES
        for own in names
        for other in names
    ]
    return pd.DataFrame(rows, columns=["gpu_type", "job_type", "other_type", "model", "other_model", "measured"])


def read_default_factors() -> pd.DataFrame:
    """Return the factors that the default model is fitted to, in the columns of `read_gavel_factors`."""
    rows = [(gpu_type, own, other, own, other, factor) for (own, other, gpu_type), factor in colocation().items()]
    return pd.DataFrame(rows, columns=["gpu_type", "job_type", "other_type", "model", "other_model", "measured"])


def fit_product(seen: pd.DataFrame) -> Predict:
    """Fit the form of the default model: on each GPU type a product of the own and the other job type's figures."""

    def fit(rows: pd.DataFrame) -> PairEffects:
        return fit_effects(list(rows["job_type"]), list(rows["other_type"]), rows["measured"].to_numpy())

    effects = {str(name): fit(rows) for name, rows in seen.groupby("gpu_type")}
    pooled = fit(seen).carry_over()

    def predict(rows: pd.DataFrame) -> FloatArray:
        keys = zip(rows["gpu_type"], rows["job_type"], rows["other_type"], strict=True)
        return np.array([effects.get(gpu_type, pooled).factor(own, other) for gpu_type, own, other in keys])

    return predict


def fit_means(seen: pd.DataFrame) -> Predict:
    """Take the mean factor of a job type on the GPU type; else on all types; else of all job types on the type."""
    all_rows = float(seen["measured"].mean())
    levels = [
        (by, {key: rows["measured"].mean() for key, rows in seen.groupby(by)})
        for by in (["gpu_type", "job_type"], ["job_type"], ["gpu_type"])
    ]

    def predict(rows: pd.DataFrame) -> FloatArray:
        found = []
        for gpu_type, job_type in zip(rows["gpu_type"], rows["job_type"], strict=True):
            own = {"gpu_type": gpu_type, "job_type": job_type}
            known = (means.get(tuple(own[name] for name in by)) for by, means in levels)
            found.append(next((mean for mean in known if mean is not None), all_rows))
        return np.array(found)

    return predict


FORMS: dict[str, SharingForm] = {
    "product (default model)": fit_product,
    "no interference": lambda seen: lambda rows: np.ones(len(rows)),
    "half each": lambda seen: lambda rows: np.full(len(rows), 0.5),
    "mean of the job type": fit_means,
}
"""Name -> how it is fitted to measured rows."""


def predict_pairs(factors: pd.DataFrame, forms: dict[str, SharingForm] | None = None, *, seed: int = 0) -> pd.DataFrame:
    """Predict the factors of held-out pairs by each form.

    Args:
        factors: as from `read_gavel_factors`.
        forms: by name; None for all of `FORMS`.
        seed: of the random folds.

    Returns:
        The rows of pairs that fit, for each protocol and form, with the columns `held_out`, `form`, `fold` and
        `predicted`. A pair of two job types is predicted without the one and without the other.
    """
    rows = factors[factors["measured"] > 0].reset_index(drop=True)
    found = []
    for held_out, folds in _protocols(rows, seed):
        for name, form in (FORMS if forms is None else forms).items():
            for fold, (unseen, asked) in enumerate(folds):
                predicted = form(rows[~unseen])(rows[asked])
                found.append(rows[asked].assign(held_out=held_out, form=name, fold=fold, predicted=predicted))
    return pd.concat(found, ignore_index=True)


def predict_by_default_model(factors: pd.DataFrame) -> pd.DataFrame:
    """Predict Gavel's pairs by the default model, which has them at one batch size of each model.

    Args:
        factors: as from `read_gavel_factors`.

    Returns:
        The columns of `predict_pairs`, for the pairs that fit at both batch sizes, without those of the model's table.
    """
    names = dict(zip(factors["job_type"], factors["model"], strict=True))
    usual = [name for name in names if "(" not in name or name.endswith(f"(batch size {zoo()[names[name]].batch})")]
    rows = factors[~(factors["job_type"].isin(usual) & factors["other_type"].isin(usual))]
    predicted = [find_pair_factor(default_model(), own, other, gpu_type) for own, other, gpu_type in _as_keys(rows)]
    rows = rows.assign(held_out="other batch sizes", form="default model", fold=0, predicted=predicted)
    return rows[(rows["measured"] > 0) & (rows["predicted"] > 0)].reset_index(drop=True)


def summarise_pairs(predictions: pd.DataFrame, by: Sequence[str] = ("held_out", "form")) -> pd.DataFrame:
    """Tabulate the absolute errors of factors, and of the sum of both factors of a pair: median and 90th percentile."""
    size = (predictions["predicted"] - predictions["measured"]).abs()
    ends = np.sort(predictions[["job_type", "other_type"]].to_numpy(str), axis=1)
    pairs = predictions.assign(first=ends[:, 0], second=ends[:, 1]).groupby(
        [*dict.fromkeys((*by, "gpu_type", "fold")), "first", "second"], sort=False
    )
    # A job type beside itself has one row, which counts for both jobs: means do not depend on that.
    sums = (2 * (pairs["predicted"].mean() - pairs["measured"].mean())).abs().rename("size").reset_index()
    grouped, together = size.groupby([predictions[name] for name in by], sort=False), sums.groupby(list(by), sort=False)
    return pd.DataFrame(
        {
            "factors": grouped.size(),
            "median": grouped.median(),
            "p90": grouped.quantile(0.9),
            "both jobs: median": together["size"].median(),
            "both jobs: p90": together["size"].quantile(0.9),
        }
    ).reset_index()


def describe_pairs(factors: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the pairs by GPU type: how many fit the memory, and the throughput of both jobs together.

    It is the sum of both factors; two jobs that take turns have 1. The shares are of the pairs that fit.
    """
    pairs = factors[factors["job_type"] <= factors["other_type"]]
    back = factors.rename(columns={"job_type": "other_type", "other_type": "job_type", "measured": "back"})
    keys = ["gpu_type", "job_type", "other_type"]
    pairs = pairs.merge(back[[*keys, "back"]], on=keys)
    rows = []
    for gpu_type, group in pairs.groupby("gpu_type"):
        fit = group[group["measured"] > 0]
        both = fit["measured"] + fit["back"]
        rows.append((gpu_type, len(group), len(fit) / len(group), both.mean(), (both > 1.2).mean(), (both <= 1).mean()))
    return pd.DataFrame(rows, columns=["GPU type", "pairs", "fit", "mean of both", "above 1.2", "at most 1"])


def describe_zoo_pairs() -> pd.DataFrame:
    """Tabulate the default model's pairs of zoo models by GPU type and provenance, and the mean of their factors."""
    performance = default_model()
    rows = []
    for gpu_type in gpu_types():
        ordered = [(own, other) for own in zoo() for other in zoo()]
        sources = [performance.pair_provenance(*pair, gpu_type) for pair in ordered]
        factors = [find_pair_factor(performance, *pair, gpu_type) for pair in ordered]
        shares = [sources.count(source) / len(ordered) for source in ("measured", "modelled", "infeasible")]
        rows.append((gpu_type, *shares, np.mean([factor for factor in factors if factor > 0])))
    return pd.DataFrame(rows, columns=["GPU type", "measured", "modelled", "infeasible", "mean factor"])


def validate_pairs(root: Path | str, *, seed: int = 0) -> tuple[pd.DataFrame, Reproduction]:
    """Run all protocols on Gavel's pairs, and on those of the default model.

    Args:
        root: folder that holds `profiles`; must not be empty.
        seed: of the random folds.

    Returns:
        The predictions of Gavel's pairs (`predict_pairs`, `predict_by_default_model`), and the tables to print.

    Raises:
        PerformanceError: no folder is given, or a file is missing or malformed.
    """
    factors = read_gavel_factors(root)
    predictions = pd.concat((predict_pairs(factors, seed=seed), predict_by_default_model(factors)), ignore_index=True)
    of_default = predict_pairs(read_default_factors(), seed=seed)
    of_default = of_default[of_default["held_out"] != "a job type"]  # there is one of each model
    tables = (
        ("Gavel's pairs of jobs on one GPU: share that fits, and throughput of both jobs", describe_pairs(factors)),
        ("Absolute errors of factors, Gavel's 26 job types", summarise_pairs(predictions)),
        ("The same, the 84 pairs of the default model", summarise_pairs(of_default)),
        ("All pairs of models by the default model", describe_zoo_pairs()),
    )
    return predictions, Reproduction(tables)


def _as_keys(rows: pd.DataFrame) -> list[tuple[str, str, str]]:
    return list(zip(rows["model"], rows["other_model"], rows["gpu_type"], strict=True))


def _protocols(rows: pd.DataFrame, seed: int) -> Iterator[tuple[str, list[tuple[BoolArray, BoolArray]]]]:
    """Yield each protocol and its folds: of each, the rows that are not seen, and those of them to predict."""
    pairs = np.array(["\n".join(sorted(pair)) for pair in zip(rows["job_type"], rows["other_type"], strict=True)])
    order = np.random.default_rng(seed).permutation(np.unique(pairs))
    yield "random pairs", [(fold, fold) for fold in (np.isin(pairs, order[n::NUM_FOLDS]) for n in range(NUM_FOLDS))]

    def hold_out(own: str, other: str) -> dict[str, BoolArray]:
        names = sorted(set(rows[own]))
        return {name: ((rows[own] == name) | (rows[other] == name)).to_numpy() for name in names}

    yield "a job type", [(fold, fold) for fold in hold_out("job_type", "other_type").values()]
    of_model = hold_out("model", "other_model")
    yield "a model", [(fold, fold) for fold in of_model.values()]
    both = []
    for first, second in combinations_with_replacement(of_model, 2):
        ends = np.sort(rows[["model", "other_model"]].to_numpy(str), axis=1)
        asked = (ends[:, 0] == first) & (ends[:, 1] == second)
        both += [(of_model[first] | of_model[second], asked)] if asked.any() else []
    yield "both models", both
    yield "a GPU type", [(fold, fold) for fold in hold_out("gpu_type", "gpu_type").values()]
