"""Rubick's prediction errors as a user runs it: its files, its result, and the script's errors."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from envs.performance.rubick.data import model_shapes
from envs.performance.rubick.fitting import FitReport, prior_figures
from envs.types import PerformanceError
from papers.rubick_model.report import figures_table, prediction_error, summarise_protocols
from tests.unit.scripts.test_training_scripts import run_here

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.exhaustive
def test_a_complete_run(real_data, tmp_path):
    """The README's command prints the tables, writes the files, and prints its folder last."""
    data = real_data("profiles/rubick/vit/placements.csv").parents[3]
    result = run_here(tmp_path, "reproduce", "paper=rubick", "table=prediction_error", f"data={data}")
    assert result.returncode == 0, result.stderr
    *notes, last = result.stdout.strip().splitlines()
    assert last.startswith("run: ")
    folder = tmp_path / last.removeprefix("run: ")
    assert {path.name for path in folder.iterdir()} >= {
        *("predictions.csv", "summary.json", "rubick_figures.yaml"),
        *("predicted_profile.png", "predicted_small_to_large.png", "predicted_leave_one_plan_out.png"),
    }
    predictions = pd.read_csv(folder / "predictions.csv", dtype={"placement": str, "exec_plan": str})
    profile = predictions[predictions["protocol"] == "profile"]
    kept = json.loads((folder / "summary.json").read_text())
    assert len(profile) == 535
    assert kept["predictive"][0]["median"] == pytest.approx(profile["error"].abs().median())
    assert f"{kept['predictive'][0]['median']:.1%} over 535 points" in notes[-1]
    figures, shipped = (
        yaml.safe_load(path.read_text())
        for path in (folder / "rubick_figures.yaml", REPOSITORY / "envs/performance/tables/rubick_figures.yaml")
    )
    assert {model: one["forward"]["per_sample"] for model, one in figures.items()} == pytest.approx(
        {model: one["forward"]["per_sample"] for model, one in shipped.items()}, rel=2e-3
    )


def test_no_files_are_written_without_data(tmp_path):
    with pytest.raises(PerformanceError, match="has no folder profiles/rubick"):
        prediction_error(str(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_summary_lists_points_outside_the_fit_separately():
    frame = pd.DataFrame({"error": [0.1, -0.3, 0.5], "fitted": [True, False, False]})
    table = summarise_protocols({"profile": frame, "small_to_large": frame[:1]})
    assert table["protocol"].tolist() == ["profile", "profile, points not fitted on", "small_to_large"]
    assert table["points"].tolist() == [3, 2, 1]
    assert table["median"].tolist() == pytest.approx([0.3, 0.4, 0.1])


def test_figures_are_rounded_to_five_digits():
    figures = prior_figures(model_shapes()["vit"])
    table = figures_table({"vit": FitReport(figures, 1, 1, 0.0, 0.0, (), ())})
    value = table["vit"]["forward"]["per_sample"]
    assert value == float(f"{figures.forward.per_sample:.5g}")
    assert set(table["vit"]) == {"params", "forward", "links"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["paper=rubik"], "paper=rubik: no such paper, did you mean rubick?; there are: rubick"),
        (["table=prediction_eror"], "table=prediction_eror: no such table, did you mean prediction_error?"),
        (["data=/nowhere"], "data=/nowhere: has no folder profiles/rubick; set data=<folder> or $MURMURATION_DATA"),
    ],
)
def test_the_script_reports_mistakes_in_one_line(tmp_path, arguments, message):
    result = run_here(tmp_path, "reproduce", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
