"""DeepShare's pairs: what is read, what is fitted, and how well each law predicts held-out pairs."""

import numpy as np
import pandas as pd
import pytest

from envs.performance import Contention
from envs.types import PerformanceError
from experiments.performance.contention import (
    LAWS,
    fitted_contention,
    predict_from_traffic,
    predict_half_from_half,
    predict_held_out_models,
    read_alone,
    read_pairs,
)
from experiments.performance.predictions import contention_errors, summarise_errors
from experiments.performance.profiles import PREDICTION_COLUMNS

PAIRS = "profiles/deepshare/shared_throughput_ratio.csv"
ALONE = "profiles/deepshare/isolated_throughput.csv"
SHARES = {"FSDP": 0.83, "GraphSage": 0.12, "MobileNetV3": 0.27}
JOBS = [(model, gpus, nodes) for model in SHARES for gpus, nodes in ((2, 2), (4, 2), (4, 4), (8, 8))]


def made_up(law="measured law", shares=SHARES):
    """A square table of factors that a law gives exactly."""
    labels = [",".join(map(str, job)) for job in JOBS]
    contention = Contention(LAWS[law])
    rows = [[contention.network_factors([shares[a], shares[b]], 1.0)[0] for b, _, _ in JOBS] for a, _, _ in JOBS]
    return pd.DataFrame(rows, index=pd.Index(labels, name="job"), columns=labels)


def saved(tmp_path, table):
    table.to_csv(tmp_path / "pairs.csv")
    return tmp_path / "pairs.csv"


def size_of(frame):
    return (frame["predicted"] / frame["measured"] - 1).abs()


def test_jobs_on_eight_nodes_are_left_out(tmp_path):
    pairs = read_pairs(saved(tmp_path, made_up()))
    assert len(pairs) == 9 * 9
    assert 8 not in {*pairs["num_nodes"], *pairs["other_nodes"]}
    row = pairs[(pairs["job"] == "FSDP,4,2") & (pairs["other"] == "MobileNetV3,4,4")].iloc[0]
    assert tuple(row[["model", "num_gpus", "num_nodes"]]) == ("FSDP", 4, 2)
    assert tuple(row[["other_model", "other_gpus", "other_nodes"]]) == ("MobileNetV3", 4, 4)
    assert row["measured"] == pytest.approx(1 / (1 + 0.83 * 0.27))


@pytest.mark.parametrize("predict", [predict_half_from_half, predict_held_out_models])
@pytest.mark.parametrize("law", ["measured law", "worst case"])
def test_a_law_predicts_held_out_pairs_that_follow_it(tmp_path, predict, law):
    pairs = read_pairs(saved(tmp_path, made_up(law)))
    assert size_of(predict(pairs, law)).max() < 1e-9
    other = "worst case" if law == "measured law" else "measured law"
    assert size_of(predict(pairs, other)).max() > 0.02
    without = predict(pairs, "no contention")
    assert (without["predicted"] == 1).all()


def test_predictions_do_not_depend_on_unseen_pairs(tmp_path):
    """FSDP beside FSDP is predicted from the other pairs; its own measurements have no effect on that."""
    table = made_up(shares={**SHARES, "FSDP": 0.5})
    changed = table.copy()
    fsdp = [label for label in table if label.startswith("FSDP")]
    changed.loc[fsdp, fsdp] = 0.123
    before, after = (
        predict_held_out_models(read_pairs(saved(tmp_path, frame)), "measured law") for frame in (table, changed)
    )
    both = (after["model"] == "FSDP") & (after["other_model"] == "FSDP")
    assert both.sum() == 9
    assert after[both]["predicted"].to_numpy() == pytest.approx(before[both]["predicted"].to_numpy())


def test_traffic_by_hand(tmp_path):
    """Jobs of 2.04 M parameters on 2 nodes, 16 samples a GPU and step, 100 steps/s: 8.16 MB of gradients.

    Each sends 2 x 8.16 MB x 100 steps/s x 1/2 = 0.816 GB/s. At a factor of 0.8 by the law c = 0.5, so the link has
    1.632 GB/s.
    """
    names = ["MobileNetV3,2,2", "MobileNetV3,4,2", "FSDP,2,2"]
    factors = [[0.8, 0.8, 1.0], [0.8, 0.8, 1.0], [1.0, 1.0, 0.8]]
    pairs = read_pairs(saved(tmp_path, pd.DataFrame(factors, index=pd.Index(names, name="job"), columns=names)))
    alone = pd.Series([3200.0, 6400.0, 1.0], index=names)
    found = fitted_contention(pairs, alone).set_index("law")
    assert found.loc["measured law", "link, GB/s"] == pytest.approx(1.632, rel=0.03)
    assert found.loc["measured law", "MobileNetV3"] == 0.5
    assert found.loc["worst case", "MobileNetV3"] == 0.25
    predicted = predict_from_traffic(pairs, alone, "measured law")
    assert predicted["job"].tolist() == [names[0], names[0], names[1], names[1]]
    assert predicted["predicted"].to_numpy() == pytest.approx(0.8, rel=0.01)


def unnumbered(label):
    """A label without GPUs and nodes."""
    return label.partition(",")[0] if label == "FSDP,2,2" else label


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda table: table.rename(index={"FSDP,2,2": "FSDP"}, columns={"FSDP,2,2": "FSDP"}),
            "job 'FSDP' is not named",
        ),
        (lambda table: table * 2, "the factor is .*; it must be above 0 and at most 1"),
        (lambda table: table.iloc[1:], "rows and columns name different jobs"),
    ],
)
def test_a_malformed_table_is_refused(tmp_path, change, message):
    with pytest.raises(PerformanceError, match=message):
        read_pairs(saved(tmp_path, change(made_up())))


def test_absent_files_are_refused(tmp_path):
    for read in (read_pairs, read_alone):
        with pytest.raises(PerformanceError, match="no such file"):
            read(tmp_path / "nowhere.csv")
    with pytest.raises(PerformanceError, match="lacks column 'samples_per_s'"):
        read_alone(saved(tmp_path, made_up()))


@pytest.fixture
def errors(real_data):
    return contention_errors(real_data(PAIRS).parent)


def test_the_measured_law_predicts_best(errors):
    assert list(errors.columns) == list(PREDICTION_COLUMNS)
    table = summarise_errors(errors)
    best_first = ["measured law", "max-min", "worst case", "no contention"]
    for protocol, points in (
        ("deepshare, half from half", 400),
        ("deepshare, pairs of models held out", 400),
        ("deepshare, computed traffic, half from half", 100),
    ):
        rows = table[table["protocol"] == protocol].set_index("quantity")
        assert set(rows["points"]) == {points}
        for column in ("median %", "mean %"):
            assert rows[column].sort_values().index.tolist() == best_first
    law = table[table["quantity"] == "measured law"]
    assert law["median %"].max() < 8
    assert law["p90 %"].tolist() == pytest.approx([20, 27, 15], abs=2)


def test_jobs_on_eight_nodes_are_extrapolated_upstream(real_data):
    """Factors and throughputs of 8 GPUs on 2, 4 and 8 nodes are geometric, to the last digit that the file has."""
    table = pd.read_csv(real_data(PAIRS), index_col=0)
    for values in (table, table.T):
        for model in ("MobileNetV3", "GraphSage", "FSDP", "Transformer-XL"):
            two, four, eight = (values.loc[f"{model},8,{nodes}"].to_numpy() for nodes in (2, 4, 8))
            uncut = (two < 1) & (four < 1) & (eight < 1)
            assert (np.abs(np.sqrt(two * eight) - four)[uncut] < 0.0011).mean() > 0.95
    alone = read_alone(real_data(ALONE))
    for model in ("MobileNetV3", "GraphSage", "FSDP", "Transformer-XL"):
        two, four, eight = (alone[f"{model},8,{nodes}"] for nodes in (2, 4, 8))
        assert four**2 == pytest.approx(two * eight, rel=1e-3)
