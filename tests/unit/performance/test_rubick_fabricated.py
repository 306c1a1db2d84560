"""The protocols recover the known figures behind fabricated measurements; no data are needed."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from envs.performance.rubick.data import (
    FOLDERS,
    RECOMPUTED,
    SINGLE_SAMPLE,
    fewest_micro_batches,
    model_shapes,
    parse_plan,
)
from envs.performance.rubick.iteration import Figures, Forward, Links, PerfParams, iteration_time, points
from envs.types import ExecutionPlan, PerformanceError
from experiments.performance.rubick_protocols import (
    MODEL_PARALLEL,
    PROTOCOLS,
    fit_profiles,
    prediction_errors,
    read_measured_runs,
    select_profile,
)
from papers.rubick_model.report import prediction_error

TRUTH = Figures(
    PerfParams(k_bwd=2.0, k_sync=1.5, k_opt=0.05, k_opt_off=3.5, k_const=12.0, k_off=2.2, k_swap=2.5),
    Forward(fixed=6.0, per_sample=1.0, model_parallel=1.3),
    Links(intra=70.0, inter=12.0, pcie=5.0),
)
DATA_PARALLEL = ("ga", "gc", "zero-dp", "zero-offload")
PLACEMENTS = ("1", "2", "4", "8", "22", "44", "224", "2222")
MORE = {
    "t5": [("181", "8"), ("241", "44"), ("881", "88888888")],
    "gpt2": [("251", "55"), ("811", "11111111")],
    "llama7": [("zero-offload", "8"), ("248", "88888888"), ("148", "8888"), ("184", "8888"), ("282", "8888")],
    "llama30": [("444", "88888888"), ("542", "88888")],
    "t5_3B": [("zero-offload", "4")],
    "llama7b_bsz16": [("244", "8888")],
}


def truth_of(shape):
    """Figures with forward time by the model's work, so that they transfer to a related model as in the validation."""
    work = 2e3 * shape.parameters * shape.sequence / 60e12
    return Figures(TRUTH.params, replace(TRUTH.forward, per_sample=work), TRUTH.links)


def rows_of(folder, model):
    rows = [(plan, placed) for plan in DATA_PARALLEL for placed in PLACEMENTS] if folder in SMALL_MODELS else []
    handful = MODEL_PARALLEL.get(model, ()) if folder not in ("t5_3B", "llama7b_bsz16") else ()
    return list(dict.fromkeys([*rows, *handful, *MORE.get(folder, [])]))


SMALL_MODELS = ("vit", "roberta", "bert", "t5", "gpt2")


def write(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """A data folder in the layout of the real one, with all times computed by the general model."""
    data = tmp_path_factory.mktemp("data")
    for folder, (model, batch) in FOLDERS.items():
        shape, rows = model_shapes()[model], []
        for name, placed in rows_of(folder, model):
            shares = tuple(int(digit) for digit in placed)
            plan = parse_plan(shape, name, shares, batch, single=folder in SINGLE_SAMPLE)
            time = iteration_time(shape, truth_of(shape), points([(plan, shares, batch, 4.0)])).total[0]
            rows.append((name, placed, time / 1e3))
        write(data / "profiles/rubick" / folder / "placements.csv", ("exec_plan", "placement", "iter_time"), rows)
    for model in ("vit", "roberta", "bert", "t5", "gpt2", "llama7b"):
        write_fit_points(data / "profiles/rubick_fit_points" / model, model_shapes()[model])
    return data


def write_fit_points(folder, shape):
    zero_types = ["0", "1"] if shape.name != "llama7b" else ["1"]
    settings, times = [], []
    for zero_type in zero_types:
        for gpus in (2, 4, 8):
            plan = ExecutionPlan(gpus, zero_stage=0 if zero_type == "0" else 2, offload=zero_type == "1")
            plan = replace(plan, checkpointing=plan.offload and shape.name in RECOMPUTED)
            row = points([(fewest_micro_batches(shape, plan, shape.batch), (gpus,), shape.batch, 4.0)])
            parts = iteration_time(shape, truth_of(shape), row)
            settings.append((gpus, 4, zero_type, shape.mega_params))
            times.append([float(v[0]) for v in (parts.forward, parts.compute, parts.optimizer, parts.total)])
    write(folder / "config.csv", ("gpus", "num_cpu_threads", "zero_type", "parameter_size"), settings)
    write(folder / "data.csv", ("forward_time", "Tcc", "Topt", "iter_time"), times)


@pytest.fixture(scope="module")
def root(data_folder):
    return data_folder / "profiles"


@pytest.fixture(scope="module")
def profile(root):
    """The errors of the profile protocol."""
    return prediction_errors(root, "profile")


@pytest.fixture(scope="module")
def small_to_large(root):
    """The errors of the protocol that fits on small placements."""
    return prediction_errors(root, "small_to_large")


@pytest.mark.parametrize(("protocol", "median"), [("profile", 0.02), ("small_to_large", 0.03)])
def test_predictions_recover_the_true_times(request, protocol, median):
    errors = request.getfixturevalue(protocol)
    assert errors["error"].abs().median() < median
    assert errors["error"].abs().quantile(0.9) < 6 * median


@pytest.mark.exhaustive
def test_predictions_of_plans_that_were_left_out_recover_the_true_times(root):
    errors = prediction_errors(root, "leave_one_plan_out")["error"].abs()
    assert errors.median() < 0.05
    assert errors.quantile(0.9) < 0.3


def test_related_models_are_predicted_with_transferred_figures(profile):
    other = profile[profile["folder"].isin(["t5_3B", "llama7b_bsz16"])]
    assert len(other) == 2
    assert other["error"].abs().max() < 0.15


def test_every_point_is_predicted_once_in_profile(root, profile):
    assert len(profile) == len(read_measured_runs(root).runs)
    assert not profile.duplicated(["folder", "exec_plan", "placement"]).any()


def test_fit_reports_count_their_points(root):
    reports = fit_profiles(read_measured_runs(root))
    assert reports["bert"].num_points == 6 + 3
    assert reports["llama30b"].num_points == 4
    assert "model_parallel" in reports["bert"].from_prior
    assert "model_parallel" not in reports["gpt2"].from_prior
    assert all(report.rmsle < 0.02 for report in reports.values())


def test_fitted_marks_are_the_points_of_the_fit(root, profile):
    bert = profile[profile["folder"] == "bert"]
    marked = set(map(tuple, bert.loc[bert["fitted"], ["exec_plan", "placement"]].to_numpy()))
    singles = {(plan, placed) for plan in ("ga", "zero-offload") for placed in ("2", "4", "8")}
    assert marked == singles | {(plan, "2222") for plan in ("ga", "zero-dp", "zero-offload")}
    assert len(select_profile(read_measured_runs(root), "bert")) == len(marked)


def test_a_wrong_measurement_is_predicted_but_not_fitted(root, small_to_large, tmp_path):
    """RoBERTa's single-GPU run is a known oddity: an absurd value there changes no prediction of small_to_large."""
    copy = tmp_path / "profiles"
    for path in root.rglob("*.csv"):
        text = path.read_text()
        if path.parent.name == "roberta" and path.name == "placements.csv":
            lines = ["ga,1,99.0" if line.startswith("ga,1,") else line for line in text.splitlines()]
            text = "\n".join(lines) + "\n"
        target = copy / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    after = prediction_errors(copy, "small_to_large")
    np.testing.assert_allclose(after["predicted_s"], small_to_large["predicted_s"])
    whole = prediction_errors(copy, "profile")
    absurd = whole[(whole["folder"] == "roberta") & (whole["exec_plan"] == "ga") & (whole["placement"] == "1")]
    assert absurd["error"].item() < -0.9


def test_a_nan_in_the_measurements_is_an_error_of_one_line(root, tmp_path):
    copy = tmp_path / "profiles" / "rubick"
    for path in (root / "rubick").rglob("*.csv"):
        (copy / path.parent.name).mkdir(parents=True)
        (copy / path.parent.name / path.name).write_text(path.read_text().replace("ga,44,", "ga,44,nan"))
    with pytest.raises(PerformanceError, match=r"placements\.csv: row \d+, iter_time is 'nan") as error:
        prediction_errors(copy.parent)
    assert "\n" not in str(error.value)


@pytest.mark.exhaustive
def test_the_report_works_on_fabricated_data(data_folder, tmp_path):
    result = prediction_error(str(data_folder), tmp_path / "run")
    titles = [title for title, _ in result.tables]
    assert titles[-1] == "Profile protocol: the 10 largest errors"
    assert [len(frame) for _, frame in result.tables][-1] == 10
    kept = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert [row["protocol"] for row in kept["predictive"]] == [
        "profile",
        "profile, points not fitted on",
        *PROTOCOLS[1:],
    ]
    assert set(kept["fits"]) == {"vit", "roberta", "bert", "t5", "gpt2", "llama7b", "llama30b"}
    assert kept["fits"]["gpt2"]["figures"]["forward"]["per_sample"] == pytest.approx(
        truth_of(model_shapes()["gpt2"]).forward.per_sample, rel=0.05
    )
