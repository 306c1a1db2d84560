"""Pollux's T4 measurements: how they are read, which points are fitted, and what uneven placements cost."""

import gzip

import numpy as np
import pytest

from envs.types import PerformanceError
from experiments.performance.profiles import PREDICTION_COLUMNS
from experiments.performance.t4 import (
    DRAWS,
    FITTED_NODES,
    choose_fit_points,
    compare_two_with_three_nodes,
    read_pollux_t4,
    t4_errors,
)
from experiments.performance.uneven import arrangement_scatter, summarise_uneven, uneven_ratios

APPLICATIONS = {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}
SHARES = [(1,), (2,), (4,), (1, 1), (3, 1), (2, 2), (4, 4), (1, 2, 3), (2, 2, 2), (1, 1, 1, 1), (4, 4, 4, 4)]


def seconds_of(shares, batch):
    """Step time of a made-up application: 0.3 s more on several nodes, and a tenth more if they are uneven."""
    seconds = 0.1 + 0.01 * batch + (0.3 if len(shares) > 1 else 0.0)
    return seconds * (1.1 if len(set(shares)) > 1 else 1.0)


def write_pollux(folder):
    target = folder / "pollux_t4"
    target.mkdir()
    rows = [
        f"made,{''.join(map(str, shares))},{batch},{seconds_of(shares, batch)},0.1"
        for shares in SHARES
        for batch in (4, 8, 16)
    ]
    text = "\n".join(["application,placement,local_bsz,step_time,sync_time", *rows]) + "\n"
    (target / "placements.csv.gz").write_bytes(gzip.compress(text.encode()))
    rows = [f"made,6,{n},{batch},{seconds_of((1,) * 6, batch)},0.1" for n in (6, 8, 12) for batch in (4, 8)]
    text = "\n".join(["application,num_nodes,num_replicas,local_bsz,step_time,sync_time", *rows]) + "\n"
    (target / "scalability.csv.gz").write_bytes(gzip.compress(text.encode()))
    return target


def test_placements_are_read_as_gpus_and_nodes(tmp_path):
    table = read_pollux_t4(write_pollux(tmp_path))
    assert len(table) == 3 * len(SHARES) + 6
    row = table[(table["placement"] == "13") & (table["local_batch"] == 8)].iloc[0]
    assert (row["num_gpus"], row["num_nodes"], row["largest"], row["smallest"]) == (4, 2, 3, 1)
    assert row["seconds"] == pytest.approx(1.1 * 0.48)
    large = table[table["num_nodes"] == 6]
    assert large["num_gpus"].tolist() == [6, 6, 8, 8, 12, 12]
    assert large["largest"].tolist() == [1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("variant", FITTED_NODES)
def test_the_rule_of_the_fitted_points(tmp_path, variant):
    table = read_pollux_t4(write_pollux(tmp_path))
    for seed in range(20):
        chosen = table.loc[choose_fit_points(table, FITTED_NODES[variant], np.random.default_rng(seed))]
        assert len(chosen) == len(chosen.index.unique()) == 6
        assert chosen["num_gpus"].tolist()[:2] == [1, 1]
        assert chosen["local_batch"].tolist()[:2] == [4, 16]
        assert chosen["num_nodes"].tolist()[2:] == [1, *FITTED_NODES[variant]]
        assert (chosen["largest"] == chosen["smallest"]).all()


def test_all_other_points_of_all_draws_are_predicted(tmp_path):
    predictions = t4_errors(write_pollux(tmp_path))
    assert list(predictions.columns) == list(PREDICTION_COLUMNS)
    assert len(predictions) == DRAWS * (3 * len(SHARES) + 6 - 6)
    alone = predictions[predictions["num_nodes"] == 1]
    assert alone["error"].abs().median() < 0.01  # computation alone has the model's form


def test_two_and_three_nodes_are_compared_at_equal_shares(tmp_path):
    """Of the made-up placements only 22 and 222 have equal shares on two and three nodes, and equal step times."""
    table = compare_two_with_three_nodes(write_pollux(tmp_path))
    assert table["pairs"].tolist() == [0, 3, 0, 0]
    assert table["longer on two: median %"][1] == pytest.approx(0)
    assert table["longer on two: share %"][1] == 0


def test_a_missing_folder_is_a_clear_error(tmp_path):
    with pytest.raises(PerformanceError, match=r"placements\.csv\.gz: no such file"):
        read_pollux_t4(tmp_path)


@pytest.fixture
def profiles(real_data):
    return real_data("profiles")


def test_every_measurement_is_read_and_predicted(profiles):
    table = read_pollux_t4(profiles / "pollux_t4")
    assert set(table["model"]) == APPLICATIONS
    assert len(table) == 5542 + 1561
    assert set(table["num_nodes"]) == {1, 2, 3, 4, 6, 8, 12, 16}


def test_slow_links_are_predicted_within_a_quarter(profiles):
    errors = {variant: t4_errors(profiles / "pollux_t4", variant=variant)["error"] for variant in FITTED_NODES}
    assert errors["up to 4 nodes"].abs().median() < 0.18
    assert errors["up to 2 nodes"].abs().median() < 0.25
    assert errors["up to 4 nodes"].abs().quantile(0.9) < 0.36


def write_a800(folder, model, seconds):
    target = folder / "rubick" / model
    target.mkdir(parents=True)
    rows = [f"ga,{placement},{value}" for placement, value in seconds.items()]
    (target / "placements.csv").write_text("\n".join(["exec_plan,placement,iter_time", *rows]) + "\n")


def test_uneven_ratios_by_hand(tmp_path):
    """The made-up application is a tenth slower where it is uneven; on A800, 26 uses one card and 44 uses two."""
    write_pollux(tmp_path)
    for model in ("bert", "gpt2", "roberta", "t5"):
        write_a800(tmp_path, model, {"44": 1.0, "26": 1.25, "35": 1.05, "8": 0.5, "233": 2.0})
    write_a800(tmp_path, "vit", {"44": 1.0, "35": 5.0})
    ratios = uneven_ratios(tmp_path)
    slow = ratios[ratios["gpu_type"] == "T4"]
    assert set(slow["placement"]) == {"13", "123"}
    assert slow["ratio"].to_numpy() == pytest.approx(1.1)
    assert not slow["fewer_cards"].any()
    table = summarise_uneven(ratios).set_index(["gpu_type", "models", "fewer_cards"])["median %"].to_dict()
    assert table["A800", "all but ViT", True] == pytest.approx(25)
    assert table["A800", "all but ViT", False] == pytest.approx(5)
    assert table["A800", "ViT", False] == pytest.approx(400)
    assert arrangement_scatter(tmp_path) != arrangement_scatter(tmp_path)  # NaN: no shares were measured twice


def test_uneven_placements_cost_less_than_their_scatter_on_one_link(profiles):
    """The figures of docs/performance.md."""
    table = (
        summarise_uneven(uneven_ratios(profiles)).set_index(["gpu_type", "models", "fewer_cards"])["median %"].to_dict()
    )
    assert 0 < table["T4", "all but ViT", False] < 2 < arrangement_scatter(profiles)
    assert abs(table["A800", "all but ViT", False]) < 1
    assert table["A800", "all but ViT", True] > 20
