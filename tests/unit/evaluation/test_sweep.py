"""The same jobs at several loads."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Srtf
from envs.evaluation.comparison import ANY_BATCH, BOUND
from envs.evaluation.sweep import Sweep, at_load, sweep
from envs.performance import IdealModel, default_model
from envs.simulation import Information, Scenario, Setup
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec, TraceError
from envs.workloads import Workload
from murmuration.reports.sweep_plot import jct_by_load
from tests.golden.playground import jobs, two_nodes

ROWS = [(10.0 * i, 1 + i % 4, 20.0 + 7 * (i % 5)) for i in range(12)]
FREE = Scenario(restart_delay=0.0)


def swept(loads=(1.5, 0.5), schedulers=None, workloads=None, **more):
    """FIFO and SRTF on twelve jobs."""
    chosen = schedulers or {"fifo": Fifo(), "srtf": Srtf()}
    return sweep(
        chosen, workloads or [jobs(*ROWS)], loads, Setup(two_nodes(), IdealModel(), more.pop("rules", FREE)), **more
    )


@given(load=st.floats(0.05, 20))
@settings(max_examples=20)
def test_time_is_stretched_to_the_load(load):
    before = jobs(*ROWS)
    after = at_load(before, load, Setup(two_nodes(), IdealModel()))
    assert after.offered_load(two_nodes(), IdealModel())["all"] == pytest.approx(load)
    stretch = after.jobs["submit_time"][-1] / before.jobs["submit_time"][-1]
    assert after.jobs["submit_time"] == pytest.approx(before.jobs["submit_time"] * stretch)
    assert (after.jobs["work"] == before.jobs["work"]).all()
    assert before.jobs["submit_time"][1] == 10


@given(load=st.floats(0.05, 20))
@settings(max_examples=10)
def test_time_is_stretched_to_the_load_at_efficient_sizes(load):
    """Jobs of four GPUs that can run on one: the requested load is higher than that at efficient sizes."""
    zoo, cluster = default_model(), ClusterSpec((NodeSpec("V100", 8),))
    rows = [JobSpec(i, 30.0 * i, 4, 40_000.0, "resnet50", 1, 8) for i in range(6)]
    after = at_load(Workload.of(rows), load, Setup(cluster, zoo), "efficient")
    assert after.efficient_load(cluster, zoo) == pytest.approx(load)
    assert after.offered_load(cluster, zoo)["all"] > load * 1.01


def test_a_sweep_uses_the_definition_of_load():
    requested, efficient = (swept(loads=(0.5,), definition=name) for name in ("requested", "efficient"))
    assert requested.by_load().to_numpy() == pytest.approx(efficient.by_load().to_numpy())  # rigid jobs, one type
    with pytest.raises(TraceError, match="load_definition is 'best'"):
        swept(loads=(0.5,), definition="best")


def test_the_window_is_stretched_too():

    before = replace(jobs(*ROWS), window=(25.0, 75.0))
    for load in (0.3, 3.0):
        after = at_load(before, load, Setup(two_nodes(), IdealModel()))
        assert (after.measured == before.measured).all()
        assert after.name == f"jobs@{load:g}"


@pytest.mark.parametrize("load", [0.0, -1.0, np.inf, np.nan])
def test_impossible_loads_are_refused(load):
    with pytest.raises(MurmurationError, match="loads must be positive"):
        at_load(jobs(*ROWS), load, Setup(two_nodes(), IdealModel()))


def test_jobs_submitted_at_once_cannot_be_stretched():
    with pytest.raises(MurmurationError, match="offers an infinite load"):
        at_load(jobs((0, 1, 5), (0, 1, 5)), 0.5, Setup(two_nodes(), IdealModel()))


def test_every_scheduler_waits_longer_at_a_higher_load():
    told: list[float] = []
    found = swept(listener=told.append)
    assert told == [0.5, 1.5]
    assert list(found.comparisons) == [0.5, 1.5]
    table = found.by_load()
    assert set(table.index) == {"fifo", "srtf", BOUND}
    assert table.index[-1] == BOUND
    assert (table[1.5] >= table[0.5] - 1e-9).all()
    assert table.loc["fifo", 1.5] > table.loc["srtf", 1.5] >= table.loc[BOUND, 1.5]
    assert table.loc["fifo", 0.5] == pytest.approx(found.comparisons[0.5].rows[0]["mean_jct"])


def test_the_table_has_a_row_per_load_and_scheduler():
    table = swept().table()
    assert len(table) == 2 * 3
    assert table[table["scheduler"] == BOUND]["mean_jct_low"].isna().all()
    assert (table[table["scheduler"] == "fifo"]["mean_jct_ratio"] == 1).all()


@pytest.mark.parametrize("loads", [(), (0.5, 0.5)])
def test_each_load_may_be_given_only_once(loads):
    with pytest.raises(MurmurationError, match="give at least one number, each once"):
        swept(loads)


def test_a_scheduler_that_cannot_run_is_left_out():
    found = swept(rules=Scenario(information=Information("none")), optional=("srtf",))
    assert found.schedulers == ["fifo"]
    assert set(found.table()["scheduler"]) == {"fifo", BOUND}


def test_the_picture_has_a_line_for_each_scheduler():
    figure = jct_by_load(swept((0.5, 1.0, 1.5)))
    axes, legend = figure.axes[0], figure.legends[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"fifo", "srtf"}
    assert np.asarray(lines["fifo"].get_xdata()).tolist() == [0.5, 1.0, 1.5]
    seconds = swept((0.5, 1.0, 1.5)).by_load().loc["fifo"].to_numpy()
    assert np.asarray(lines["fifo"].get_ydata(), dtype=float) == pytest.approx(seconds)
    assert [text.get_text() for text in legend.get_texts()] == ["fifo", "srtf", BOUND]
    assert len(axes.collections) == 3  # two bands and the bound


class MadeUp(Sweep):
    """A sweep with only a table: 31 schedulers, the i-th with a mean JCT of i + 1 minutes, and both bounds."""

    @property
    def schedulers(self):
        return [f"s{i}" for i in range(31)]

    def table(self):
        means = {name: 60.0 * (i + 1) for i, name in enumerate(self.schedulers)} | {BOUND: 40.0, ANY_BATCH: 30.0}
        rows = [(load, name, mean * load) for load in (0.5, 1.0) for name, mean in means.items()]
        table = pd.DataFrame(rows, columns=["load", "scheduler", "mean_jct"])
        return table.assign(mean_jct_low=table["mean_jct"] * 0.9, mean_jct_high=table["mean_jct"] * 1.1)


def test_many_schedulers_are_distinguishable():
    """No bands, distinct lines, a legend beside the curves in the order of the highest load, and plain numbers."""
    figure = jct_by_load(MadeUp({}))
    axes, legend = figure.axes[0], figure.legends[0]
    *lines, any_batch = axes.get_lines()
    assert any_batch.get_label() == ANY_BATCH
    assert any_batch.get_linewidth() < lines[0].get_linewidth()
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}) == 31
    assert len(axes.collections) == 1
    names = [text.get_text() for text in legend.get_texts()]
    assert names[:31] == [f"s{i}" for i in reversed(range(31))]
    assert set(names[31:]) == {BOUND, ANY_BATCH}
    figure.draw_without_rendering()
    assert legend.get_window_extent().x0 > axes.get_window_extent().x1
    assert legend.get_window_extent().y0 > 0
    labels = [label.get_text() for which in ("major", "minor") for label in axes.get_yticklabels(which=which)]
    assert {"1", "2", "10", "20"} <= set(labels)
    assert not any("$" in label for label in labels)


def test_bounds_come_last():
    assert MadeUp({}).by_load().index.tolist()[-2:] == [BOUND, ANY_BATCH]
