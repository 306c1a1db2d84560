"""Splits and windows in time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import JobSpec, TraceError
from envs.workloads import Windows, Workload
from envs.workloads.splits import cut_by_days, cut_by_shares

DAY = 86400.0
THIRDS = {"train": 0.5, "validation": 0.25, "test": 0.25}


def test_shares_by_hand():
    submit = np.arange(8.0)
    assert cut_by_shares("w", submit, THIRDS) == {"train": (0, 4, 0.0), "validation": (4, 6, 4.0), "test": (6, 8, 6.0)}


def test_a_burst_is_not_divided():
    submit = np.array([0.0, 1.0, 5.0, 5.0, 5.0, 5.0, 8.0, 9.0])
    cuts = cut_by_shares("w", submit, THIRDS)
    assert cuts == {"train": (0, 2, 0.0), "validation": (2, 6, 5.0), "test": (6, 8, 8.0)}


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=80),
    st.lists(st.floats(0.05, 1.0), min_size=1, max_size=4),
)
def test_splits_are_disjoint_in_time_and_in_order(seconds, weights):
    submit = np.sort(np.array(seconds, dtype=float))
    shares = {f"s{i}": weight / sum(weights) for i, weight in enumerate(weights)}
    edges = [round(sum(list(shares.values())[: i + 1]) * len(submit)) for i in range(len(shares))]
    firsts = [0, *(int(np.searchsorted(submit, submit[edge])) if edge < len(submit) else edge for edge in edges)]
    if any(a >= b for a, b in pairwise(firsts)):
        with pytest.raises(TraceError, match="has no job among"):
            cut_by_shares("w", submit, shares)
        return
    cuts = list(cut_by_shares("w", submit, shares).values())
    assert cuts[0][0] == 0
    assert cuts[-1][1] == len(submit)
    for (_, last, _), (first, _, start) in pairwise(cuts):
        assert last == first
        assert submit[last - 1] < start == submit[first]


@pytest.mark.parametrize("shares", [{}, {"a": 0.0}, {"a": 0.7, "b": 0.7}, {"a": -0.5, "b": 0.5}])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(TraceError, match="splits are"):
        cut_by_shares("w", np.arange(10.0), shares)


def test_days_by_hand():
    submit = np.array([0.0, 0.5, 1.0, 1.5, 2.5]) * DAY
    cuts = cut_by_days("w", submit, {"test": (1.0, 2.0), "train": (0.0, 1.0)})
    assert cuts == {"test": (2, 4, DAY), "train": (0, 2, 0.0)}


@pytest.mark.parametrize(
    ("days", "message"),
    [
        ({"a": (1.0, 1.0)}, "give"),
        ({"a": (-1.0, 1.0)}, "give"),
        ({"a": (0.0, 1.0, 2.0)}, "give"),
        ({"a": (0.0, 1.5), "b": (1.0, 2.0)}, "splits 'a' and 'b' share days"),
        ({"a": (7.0, 8.0)}, "has no job; its jobs end on day 2.5"),
    ],
)
def test_impossible_days_are_refused(days, message):
    with pytest.raises(TraceError, match=message):
        cut_by_days("w", np.array([0.0, 2.5]) * DAY, days)


def hourly(days: float) -> Workload:
    return Workload.of([JobSpec(i, i * 3600.0, 1, 1.0, "a") for i in range(int(days * 24) + 1)], "hourly")


def test_windows_by_hand():
    """Ten days, an hour apart; windows of half a day + one day + half a day at the start, the middle and the end."""
    workload = hourly(10.0)
    windows = Windows(count=3).cut(workload, 0, len(workload), "w")
    assert [window.name for window in windows] == ["w-0", "w-1", "w-2"]
    for window in windows:
        assert window.window == (0.5 * DAY, 1.5 * DAY)
        assert window.measured.sum() == 24
        assert window.jobs["submit_time"][0] == 0.0
        assert window.jobs["submit_time"][-1] == 2 * DAY - 3600
        assert len(window) == 48


@given(count=st.integers(1, 5), warmup=st.floats(0, 1), measure=st.floats(0.1, 1), after=st.floats(0, 1))
def test_windows_are_within_their_split(count, warmup, measure, after):
    workload = hourly(6.0)
    first, last = 24, 24 * 5
    for window in Windows(count, warmup, measure, after).cut(workload, first, last, "w"):
        assert window.window == pytest.approx((warmup * DAY, (warmup + measure) * DAY))
        assert 1 <= len(window) <= last - first
        assert window.jobs["submit_time"][-1] < (warmup + measure + after) * DAY
        assert window.measured.any()


def test_a_split_shorter_than_a_window_is_refused():
    workload = hourly(1.0)
    with pytest.raises(TraceError, match=r"spans 1\.00 days, but a window takes 2\.00; shorten windows\.measure"):
        Windows(count=1).cut(workload, 0, len(workload), "w")


def test_windows_without_measured_jobs_are_left_out():
    """Windows of two days begin on days 0, 3.5 and 7: in the measured span of the first there is a job; the second is
    empty, and the third has a job in its last half day alone."""
    workload = Workload.of([JobSpec(i, at * DAY, 1, 1.0, "a") for i, at in enumerate((0.0, 1.0, 9.0))], "gap")
    (window,) = Windows(count=3).cut(workload, 0, 3, "w")
    assert window.name == "w-0"
    assert window.notes[-1] == "2 of 3 windows of w have no measured job and are left out"
    with pytest.raises(TraceError, match="^workload w: no job is submitted in the measured span of any window"):
        Windows(count=2).cut(workload.slice(1, 3), 0, 2, "w")


@pytest.mark.parametrize("options", [{"count": -1}, {"warmup": -1.0}, {"measure": 0.0}, {"after": -0.1}])
def test_impossible_windows_are_refused(options):
    with pytest.raises(TraceError, match="windows: count"):
        Windows(**options)
