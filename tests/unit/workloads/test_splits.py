"""Splits and windows in time."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import JobSpec, TraceError
from envs.workloads import Windows, Workload
from envs.workloads.splits import cut_by_days, cut_by_shares, demand_within

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
    windows = Windows(count=3).cut(workload, 0, len(workload), "w", 8)
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
    for window in Windows(count, warmup, measure, after).cut(workload, first, last, "w", 8):
        assert window.window == pytest.approx((warmup * DAY, (warmup + measure) * DAY))
        assert 1 <= len(window) <= last - first
        assert window.jobs["submit_time"][-1] < (warmup + measure + after) * DAY
        assert window.measured.any()


def test_a_split_shorter_than_a_window_is_refused():
    workload = hourly(1.0)
    with pytest.raises(TraceError, match=r"spans 1\.00 days, but a window takes 2\.00; shorten windows\.measure"):
        Windows(count=1).cut(workload, 0, len(workload), "w", 8)


def test_windows_without_measured_jobs_are_left_out():
    """Windows of two days begin on days 0, 3.5 and 7: in the measured span of the first there is a job; the second is
    empty, and the third has a job in its last half day alone."""
    workload = Workload.of([JobSpec(i, at * DAY, 1, 1.0, "a") for i, at in enumerate((0.0, 1.0, 9.0))], "gap")
    (window,) = Windows(count=3).cut(workload, 0, 3, "w", 8)
    assert window.name == "w-0"
    assert window.notes[-1] == "2 of 3 windows of w are left out: 2 with fewer than 1 measured jobs"
    with pytest.raises(
        TraceError, match="^workload w: all 2 windows are left out: 2 with fewer than 1 measured jobs; "
    ):
        Windows(count=2).cut(workload.slice(1, 3), 0, 2, "w", 8)


def two_tenants(days: float = 4.0) -> Workload:
    """A job of 1 GPU an hour by tenant a, and one of 4 GPUs every three hours by tenant b; each runs for four hours."""
    hours = [*((at, "a", 1) for at in range(int(days * 24))), *((at, "b", 4) for at in range(0, int(days * 24), 3))]
    workload = Workload.of([JobSpec(0, at * 3600.0, gpus, 1.0, "m", tenant=of) for at, of, gpus in hours], "two")
    workload.jobs["duration"] = 4 * 3600.0
    return workload


def test_windows_of_each_tenant_begin_together_a_day_apart():
    """Two days of each tenant from days 0 and 1 on; a third would begin on day 2 and end after the last submission."""
    workload = two_tenants()
    found = Windows(count=9, every=1.0).cut(workload, 0, len(workload), "w", 8, by_tenant=True)
    assert [window.name for window in found] == ["w-0-a", "w-0-b", "w-1-a", "w-1-b"]
    for window, tenant in zip(found, "abab", strict=True):
        assert {job.tenant for job in window} == {tenant}
        assert window.measured.sum() == (24 if tenant == "a" else 8)
        assert window.jobs["submit_time"][0] == 0.0
    assert len(Windows(count=1, every=1.0).cut(workload, 0, len(workload), "w", 8)) == 1


def test_demand_counts_jobs_until_the_window_ends():
    """Jobs of 10, 100 and 5 s on 2, 1 and 4 GPUs, submitted at 0, 10 and 18 s, in 20 s: 20 + 10 + 8 GPU-seconds."""
    workload = Workload.of([JobSpec(0, at, gpus, 1.0, "a") for at, gpus in ((0.0, 2), (10.0, 1), (18.0, 4))], "three")
    workload.jobs["duration"] = [10.0, 100.0, 5.0]
    assert demand_within(workload, 20.0, 4) == pytest.approx(38 / 80)
    workload.jobs["duration"][1] = np.nan
    with pytest.raises(TraceError, match="^workload three: job 1 has no run time, by which .* set windows.load=null$"):
        demand_within(workload, 20.0, 4)


def test_windows_with_too_few_jobs_or_another_load_are_left_out():
    """On 8 GPUs tenant a asks for half of the cluster, less what its last jobs would hold later; b for 2/3 of it."""
    workload = two_tenants()

    def kept(**options):
        return replace(Windows(count=9, every=1.0), **options).cut(workload, 0, len(workload), "w", 8, by_tenant=True)

    assert [window.name for window in kept(load=[0.45, 0.6])] == ["w-0-a", "w-1-a"]
    assert [window.name for window in kept(load=[0.6, 0.7])] == ["w-0-b", "w-1-b"]
    assert kept(load=[0.6, 0.7])[0].notes == ("2 of 4 windows of w are left out: 2 with a load outside [0.6, 0.7]",)
    assert [window.name for window in kept(min_jobs=9)] == ["w-0-a", "w-1-a"]
    why = "2 with fewer than 9 measured jobs, 2 with a load outside \\[2, 3\\]"
    with pytest.raises(TraceError, match=f"^workload w: all 4 windows are left out: {why}; change windows.measure"):
        kept(min_jobs=9, load=[2, 3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *((each, "windows: count") for each in ({"count": -1}, {"warmup": -1.0}, {"measure": 0.0}, {"after": -0.1})),
        ({"every": 0.0}, "windows.every is 0.0 days; it must be above 0"),
        ({"min_jobs": 0}, "windows.min_jobs is 0; it must be at least 1"),
        *(({"load": each}, "windows.load is .*; it must be") for each in ([0.4], [1.5, 0.4], [-1, 1], [np.nan, 1])),
    ],
)
def test_impossible_windows_are_refused(options, message):
    with pytest.raises(TraceError, match=message):
        Windows(**options)
