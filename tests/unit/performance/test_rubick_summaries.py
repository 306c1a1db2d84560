"""Summaries of prediction errors, computed by hand on small frames; no data are needed."""

import pandas as pd
import pytest

from envs.performance.rubick.data import model_shapes
from envs.performance.rubick.fitting import prior_figures
from experiments.performance.rubick_protocols import distribution, transfer_figures, worst_points

FRAME = pd.DataFrame({"model": ["a", "a", "b", "b"], "error": [0.1, -0.3, 0.0, -0.2]})


def test_distribution_by_hand():
    row = distribution(FRAME).iloc[0]
    assert (row["group"], row["points"]) == ("all", 4)
    assert (row["median"], row["mean"], row["maximum"]) == (pytest.approx(0.15), pytest.approx(0.15), 0.3)
    assert row["p90"] == pytest.approx(0.27)


def test_distribution_by_group_ends_with_the_total():
    table = distribution(FRAME, ("model",))
    assert table["group"].tolist() == ["a", "b", "all"]
    assert table["points"].tolist() == [2, 2, 4]
    assert table["median"].tolist() == pytest.approx([0.2, 0.1, 0.15])


def test_largest_errors_come_first():
    assert worst_points(FRAME, 2)["error"].tolist() == [-0.3, -0.2]


def test_transferred_figures_differ_only_by_the_work():
    t5, large = model_shapes()["t5"], model_shapes()["t5_3b"]
    figures = prior_figures(t5)
    moved = transfer_figures(figures, t5, large)
    assert moved.forward.per_sample == pytest.approx(figures.forward.per_sample * large.parameters / t5.parameters)
    assert (moved.params, moved.links) == (figures.params, figures.links)
