"""Pollux's T4 measurements: how they are read, and which points are fitted."""

import gzip

import numpy as np
import pytest

from envs.types import PerformanceError
from experiments.performance.profiles import PREDICTION_COLUMNS
from experiments.performance.t4 import (
    DRAWS,
    FITTED_NODES,
    choose_fit_points,
    read_pollux_t4,
    t4_errors,
)

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
