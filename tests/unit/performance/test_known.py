"""What is known about throughputs: measured pairs, scaled pairs, and their errors."""

import math

import pytest

from envs.performance import TableModel
from envs.performance.gpus import gpu_types
from envs.performance.measurements import measured_points, measured_types
from envs.performance.zoo import zoo
from envs.types import PerformanceError
from experiments.performance.known import check_h100, describe_measured, describe_scaled


def test_every_measured_pair_is_listed_with_its_points():
    table = describe_measured().set_index(["model", "GPU type"]).to_dict("index")
    assert set(table) == set(measured_points())
    row = table["resnet50", "V100"]
    assert (row["source"], row["points"], row["GPUs"], row["nodes"]) == ("gavel", 10, 8, 8)
    assert 0 < row["point left out: %"] < 10
    assert table["deepspeech2", "A100"]["type left out: %"] > 250  # the worst miss of the rule, a factor of four
    assert math.isnan(table["bert", "A100"]["type left out: %"])
    assert math.isnan(table["vae", "V100"]["point left out: %"])


def test_scaled_measured_and_infeasible_types_are_all_types():
    model = TableModel()
    for row in describe_scaled().to_dict("records"):
        name = row["model"]
        scaled = {gpu_type for gpu_type in gpu_types() if model.provenance(name, gpu_type) == "guessed"}
        listed = {
            gpu_type for part in row["scaled from: to"].split("; ") for gpu_type in part.split(": ")[1].split(", ")
        }
        assert listed == scaled
        lacking = set() if row["does not fit"] == "none" else set(row["does not fit"].split(", "))
        assert scaled | lacking | set(measured_types(name)) == set(gpu_types())
    assert len(describe_scaled()) == len(zoo())


def test_errors_of_scaled_types_are_stated_only_where_they_can_be_measured():
    missed = describe_scaled().set_index("model")["predicted / measured"].to_dict()
    assert missed["bert"] == "not measurable"
    assert missed["resnet50"].endswith("(3 types)")


def test_h100_agrees_with_language_models(real_data):
    (row,) = check_h100(real_data("profiles/llm_foundry/mpt_throughput.csv")).to_dict("records")
    assert row["configurations"] == 39
    assert row["least"] < row["rule"] < row["largest"]
    assert row["rule"] == pytest.approx(row["measured: median"], rel=0.1)


def test_h100_needs_its_columns(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("model,gpu\nmpt,h100_80gb\n")
    with pytest.raises(PerformanceError, match="lacks column 'seq_len'"):
        check_h100(path)
