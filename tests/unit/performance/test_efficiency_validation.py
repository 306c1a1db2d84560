"""The noise scales follow from the public runs, and predict batch sizes that were held out."""

import numpy as np
import pandas as pd
import pytest

from envs.performance import noise_scales, zoo_name
from envs.performance.zoo import architecture
from envs.types import PerformanceError
from experiments.performance.efficiency import (
    efficiency_errors,
    fit_noise_scale,
    fitted_noise_scales,
    read_progress,
)
from experiments.performance.predictions import efficiency_rows
from experiments.performance.profiles import PREDICTION_COLUMNS

RUNS = "profiles/pollux_noise/validation.csv"
HEADER = "application,batch_size,progress,iteration,metric\n"


def test_the_table_is_the_fit_to_the_public_runs(real_data):
    fitted = {zoo_name(name, "pollux"): scale for name, scale in fitted_noise_scales(real_data(RUNS)).items()}
    known = noise_scales()
    assert {name: round(scale) for name, scale in fitted.items()} == {name: known[name].noise_scale for name in fitted}
    assert {architecture(name) for name in fitted} == {architecture(name) for name in known}
    runs = read_progress(real_data(RUNS)).groupby("application")["batch_size"]
    ranges = {zoo_name(str(name), "pollux"): (sizes.min(), sizes.max()) for name, sizes in runs}
    assert ranges == {name: (known[name].min_batch, known[name].max_batch) for name in fitted}
    assert all(row.initial_batch == row.min_batch for row in noise_scales().values())


def test_held_out_batch_sizes_are_predicted_within_a_twentieth(real_data):
    frame = efficiency_errors(real_data(RUNS))
    held_out, every = (frame[frame["protocol"].str.contains(part)] for part in ("held out", "every sample"))
    assert len(held_out) == len(every) == 34
    assert held_out["error"].abs().max() <= 0.051
    assert held_out["error"].abs().median() <= 0.015
    assert every["error"].abs().median() >= 0.05
    assert {architecture(name) for name in held_out["model"]} == {architecture(name) for name in noise_scales()}
    assert list(efficiency_rows(real_data(RUNS)).columns) == list(PREDICTION_COLUMNS)


def test_a_prediction_does_not_depend_on_its_own_measurement(real_data, tmp_path):
    table = pd.read_csv(real_data(RUNS))
    table.loc[(table["application"] == "yolov3") & (table["batch_size"] == 64), "progress"] *= 1.5
    table.to_csv(tmp_path / "changed.csv", index=False)
    before, after = efficiency_errors(real_data(RUNS)), efficiency_errors(tmp_path / "changed.csv")
    changed = (before["model"] == "yolov3") & (before["batch_size"] == 64)
    assert after[changed]["predicted"].to_numpy() == pytest.approx(before[changed]["predicted"].to_numpy())
    assert (after[changed]["measured"] == 1.5 * before[changed]["measured"]).all()
    others = (before["model"] == "yolov3") & ~changed & before["protocol"].str.contains("held out")
    assert (after[others]["predicted"] != before[others]["predicted"]).all()


def test_the_fit_finds_the_noise_scale_of_exact_efficiencies():
    sizes = np.array([10, 40, 160, 640])
    for scale in (3.0, 500.0, 1e6):
        assert fit_noise_scale(sizes, (scale + 10) / (scale + sizes), 10) == pytest.approx(scale, rel=1e-3)


def test_progress_per_sample_by_hand(tmp_path):
    """20 steps of progress in 20 steps of 4 samples, and in 8 of 16: 1/4 and 5/32 for each sample."""
    path = tmp_path / "runs.csv"
    path.write_text(HEADER + "a,4,9,9,0.1\na,4,20,20,0.5\na,16,20,8,0.5\na,16,10,4,0.2\n")
    assert read_progress(path).to_numpy().tolist() == [["a", 4, 1.0], ["a", 16, 5 / 8]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no such file"),
        ("application,batch_size\na,4\n", "lacks column 'progress', has application, batch_size"),
        (HEADER + "a,4,9,9,0.1\na,4,-1,20,0.5\n", "row 3: progress is -1; it must be positive and finite, correct or"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, says):
    path = tmp_path / "runs.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PerformanceError, match=says):
        read_progress(path)
