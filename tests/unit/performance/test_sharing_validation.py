"""Gavel's pairs on one GPU: what is read, what is held out, and how well each form predicts it."""

import itertools

import numpy as np
import pandas as pd
import pytest

from envs.performance.colocation import colocation
from envs.types import PerformanceError
from experiments.performance.sharing import (
    FORMS,
    describe_pairs,
    describe_zoo_pairs,
    fit_means,
    fit_product,
    predict_by_default_model,
    predict_pairs,
    read_default_factors,
    read_gavel_factors,
    summarise_pairs,
)

PRODUCT, MEAN = "product (default model)", "mean of the job type"
TYPES = ("K80", "P100", "V100")
NAMES = ("resnet18", "resnet50", "transformer", "lm", "recommendation", "a3c", "cyclegan")
OWN = dict(zip(NAMES, (0.9, 0.8, 0.7, 0.9, 0.6, 0.8, 0.7), strict=True))
OTHER = dict(zip(NAMES, (0.9, 0.5, 0.8, 0.9, 0.8, 0.7, 0.8), strict=True))


def made_up(factor=lambda own, other, gpu_type: OWN[own] * OTHER[other]):
    """All ordered pairs of seven job types on three GPU types, by a function."""
    rows = [(gpu_type, *pair, *pair, factor(*pair, gpu_type)) for gpu_type in TYPES for pair in all_pairs()]
    return pd.DataFrame(rows, columns=["gpu_type", "job_type", "other_type", "model", "other_model", "measured"])


def all_pairs():
    return [(own, other) for own in NAMES for other in NAMES]


def largest_error(predictions):
    return (predictions["predicted"] - predictions["measured"]).abs().groupby(predictions["held_out"]).max()


def test_the_form_of_the_default_model_predicts_held_out_pairs_that_follow_it():
    """Up to shrinkage; half of what models add is lost on another GPU type."""
    errors = largest_error(predict_pairs(made_up(), {PRODUCT: fit_product}))
    assert errors["random pairs"] < 0.12
    assert errors["random pairs"] < errors["a GPU type"] < errors["both models"]
    assert largest_error(predict_pairs(made_up(), {MEAN: fit_means}))["random pairs"] > 0.15


def test_what_is_held_out_is_not_seen():
    """In turn: a fifth of the pairs on all types, each job type, each model, each two models, each GPU type."""
    calls = []

    def form(seen):
        def predict(rows):
            calls.append((seen, rows))
            return np.ones(len(rows))

        return predict

    found = predict_pairs(made_up(), {"ones": form})
    of_folds = split(calls)
    assert found["held_out"].drop_duplicates().tolist() == [
        "random pairs",
        "a job type",
        "a model",
        "both models",
        "a GPU type",
    ]
    for seen, rows in of_folds[0]:
        assert ends(seen).isdisjoint(ends(rows))
        assert set(rows["gpu_type"]) == set(TYPES)
    for seen, rows in (*of_folds[1], *of_folds[2]):
        (name,) = set(NAMES) - set(seen["job_type"])
        assert name not in set(seen["other_type"])
        assert len(rows) == 3 * 13
        assert all(name in pair for pair in ends(rows))
    for seen, rows in of_folds[3]:
        (pair,) = ends(rows)
        assert pair.isdisjoint({*seen["model"], *seen["other_model"]})
    for seen, rows in of_folds[4]:
        assert set(seen["gpu_type"]) == set(TYPES) - set(rows["gpu_type"])


def split(calls):
    """The calls of each protocol: 5 folds, 7 job types, 7 models, 28 pairs of models, 3 GPU types."""
    bounds = np.cumsum([0, 5, 7, 7, 28, 3])
    assert len(calls) == bounds[-1]
    return [calls[low:high] for low, high in itertools.pairwise(bounds)]


def ends(rows):
    return {frozenset(pair) for pair in zip(rows["job_type"], rows["other_type"], strict=True)}


def test_pairs_that_do_not_fit_are_left_out():
    rows = made_up(lambda own, other, gpu_type: 0.0 if own == other else 0.5)
    assert (predict_pairs(rows, {"means": fit_means})["measured"] == 0.5).all()


def test_means_fall_back_by_hand():
    """On the type 0.2; without the type, over types 0.3; without the job type, over the type 0.2; else over all."""
    columns = ["gpu_type", "job_type", "other_type", "measured"]
    seen = pd.DataFrame([("K80", "a", "b", 0.2), ("V100", "a", "b", 0.4)], columns=columns)
    asked = [("K80", "a", "c"), ("P100", "a", "c"), ("K80", "c", "a"), ("P100", "c", "a")]
    assert fit_means(seen)(pd.DataFrame(asked, columns=columns[:3])) == pytest.approx([0.2, 0.3, 0.2, 0.3])


def test_errors_by_hand():
    """Errors of 0.1 and 0.3 of two jobs, together 0.2; a job type beside itself counts for both jobs."""
    columns = ["held_out", "form", "fold", "gpu_type", "job_type", "other_type", "measured", "predicted"]
    rows = [("x", "y", 0, "K80", "a", "b", 0.5, 0.6), ("x", "y", 0, "K80", "b", "a", 0.5, 0.2)]
    found = summarise_pairs(pd.DataFrame(rows, columns=columns)).iloc[0]
    assert found["factors"] == 2
    assert found[["median", "p90", "both jobs: median"]].tolist() == pytest.approx([0.2, 0.28, 0.2])
    rows = [("x", "y", 0, "K80", "a", "a", 0.5, 0.6)]
    assert summarise_pairs(pd.DataFrame(rows, columns=columns))["both jobs: median"].tolist() == pytest.approx([0.2])


def test_sums_by_hand():
    """Of 28 pairs of seven on each type, 7 do not fit; both jobs have 1.2 together on K80 and 1 on the others."""

    def factor(own, other, gpu_type):
        return 0.0 if own == other else 0.6 if gpu_type == "K80" else 0.7 if own < other else 0.3

    found = describe_pairs(made_up(factor)).set_index("GPU type")
    assert found["pairs"].tolist() == [28] * 3
    assert found["fit"].tolist() == [0.75] * 3
    assert found["mean of both"].tolist() == pytest.approx([1.2, 1, 1])
    assert found["at most 1"].tolist() == [0, 1, 1]


def test_the_default_models_pairs_are_its_table():
    rows = read_default_factors()
    assert len(rows) == len(colocation()) == 147
    assert (rows["measured"] > 0).sum() == 144
    for name in ("a model", "random pairs"):
        table = summarise_pairs(predict_pairs(rows, {each: FORMS[each] for each in (PRODUCT, MEAN)}))
        size = table[table["held_out"] == name].set_index("form")["median"]
        assert size.idxmin() == PRODUCT


def test_every_pair_of_the_zoo_has_a_provenance():
    table = describe_zoo_pairs()
    assert table[["measured", "modelled", "infeasible"]].sum(axis=1).to_numpy() == pytest.approx(1)
    assert table["mean factor"].between(0.5, 0.8).all()


def test_absent_data_is_one_line(tmp_path):
    with pytest.raises(PerformanceError, match="no folder is set"):
        read_gavel_factors("")
    with pytest.raises(PerformanceError, match=r"does not exist; set performance\.path=<file>"):
        read_gavel_factors(tmp_path)


@pytest.fixture
def factors(real_data):
    return read_gavel_factors(real_data("profiles/gavel/simulation_throughputs_colocated.csv.gz").parents[2])


def test_gavels_pairs(factors):
    """The figures for V100 that are quoted for sharing: 94 % fit, 1.31 together, 71 % above 1.2, 22 % at most 1."""
    assert len(factors) == 3 * 26 * 26
    row = describe_pairs(factors).set_index("GPU type").loc["V100"]
    assert list(row) == pytest.approx([351, 0.94, 1.31, 0.71, 0.22], abs=0.005)


def test_the_default_form_is_best_for_what_was_not_seen(factors):
    """On held-out job types, models and GPU types; and far from no interference."""
    forms = {name: FORMS[name] for name in (PRODUCT, MEAN, "half each", "no interference")}
    table = summarise_pairs(predict_pairs(factors, forms))
    for held_out, rows in table.groupby("held_out"):
        size = rows.set_index("form")["median"]
        assert size.idxmin() == PRODUCT, held_out
        assert size["no interference"] > 3 * size[PRODUCT]
    size = table[table["form"] == PRODUCT].set_index("held_out")["median"]
    medians = {"random pairs": 0.045, "a job type": 0.086, "a model": 0.095, "both models": 0.119, "a GPU type": 0.116}
    assert size.to_dict() == pytest.approx(medians, abs=0.005)  # docs/performance.md


def test_the_default_model_at_other_batch_sizes(factors):
    rows = predict_by_default_model(factors)
    assert len(rows) > 1700
    assert summarise_pairs(rows)["median"].to_list() == pytest.approx([0.066], abs=0.005)
