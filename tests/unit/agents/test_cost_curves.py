"""Learning curves from nothing: progress between two baselines, and when a baseline is passed."""

from dataclasses import replace

import numpy as np
import pytest

from agents.cost_curves import CostCurve, compare_progress, cost_curves
from agents.training import TrainingState


def curve(*jct: float, task: str = "a", seed: int = 0) -> CostCurve:
    """Validated every ten iterations of 3 s; random 110 s, srtf 60 s, starling 10 s."""
    validation = {str(10 * i): {task: {"compared_cost": each}} for i, each in enumerate(jct)}
    baselines = {"random": {"mean_jct": 110.0}, "srtf": {"mean_jct": 60.0}, "starling": {"mean_jct": 10.0}}
    return CostCurve.of(
        TrainingState(seed, validation=validation, baselines=baselines, cpu_time=[3.0] * 10 * (len(jct) - 1))
    )


def test_progress_is_0_at_one_baseline_and_1_at_the_other() -> None:
    found = curve(110.0, 60.0, 10.0, 0.0)
    assert found.iterations == (0, 10, 20, 30)
    assert found.seconds.tolist() == [0, 30, 60, 90]
    assert found.progress("random", "starling").tolist() == [0, 0.5, 1, 1.1]
    assert found.progress("random", "srtf").tolist() == [0, 1, 2, 2.2]


def test_a_baseline_is_passed_at_the_first_validation_below_it() -> None:
    assert curve(110.0, 60.0, 59.0, 70.0).first_below("srtf") == 60
    assert curve(110.0, 60.0).first_below("srtf") == np.inf
    with pytest.raises(KeyError):
        curve(1.0).first_below("sia")


def test_methods_are_lines_through_the_middle_of_their_seeds_with_a_band() -> None:
    methods = {"one": [curve(110.0, 60.0), curve(110.0, 10.0, seed=1)], "other": [curve(110.0, 110.0, task="b")]}
    first, second = compare_progress(methods, "random", "starling").axes
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["a", "b"]
    (line,) = [each for each in first.get_lines() if each.get_label() == "one"]
    assert np.asarray(line.get_xdata()).tolist() == [1, 30]
    assert np.asarray(line.get_ydata()).tolist() == [0, 0.75]
    band = first.collections[0].get_datalim(first.transData)
    assert (band.y0, band.y1) == (0, 1)
    levels = {str(text.get_text()) for text in first.texts}
    assert levels == {"random", "srtf", "starling"}
    assert next(each.get_label() for each in second.get_lines()) == "other"


def test_baselines_far_below_the_first_one_are_left_out() -> None:
    slow = replace(curve(110.0), baselines={"random": 110.0, "fifo": 400.0, "starling": 10.0})
    (axes,) = compare_progress({"one": [slow]}, "random", "starling").axes
    assert {str(text.get_text()) for text in axes.texts} == {"random", "starling"}


def test_axes_have_ticks_over_all_that_is_shown_and_no_name_covers_another() -> None:
    """The policy is at 3 to 5 h, the best baseline at 0.6 h; two baselines nearly coincide."""
    hours = {"fifo": 7.0, "optimus": 2.07, "afs": 2.075, "starling": 0.6}
    run = replace(curve(18_000.0, 11_000.0), baselines={name: 3600.0 * each for name, each in hours.items()})
    (axes,) = cost_curves([run]).axes
    ticks = axes.get_yticks()
    assert ticks.min() < 1
    assert ticks.max() >= 6
    assert {str(text.get_text()) for text in axes.texts} == {"policy", "fifo", "optimus, afs", "starling"}
    low, high = axes.get_xlim()
    assert sum(low <= each <= high for each in axes.get_xticks()) > 1, "30 s of training need more than one number"
