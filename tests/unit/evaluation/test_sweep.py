"""The same jobs at several loads."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Fifo, Srtf
from envs.evaluation.comparison import BOUND
from envs.evaluation.sweep import at_load, sweep
from envs.evaluation.sweep_plot import jct_by_load
from envs.performance import IdealModel
from envs.simulation import Information, Scenario
from envs.types import MurmurationError
from tests.golden.playground import jobs, two_nodes

ROWS = [(10.0 * i, 1 + i % 4, 20.0 + 7 * (i % 5)) for i in range(12)]
FREE = Scenario(restart_delay=0.0)


def swept(loads=(1.5, 0.5), schedulers=None, workloads=None, **more):
    """FIFO and SRTF on twelve jobs."""
    chosen = schedulers or {"fifo": Fifo(), "srtf": Srtf()}
    return sweep(chosen, workloads or [jobs(*ROWS)], loads, two_nodes(), IdealModel(), more.pop("rules", FREE), **more)


@given(load=st.floats(0.05, 20))
@settings(max_examples=20)
def test_time_is_stretched_to_the_load(load):
    before = jobs(*ROWS)
    after = at_load(before, load, two_nodes(), IdealModel())
    assert after.offered_load(two_nodes(), IdealModel())["all"] == pytest.approx(load)
    stretch = after.jobs["submit_time"][-1] / before.jobs["submit_time"][-1]
    assert after.jobs["submit_time"] == pytest.approx(before.jobs["submit_time"] * stretch)
    assert (after.jobs["work"] == before.jobs["work"]).all()
    assert before.jobs["submit_time"][1] == 10


def test_the_window_stretches_along():

    before = replace(jobs(*ROWS), window=(25.0, 75.0))
    for load in (0.3, 3.0):
        after = at_load(before, load, two_nodes(), IdealModel())
        assert (after.measured == before.measured).all()
        assert after.name == f"jobs@{load:g}"


@pytest.mark.parametrize("load", [0.0, -1.0, np.inf, np.nan])
def test_loads_that_cannot_be(load):
    with pytest.raises(MurmurationError, match="loads must be positive"):
        at_load(jobs(*ROWS), load, two_nodes(), IdealModel())


def test_jobs_that_come_at_once_have_no_load_to_change():
    with pytest.raises(MurmurationError, match="offers an infinite load"):
        at_load(jobs((0, 1, 5), (0, 1, 5)), 0.5, two_nodes(), IdealModel())


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


def test_the_table_is_long():
    table = swept().table()
    assert len(table) == 2 * 3
    assert table[table["scheduler"] == BOUND]["mean_jct_low"].isna().all()
    assert (table[table["scheduler"] == "fifo"]["mean_jct_ratio"] == 1).all()


@pytest.mark.parametrize("loads", [(), (0.5, 0.5)])
def test_loads_are_given_each_once(loads):
    with pytest.raises(MurmurationError, match="give at least one, each once"):
        swept(loads)


def test_who_cannot_run_is_left_out():
    found = swept(rules=Scenario(information=Information("none")), optional=("srtf",))
    assert found.schedulers == ["fifo"]
    assert set(found.table()["scheduler"]) == {"fifo", BOUND}


def test_the_picture_has_a_line_each():
    axes = jct_by_load(swept((0.5, 1.0, 1.5))).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"fifo", "srtf"}
    assert np.asarray(lines["fifo"].get_xdata()).tolist() == [0.5, 1.0, 1.5]
    seconds = swept((0.5, 1.0, 1.5)).by_load().loc["fifo"].to_numpy()
    assert np.asarray(lines["fifo"].get_ydata(), dtype=float) == pytest.approx(seconds)
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["fifo", "srtf", BOUND]
