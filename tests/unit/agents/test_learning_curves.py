"""Learning curves: costs and gains of validations, of one run and of several training seeds."""

from pathlib import Path

import numpy as np
import pytest

from agents.curves import LearningCurve, learning_curves
from agents.problems.gain import Gain


def gain(jct: float) -> dict[str, float]:
    return Gain(jct, 0.001, 0.0, 0.0, jct, 0.0, 0.0)._asdict()


def curve(*gains: float) -> LearningCurve:
    """Validated every ten iterations of 8 episodes and 3 s, and at the end; "a" gains, "b" loses as much."""
    validation = {str(10 * i): {"a": gain(value), "b": gain(-value)} for i, value in enumerate(gains)}
    return LearningCurve(validation, 8, [3.0] * 10 * (len(gains) - 1))


def test_costs_and_gains_are_in_the_order_of_iterations() -> None:
    """Keys of JSON are text: "100" comes after "20"."""
    found = LearningCurve({str(i): {"a": gain(i / 1000)} for i in (100, 0, 20)}, 8, [3.0] * 100)
    assert found.iterations == [0, 20, 100]
    assert found.episodes().tolist() == [0, 160, 800]
    assert found.cpu_minutes().tolist() == [0, 1, 5]
    gains, errors = found.gains("a")
    assert gains == pytest.approx([0, 2, 10])
    assert errors == pytest.approx([0.1, 0.1, 0.1])


def test_a_chart_for_each_task_and_cost_shows_all_seeds_and_their_mean(tmp_path: Path) -> None:
    figure = learning_curves({"seed 0": curve(0.0, 0.01, 0.02), "seed 1": curve(0.0, 0.03, 0.04)})
    charts = figure.axes
    assert [axes.get_title(loc="left") for axes in charts] == ["a", "", "b", ""]
    assert [axes.get_xlabel() for axes in charts[2:]] == ["training episodes", "CPU-minutes of training"]
    handles, labels = charts[0].get_legend_handles_labels()
    assert sorted(labels) == ["mean", "seed 0", "seed 1"]
    mean = handles[labels.index("mean")]
    assert np.asarray(mean.get_xdata()).tolist() == [0, 80, 160]  # type: ignore[attr-defined]
    assert np.asarray(mean.get_ydata()) == pytest.approx([0, 2, 3])  # type: ignore[attr-defined]
    figure.savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_seeds_of_other_lengths_have_no_mean() -> None:
    figure = learning_curves({"seed 0": curve(0.0, 0.01), "seed 1": curve(0.0, 0.03, 0.04)})
    assert figure.axes[0].get_legend_handles_labels()[1] == ["seed 0", "seed 1"]
