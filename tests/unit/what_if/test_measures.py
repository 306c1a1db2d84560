"""Waits, hours and trust: figures worked by hand, and properties."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import ClusterSpec, Constraints, JobSpec, NodeSpec, constrain, name_of_nodes
from envs.workloads import Workload
from murmuration.what_if.hours import by_hour_of_day, grid_over, in_queue, in_use, means_over
from murmuration.what_if.played import Fates
from murmuration.what_if.trust import compare_with_record
from murmuration.what_if.waits import by_group, figures_of, paired_change, size_classes

HOUR = 3600.0
CLUSTER = ClusterSpec((NodeSpec(name_of_nodes("A100", ("day",)), 4),) * 2)


def fates(label, enter, start, end, gpus):
    enter, start, end = (np.array(each, np.float64) for each in (enter, start, end))
    return Fates(label, enter, start, end, start - enter, np.array(gpus, np.int64))


def workload(submit, gpus, tenants=None):
    model = constrain("any", Constraints(pools=("day",)))
    tenants = tenants or ["lab"] * len(submit)
    jobs = [
        JobSpec(job, time, size, 1.0, model, tenant=tenant)
        for job, (time, size, tenant) in enumerate(zip(submit, gpus, tenants, strict=True))
    ]
    return Workload.of(jobs)


def everyone(one):
    return np.ones(len(one.gpus), np.bool_)


def trust_in(recorded, replayed, jobs):
    return compare_with_record(recorded, replayed, jobs, CLUSTER, everyone(recorded))


def test_figures_of_waits_are_those_worked_by_hand():
    found = figures_of(
        fates("x", [0, 0, 0, 0], [0, 30, 90, 7200], [100, 130, 100, 10800], [1, 2, 1, 4]), np.ones(4, bool)
    )
    assert found["mean"] == (30 + 90 + 7200) / 4
    assert found["over a minute"] == 0.5
    assert found["over an hour"] == 0.25
    assert found["GPU-hours"] == pytest.approx((60 + 90 + 4 * 7200) / HOUR)
    assert found["slowdown"] == pytest.approx((1 + 1.3 + 10 + 3) / 4)


def test_a_job_that_never_started_is_in_no_figure():
    found = figures_of(fates("x", [0, 0], [10, np.nan], [20, np.nan], [1, 8]), np.ones(2, bool))
    assert found["jobs"] == 1
    assert found["mean"] == 10


def test_changes_are_ratios_on_the_same_jobs():
    old = fates("old", [0, 0, 0], [100, 200, 300], [400, 400, 400], [1, 1, 1])
    new = fates("new", [0, 0, 0], [50, 100, 150], [400, 400, 400], [1, 1, 1])
    found = paired_change(new, old, everyone(old))
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert np.isnan(paired_change(new, fates("none", [0] * 3, [0] * 3, [1] * 3, [1] * 3), everyone(old)).value)


def test_groups_have_their_own_means_and_the_smallest_are_the_others():
    each = fates("x", [0] * 4, [3600, 7200, 0, 3600], [9000] * 4, [1, 2, 1, 1])
    frame = by_group({"x": each}, ["a", "a", "b", "c"], everyone(each), most=1)
    assert frame["group"].tolist() == ["a", "others"]
    assert frame["x"].tolist() == [5400, 1800]
    assert frame["GPUs"].tolist() == [3, 2]


def test_every_size_has_a_class():
    assert size_classes([1, 2, 3, 4, 7, 8, 64, 900]) == [
        "1 GPU",
        "2 to 3 GPUs",
        "2 to 3 GPUs",
        "4 to 7 GPUs",
        "4 to 7 GPUs",
        "8 to 15 GPUs",
        "64 GPUs and more",
        "64 GPUs and more",
    ]


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50), st.integers(1, 8)), min_size=1, max_size=20),
    st.floats(0.5, 20),
)
def test_means_over_a_grid_integrate_to_the_intervals(intervals, step):
    begin = np.array([each[0] for each in intervals])
    end = begin + np.array([each[1] for each in intervals])
    weight = np.array([each[2] for each in intervals], np.float64)
    grid = grid_over(0.0, 150.0, step)
    means = means_over(grid, begin, end, weight)
    assert means.sum() * step == pytest.approx(((end - begin) * weight).sum(), abs=1e-6)
    inside = [(np.clip(end, t, t + step) - np.clip(begin, t, t + step)) @ weight / step for t in grid.times]
    assert means == pytest.approx(inside, abs=1e-6)


def test_use_and_queue_of_jobs_that_are_stopped_count_each_stay():
    once = fates("x", [0], [0], [30], [2])
    held = np.array([[0.0, 10.0, 2.0], [20.0, 30.0, 2.0]])
    stopped = replace(once, held=held, queued=np.array([[10.0, 20.0, 2.0]]), stops=1)
    grid = grid_over(0.0, 30.0, 10.0)
    assert in_use(grid, stopped).tolist() == [2, 0, 2]
    assert in_queue(grid, stopped).tolist() == [0, 2, 0]


def test_hours_of_the_day_begin_at_midnight():
    grid = grid_over(0.0, 48 * HOUR, HOUR)
    found = by_hour_of_day(grid, np.arange(48.0), midnight=-2 * HOUR)
    assert found[2] == np.mean([0, 24])
    assert found[0] == np.mean([22, 46])


def test_a_replay_that_repeats_the_record_is_trusted():
    jobs = workload([0, 0, 0], [4, 4, 4])
    same = fates("x", [0, 0, 0], [0, 0, 1800], [1800, 1800, 3600], [4, 4, 4])
    found = trust_in(same, same, jobs)
    assert (found.overlap, found.low, found.ratio, found.reasons) == (1, 1, 1, ())
    assert "agrees with the record" in found.verdict


def test_half_of_the_waits_is_an_overlap_of_two_thirds():
    jobs = workload([0, 0, 0], [4, 4, 4])
    recorded = fates("recorded", [0, 0, 0], [0, 0, 1800], [1800, 1800, 3600], [4, 4, 4])
    replayed = fates("slurm", [0, 0, 0], [0, 0, 900], [1800, 1800, 2700], [4, 4, 4])
    found = trust_in(recorded, replayed, jobs)
    assert found.overlap == pytest.approx(2 * 900 / (900 + 1800))
    assert found.ratio == 0.5
    assert "does not explain" in found.verdict


def test_a_window_without_starts_is_named():
    submit = [0, 600, 1200, 1800, 5 * HOUR]
    late = [4 * HOUR] * 3
    recorded = fates("recorded", submit, [0, *late, 5 * HOUR], [600, *np.add(late, HOUR), 6 * HOUR], [1] * 5)
    replayed = fates("slurm", submit, submit, np.array(submit) + HOUR, [1] * 5)
    (reason,) = trust_in(recorded, replayed, workload(submit, [1] * 5)).reasons
    assert "day: nothing started for 4.0 h from day 0, 00:00" in reason
    assert "maintenance" in reason


def test_nodes_that_were_down_show_as_gpus_that_are_never_used():
    submit = np.arange(40) * 300.0
    start = np.array([max(time, (number // 4) * 3600.0) for number, time in enumerate(submit)])  # four GPUs of eight
    recorded = fates("recorded", submit, start, start + 2700, [1] * 40)
    replayed = fates("slurm", submit, submit, submit + 2700, [1] * 40)
    reasons = trust_in(recorded, replayed, workload(submit, [1] * 40)).reasons
    assert any("at most about 4 of 8 GPUs were in use" in reason for reason in reasons)


def test_an_account_that_never_holds_more_is_said_to_have_a_quota():
    submit = np.arange(40) * 300.0
    tenants = ["small" if number % 2 else "large" for number in range(40)]
    start = submit.copy()
    start[1::2] = [900.0 + number // 2 * 1800.0 for number in range(20)]  # two at once
    recorded = fates("recorded", submit, start, start + 1800, [1] * 40)
    replayed = fates("slurm", submit, submit, submit + 1800, [1] * 40)
    reasons = trust_in(recorded, replayed, workload(submit, [1] * 40, tenants)).reasons
    assert any("small never held more than 2 GPUs" in reason for reason in reasons)


def test_a_quota_over_several_partitions_is_one_and_hides_no_outage():
    """The account holds four GPUs, two in each partition, while its jobs wait with room in both."""
    cluster = ClusterSpec(tuple(NodeSpec(name_of_nodes("A100", (pool,)), 8) for pool in ("day", "night")))
    models = [constrain("any", Constraints(pools=(pool,))) for pool in ("day", "night")]
    submit = np.arange(40) * 300.0
    start = np.array([max(time, 1200.0 + number // 4 * 3600.0) for number, time in enumerate(submit)])
    jobs = Workload.of(
        [JobSpec(n, submit[n // 2], 1, 1.0, models[n % 2], tenant="small" if n < 60 else "big") for n in range(80)]
    )
    starts = np.array([start[n // 2] for n in range(80)])
    recorded = fates("recorded", jobs.jobs["submit_time"], starts, starts + 3600, [1] * 80)
    replayed = fates(
        "slurm", jobs.jobs["submit_time"], jobs.jobs["submit_time"], jobs.jobs["submit_time"] + 1, [1] * 80
    )
    reasons = compare_with_record(recorded, replayed, jobs, cluster, everyone(recorded)).reasons
    assert any("small never held more than 8 GPUs" in reason for reason in reasons)


def test_fragmentation_is_not_blamed_on_the_cluster():
    """Two nodes with two free GPUs each have no room for a job of three on one node."""
    recorded = fates("recorded", [0, 0, 0], [0, 0, 3600], [3600, 3600, 7200], [2, 2, 3])
    replayed = fates("slurm", [0, 0, 0], [0, 0, 0], [3600, 3600, 3600], [2, 2, 3])
    assert trust_in(recorded, replayed, workload([0, 0, 0], [2, 2, 3])).reasons == ()
