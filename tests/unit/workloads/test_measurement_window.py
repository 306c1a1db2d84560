"""The measurement window of synthetic workloads: which jobs it holds, bursts at its edges, and errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.cluster import build_cluster
from envs.performance import default_model
from envs.types import TraceError
from envs.workloads import Arrivals, JobStream, LogNormal, SyntheticSource
from envs.workloads.splits import window_of_jobs

EIGHT = build_cluster("eight_nodes", [{"gpu_type": "V100", "num_nodes": 8, "num_gpus": 8}])
ZOO = default_model()


def inside(submit, window):
    """bool[num_jobs]: submitted in the window."""
    return (submit >= window[0]) & (submit < window[1])


@given(st.lists(st.integers(0, 8), min_size=2, max_size=30), st.data())
def test_a_window_holds_the_measured_jobs_and_whole_bursts(gaps, data):
    submit = np.cumsum(np.array(gaps, dtype=float)) - gaps[0]
    warm_up = data.draw(st.integers(0, len(submit) - 1))
    measured = data.draw(st.none() | st.integers(1, len(submit) - warm_up))
    chosen = inside(submit, window_of_jobs(submit, warm_up, measured))
    assert chosen.any()
    assert chosen[warm_up]
    last = len(submit) if measured is None else warm_up + measured
    asked = np.arange(len(submit))
    asked = (asked >= warm_up) & (asked < last)
    # Only jobs of the instants at the two edges can differ from those asked for.
    edges = {submit[warm_up], submit[min(last, len(submit) - 1)]}
    assert set(submit[chosen != asked]) <= edges
    for instant in np.unique(submit):
        assert len(set(chosen[submit == instant])) == 1


def test_without_ties_the_window_holds_exactly_the_measured_jobs():
    submit = np.array([0.0, 1.0, 2.5, 4.0, 7.0])
    assert window_of_jobs(submit, 0, None) == (0.0, np.inf)
    assert window_of_jobs(submit, 2, None) == (2.5, np.inf)
    assert window_of_jobs(submit, 1, 2) == (1.0, 4.0)
    assert window_of_jobs(submit, 0, 5) == (0.0, np.inf)


def test_one_burst_can_fill_the_window():
    submit = np.array([0.0, 1.0, 1.0, 1.0, 7.0])
    assert window_of_jobs(submit, 1, 1) == (1.0, 7.0)
    assert window_of_jobs(submit[:4], 1, 1) == (1.0, np.inf)


def test_a_synthetic_workload_marks_its_measured_jobs():
    source = SyntheticSource(EIGHT, ZOO, num_jobs=100, warm_up=20, measured=50)
    for workload in (*source.evaluation(), source.episode(np.random.default_rng(3))):
        assert np.flatnonzero(workload.measured).tolist() == list(range(20, 70))
        assert "measured are about 50 of 100 jobs: 20 are submitted before them, 30 after them" in workload.notes


@pytest.mark.parametrize("burst", [0.0, 0.6])
def test_the_window_changes_no_job_and_by_default_holds_all(burst):
    stream = JobStream({1: 1.0}, {1: LogNormal(600.0, 1.0)}, Arrivals(cv=3.0, burst=burst), "made for this test")
    plain = SyntheticSource(EIGHT, ZOO, stream=stream, num_jobs=60).evaluation()[0]
    windowed = SyntheticSource(EIGHT, ZOO, stream=stream, num_jobs=60, warm_up=10, measured=30).evaluation()[0]
    assert plain.window == (0.0, np.inf)
    assert plain.measured.all()
    assert not any("measured" in note for note in plain.notes)
    assert (plain.jobs == windowed.jobs).all()
    assert 0 < windowed.measured.sum() < 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warm_up": -1}, "workload.warm_up is -1; it must be at least 0 and less than num_jobs"),
        ({"warm_up": 10}, "workload.warm_up is 10; it must be at least 0 and less than num_jobs"),
        ({"measured": 0}, "workload.measured is 0; it must be null, or from 1 to num_jobs - warm_up"),
        ({"warm_up": 4, "measured": 7}, "workload.measured is 7; it must be null, or from 1 to num_jobs - warm_up"),
    ],
)
def test_impossible_windows(settings, message):
    with pytest.raises(TraceError, match=message):
        SyntheticSource(EIGHT, ZOO, num_jobs=10, **settings)
