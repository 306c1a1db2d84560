"""Prediction errors on public data are within their targets, and held-out points are not seen."""

import numpy as np
import pandas as pd
import pytest

from envs.types import PerformanceError
from experiments.performance.plot import plot_protocols
from experiments.performance.predictions import (
    elasticflow_errors,
    gavel_errors,
    scaling_errors,
    summarise_errors,
    validate_performance,
)
from experiments.performance.profiles import PREDICTION_COLUMNS, PROFILE_COLUMNS, read_elasticflow, read_gavel

GAVEL = "profiles/gavel/simulation_throughputs_isolated.csv"
ELASTICFLOW = "profiles/elasticflow/elasticflow_throughputs_long.csv"


@pytest.fixture
def gavel(real_data):
    return gavel_errors(real_data(GAVEL), seed=0)


def median(frame, **which):
    for column, value in which.items():
        frame = frame[frame[column] == value]
    assert len(frame)
    return frame["error"].abs().median()


def test_gavel_half_predicts_half_within_a_tenth(gavel):
    assert median(gavel, quantity="samples/s") <= 0.10
    assert median(gavel, quantity="spread penalty") <= 0.10
    for gpu_type in ("K80", "P100", "V100"):
        assert median(gavel, quantity="samples/s", gpu_type=gpu_type) <= 0.11


def test_gavel_errors_do_not_depend_on_the_seed_of_the_split(real_data):
    medians = [median(gavel_errors(real_data(GAVEL), seed=seed), quantity="samples/s") for seed in (1, 2)]
    assert max(medians) <= 0.10


def test_gavel_predicts_every_point_once(gavel, real_data):
    """The two halves are predicted from each other, so each point of the scaling models appears once."""
    table = read_gavel(real_data(GAVEL))
    scaling = table[table["model"].isin(["LM", "ResNet-18", "ResNet-50", "Transformer"])]
    throughputs = gavel[gavel["quantity"] == "samples/s"]
    key = ["model", "gpu_type", "num_gpus", "num_nodes", "batch_size"]
    assert len(throughputs) == len(scaling) == len(throughputs.drop_duplicates(key))
    merged = throughputs.merge(scaling, on=key)
    assert np.allclose(merged["measured"], merged["samples_per_s"])


def test_elasticflow_scales_from_one_node_to_64_gpus(real_data):
    path = real_data(ELASTICFLOW)
    none, one = elasticflow_errors(path), elasticflow_errors(path, multi_node_points=1)
    assert none["error"].abs().median() <= 0.12
    assert one["error"].abs().median() <= 0.08
    assert none["num_gpus"].min() > 8
    assert set(none["model"]) == {"bert", "deepspeech2", "gpt2", "inception3", "resnet50", "vgg16"}
    assert len(none) - len(one) == 6  # one point of each model is seen


def test_predictions_do_not_depend_on_unseen_points(real_data, tmp_path):
    """Multiplies one unseen throughput by ten: its prediction does not change, its error does."""
    table = pd.read_csv(real_data(ELASTICFLOW))
    unseen = (table["gpu"] == "A100") & (table["model"] == "bert") & (table["num_gpus"] == 64)
    table.loc[unseen, "iters_per_s"] *= 10
    table.to_csv(tmp_path / "changed.csv", index=False)
    before, after = elasticflow_errors(real_data(ELASTICFLOW)), elasticflow_errors(tmp_path / "changed.csv")
    assert after["predicted"].to_numpy() == pytest.approx(before["predicted"].to_numpy())
    changed = (after["model"] == "bert") & (after["num_gpus"] == 64)
    assert after[changed]["measured"].to_numpy() == pytest.approx(10 * before[changed]["measured"].to_numpy())


def test_scaling_errors_have_the_same_columns():
    frame = scaling_errors()
    assert list(frame.columns) == list(PREDICTION_COLUMNS)
    assert np.allclose(frame["error"], frame["predicted"] / frame["measured"] - 1)


def test_a_summary_by_hand():
    frame = pd.DataFrame({"protocol": "p", "quantity": "q", "error": [0.1, -0.2, 0.3]})
    row = summarise_errors(frame).iloc[0]
    assert (row["points"], row["median %"], row["mean %"], row["max %"]) == (3, 20, 20, 30)


def test_pictures_are_written(tmp_path):
    written = plot_protocols(scaling_errors(), tmp_path)
    assert [path.name for path in written] == ["leave_one_GPU_type_out_samples_s.png"]
    assert written[0].read_bytes()[:4] == b"\x89PNG"


GAVEL_HEADER = "worker_type,job_type,scale_factor,steps_per_s\n"


def write(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return path


def test_gavel_rows_are_read_as_samples(tmp_path):
    """2 steps/s of 16 samples on 4 GPUs are 32 samples/s at a global batch of 64; spread rows have a node per GPU."""
    rows = "v100,ResNet-18 (batch size 16),4,2.0\nv100_unconsolidated,ResNet-18 (batch size 16),4,1.0\n"
    repeats = "v100_unconsolidated,A3C,1,7.0\nk80,A3C,1,3.0\nk80,A3C,2,0.0\n"
    table = read_gavel(write(tmp_path, GAVEL_HEADER + rows + repeats))
    assert list(table.columns) == list(PROFILE_COLUMNS)
    assert table.to_numpy().tolist() == [
        ["ResNet-18", "V100", 4, 1, 64, 32.0],
        ["ResNet-18", "V100", 4, 4, 64, 16.0],
        ["A3C", "K80", 1, 1, 1, 3.0],
    ]


def test_elasticflow_rows_are_read_as_samples(tmp_path):
    text = "gpu,model,global_batch_size,num_gpus,iters_per_s\nA100,bert,64,16,2.0\nT4,bert,64,8,2.0\nA100,bert,64,32,\n"
    table = read_elasticflow(write(tmp_path, text))
    assert table.to_numpy().tolist() == [["bert", "A100", 16, 2, 64, 128.0], ["bert", "T4", 8, 2, 64, 128.0]]


@pytest.mark.parametrize("throughput", ["-1", "inf"])
def test_impossible_throughputs_in_a_profile_are_refused(tmp_path, throughput):
    path = write(tmp_path, GAVEL_HEADER + f"v100,A3C,1,{throughput}\n")
    with pytest.raises(
        PerformanceError, match="A3C on 1 V100: throughput is .*; it must be positive and finite, correct or remove"
    ):
        read_gavel(path)


def test_a_table_without_its_columns_is_refused(tmp_path):
    with pytest.raises(PerformanceError, match="lacks column 'worker_type', has a, b"):
        read_gavel(write(tmp_path, "a,b\n1,2\n"))


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(PerformanceError, match="no such file"):
        read_elasticflow(tmp_path / "nowhere.csv")


def test_no_folder_is_refused():
    with pytest.raises(
        PerformanceError, match=r"no folder is set; set data=<folder with profiles/> or \$MURMURATION_DATA"
    ):
        validate_performance("")
