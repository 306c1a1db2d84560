"""Mean JCT against CPU time per decision: what is drawn, and where labels are."""

import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from envs.evaluation import Comparison, compare_schedulers
from envs.performance import IdealModel
from envs.simulation import Setup
from murmuration.reports.tradeoff import jct_and_cpu_time, place_labels
from tests.unit.evaluation.test_compare import CLUSTER, InOrder, Preempting, workloads
from tests.unit.metrics.fabricated import Told, fabricated


def test_marks_are_at_cpu_time_and_ratio_to_the_bound():
    found = compare_schedulers({"a": InOrder(), "b": Preempting()}, workloads(2), Setup(CLUSTER, IdealModel()))
    (axes,) = jct_and_cpu_time(found).axes
    expected = [[found.decision_ms(name), found.bound_ratio(name)] for name in ("a", "b")]
    assert np.asarray(axes.collections[0].get_offsets()) == pytest.approx(np.array(expected))
    assert [text.get_text() for text in axes.texts] == ["a", "b"]
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "CPU time per decision (ms)")
    assert axes.get_ylabel() == "mean JCT / lower bound"
    bare = jct_and_cpu_time(Comparison(found.runs)).axes[0]
    assert bare.get_ylabel() == "mean JCT (h)"
    offset = np.asarray(bare.collections[0].get_offsets())[0, 1]
    assert offset == pytest.approx(found.estimate("mean_jct", "a").value / 3600)


def test_decision_times_are_cpu_time_per_round():
    found = compare_schedulers({"a": InOrder()}, workloads(2), Setup(CLUSTER, IdealModel()))
    runs = found.runs["a"]
    seconds, rounds = sum(run.decision_seconds for run in runs), sum(run.num_rounds for run in runs)
    assert found.decision_ms("a") == pytest.approx(1000 * seconds / rounds)
    assert found.decision_ms("a") > 0


def test_a_scheduler_without_a_mean_has_no_mark():
    comparison = Comparison({"idle": [fabricated([Told(0, 1, 5)], end=9)]})
    (axes,) = jct_and_cpu_time(comparison).axes
    assert len(axes.texts) == 0


def test_labels_cover_neither_each_other_nor_marks_nor_the_edge():
    """Thirty marks, ten of them at nearly the same place."""
    rng = np.random.default_rng(3)
    places = np.column_stack([10 ** rng.uniform(-2, 2, 30), rng.uniform(1, 3, 30)])
    places[:10] = [0.05, 2.0] + 0.001 * rng.normal(size=(10, 2))
    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.scatter(places[:, 0], places[:, 1])
    axes.margins(0.12)
    labels = place_labels(axes, [f"scheduler_{i}" for i in range(30)], places)
    boxes = [label.get_window_extent() for label in labels]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    marks = axes.transData.transform(places)
    assert not any(box.contains(*mark) for box in boxes for mark in marks)
    assert all(axes.bbox.contains(*corner) for box in boxes for corner in box.corners())
    assert len(axes.lines) > 0  # lines to the labels that are far from their marks
