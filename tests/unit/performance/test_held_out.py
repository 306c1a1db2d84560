"""Played throughputs compared with sources that no fit uses."""

import math

import numpy as np
import pandas as pd
import pytest

from envs.performance import TableModel, default_model
from envs.performance.gpus import gpu_types
from envs.performance.measurements import measured_points
from envs.performance.zoo import zoo
from envs.types import Configuration
from experiments.performance.held_out import (
    COUNTERPARTS,
    compare_quantities,
    describe_missed,
    play_rows,
    read_held_out,
    summarise_ratios,
    validate_held_out,
)
from tests.unit.scripts.test_training_scripts import run_here

COLUMNS = [
    "source",
    "program",
    "model",
    "gpu_type",
    "num_gpus",
    "num_nodes",
    "precision",
    "sequence_length",
    "batch_per_gpu",
    "samples_per_second",
    "note",
]


class Linear(TableModel):
    """Plays 10 samples/s per GPU on V100 and 30 on other types, and nothing of vgg16."""

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Return the made-up throughput."""
        each = 10.0 if configuration.gpu_type == "V100" else 30.0
        return 0.0 if model == "vgg16" else each * configuration.num_gpus


def rows(*made):
    """Rows of (model, GPU type, GPUs, nodes, sequence length, samples/s) of one made-up source."""
    return pd.DataFrame(
        [("source", "program", *row[:4], "mixed", row[4], 8, row[5], "") for row in made], columns=COLUMNS
    )


def played(*made):
    return play_rows(rows(*made), Linear())


def test_every_row_of_the_table_can_be_read():
    table = read_held_out()
    assert list(table.columns) == COLUMNS
    assert len(table) == 343
    assert set(table["gpu_type"]) <= set(gpu_types())
    assert (table["samples_per_second"] > 0).all()
    assert (table["num_gpus"] % table["num_nodes"] == 0).all()
    assert not table.duplicated([*COLUMNS[:8], "note"]).any()


def test_counterparts_are_models_of_the_zoo_that_the_table_has():
    assert {counterpart.name for counterpart in COUNTERPARTS.values()} <= set(zoo())
    assert set(COUNTERPARTS) <= set(read_held_out()["model"])


def test_samples_are_converted_by_tokens_and_parameters():
    """5 sequences of 1,024 tokens are 2.5 of 2,048; MPT-7B has 6.66 of Llama's 6.738 billion parameters."""
    made = played(("Llama-2-7B", "A100", 8, 1, 1024, 5.0), ("MPT-7B", "A100", 8, 1, 2048, 5.0))
    assert made["measured"].tolist() == [2.5, pytest.approx(5 * 6.66 / 6.738)]
    assert made["played"].tolist() == [240.0, 240.0]
    assert made["zoo_model"].tolist() == ["llama7b", "llama7b"]


def test_rows_without_a_counterpart_say_why():
    made = played(
        ("GPT3-175B", "H100", 8, 1, 2048, 1.0),
        ("ResNet-50", "V100", 16, 1, math.nan, 1.0),
        ("VGG-16", "V100", 1, 1, math.nan, 1.0),
        ("ResNet-50", "V100", 16, 2, math.nan, 1.0),
    )
    lacks = ["no such model in the zoo", "more than 8 GPUs on a node", "the zoo's model does not run there", ""]
    assert made["lacks"].tolist() == lacks
    assert len(compare_quantities(made)) == 1


def test_quantities_worked_by_hand():
    """V100: 1 GPU 20, 8 GPUs 80, 16 GPUs 320 samples/s; A100: 1 GPU 30. Played are 10, 80, 160 and 30."""
    made = [
        ("ResNet-50", "V100", n, nodes, math.nan, s) for n, nodes, s in ((16, 2, 320.0), (1, 1, 20.0), (8, 1, 80.0))
    ]
    compared = compare_quantities(played(*made, ("ResNet-50", "A100", 1, 1, math.nan, 30.0)))
    found = {
        (row.quantity, row.gpu_type, row.num_gpus): math.exp(error)
        for row, error in zip(compared.itertuples(index=False), compared["log_ratio"].tolist(), strict=True)
    }
    assert found == {
        ("samples/s", "V100", 1): pytest.approx(0.5),
        ("samples/s", "V100", 8): pytest.approx(1.0),
        ("samples/s", "V100", 16): pytest.approx(0.5),
        ("samples/s", "A100", 1): pytest.approx(1.0),
        ("scaling within a node", "V100", 8): pytest.approx(2.0),  # 8 of 8 played, 4 measured
        ("scaling over nodes", "V100", 16): pytest.approx(0.5),  # 2 played, 4 measured
        ("ratio of GPU types", "V100/A100", 1): pytest.approx(0.5),  # 1/3 played, 2/3 measured
    }


def test_scaling_and_ratios_stay_within_a_table():
    made = rows(
        ("ResNet-50", "V100", 1, 1, math.nan, 10.0),
        ("ResNet-50", "V100", 8, 1, math.nan, 80.0),
        ("ResNet-50", "A100", 1, 1, math.nan, 10.0),
    )
    made.loc[1, "note"] = "32 GB"
    made.loc[2, "precision"] = "fp32"
    assert set(compare_quantities(play_rows(made, Linear()))["quantity"]) == {"samples/s"}


def test_errors_are_factors_in_either_direction():
    """Half, double and four times: errors of 100, 100 and 300 %, median of played over measured 2."""
    compared = pd.DataFrame({"quantity": "samples/s", "source": "s", "log_ratio": np.log([0.5, 2.0, 4.0])})
    (row,) = summarise_ratios(compared, ("source",)).to_dict("records")
    assert (row["quantity"], row["source"], row["rows"]) == ("samples/s", "s", 3)
    assert row["median %"] == pytest.approx(100)
    assert row["p90 %"] == pytest.approx((2 ** (0.2 * 1 + 0.8 * 2) - 1) * 100)
    assert row["bias %"] == pytest.approx(100)


def test_every_claimed_row_is_played_within_3_percent_and_the_others_are_listed():
    counts, left_out = describe_missed((0.0, 0.03))
    exact, within = counts.to_dict("records")
    assert (within["rows"], within["played too high"], within["played too low"]) == (exact["rows"], 0, 0)
    assert exact["rows"] + len(left_out) == sum(len(points) for points in measured_points().values())
    assert ("lm", "V100", 4) in set(zip(left_out["model"], left_out["GPU type"], left_out["GPUs"], strict=True))


def test_played_is_what_the_default_model_answers():
    compared, report = validate_held_out()
    row = compared[(compared["model"] == "MPT-7B") & (compared["quantity"] == "samples/s")].iloc[0]
    asked = Configuration(row["gpu_type"], int(row["num_gpus"]), int(row["num_nodes"]))
    assert row["played"] == default_model().throughput("llama7b", asked)
    totals = report.tables[0][1]
    assert totals["rows"].sum() == len(compared)
    for _, table in report.tables[1:6]:
        assert table["rows"].sum() == len(compared)
    lacking = dict(report.tables)["Rows without a counterpart: 95 of 343"]
    assert lacking["rows"].sum() == 95


def test_the_part_prints_its_tables_and_writes_its_rows(tmp_path):
    done = run_here(tmp_path, "validate_performance", "hydra.run.dir=run", "parts=held_out")
    assert done.returncode == 0, done.stderr
    for heading in ("Held-out sources", "The same by gpu type", "Rows without a counterpart", "Rows of measured.csv"):
        assert heading in done.stdout
    kept = pd.read_csv(tmp_path / "run" / "held_out.csv")
    assert {"source", "zoo_model", "measured", "played", "log_ratio"} <= set(kept.columns)
