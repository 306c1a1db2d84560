"""Scores of predictors: worked by hand, calibrated where the predictor is right, and printed by the command."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from envs.simulation.pooled_history import LEVELS, log_normal
from envs.types import NUM_OUTCOMES
from experiments.predictors.scores import score_outcomes, summarise_scores
from murmuration.config.tables import read_choices
from tests.unit.scripts.test_training_scripts import run_here

REPOSITORY = Path(__file__).resolve().parents[3]


def test_scores_of_two_values_are_those_worked_by_hand():
    """Half at 0, half at 2, truth 1: the score is 1 - 2 x 2 / 8 = 0.5; both intervals are the whole range."""
    outcomes = np.repeat([0.0, 2.0], NUM_OUTCOMES // 2)
    found = score_outcomes(outcomes, 1.0)
    assert found == {"crps": pytest.approx(0.5), "error": 0.0, "inside 50%": 1.0, "inside 75%": 1.0, "inside 90%": 1.0}
    assert score_outcomes(outcomes, 2.5)["inside 75%"] == 0.0


def test_a_right_distribution_is_calibrated():
    """3,000 draws of it; shares within four standard errors."""
    truth = np.random.default_rng(0).standard_normal(3000)
    outcomes = np.log(log_normal(0.0, 1.0))
    rows = pd.DataFrame([{"predictor": "right"} | score_outcomes(outcomes, float(each)) for each in truth])
    found = summarise_scores(rows).iloc[0]
    assert found["inside 50%"] == pytest.approx(0.5, abs=0.04)
    assert found["inside 75%"] == pytest.approx(0.75, abs=0.04)
    assert found["crps"] == pytest.approx(1 / np.sqrt(np.pi), abs=0.03)
    assert found["rmse"] == pytest.approx(1.0, abs=0.05)
    assert len(LEVELS) == NUM_OUTCOMES


@pytest.mark.slow
def test_the_command_prints_a_row_for_each_predictor(tmp_path):
    options = [f"hydra.run.dir={tmp_path}/run", "episodes=1", "workload.num_jobs=60", "workload.warm_up=0"]
    done = run_here(tmp_path, "calibrate_predictors", *options, "workload.measured=null")
    assert done.returncode == 0, done.stderr
    names = {*read_choices(REPOSITORY / "conf" / "predictor")}
    assert all(name in done.stdout for name in names)
    scores = pd.read_csv(tmp_path / "run" / "scores.csv")
    assert scores["predictor"].value_counts().to_dict() == dict.fromkeys(names, 60)
