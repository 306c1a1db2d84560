"""Metrics of single jobs, worked by hand on `three_jobs`."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.metrics import (
    average_contention,
    bounded_slowdowns,
    censored_completion_times,
    finish_time_fairness,
    jain_index,
    job_completion_times,
    slowdowns,
    times_to_start,
    waits,
)
from tests.unit.metrics.fabricated import Told, fabricated, three_jobs, told_log


@pytest.fixture
def unfinished():
    """One job that never started, one that runs at the end (t = 20), one that finished."""
    jobs = (Told(0, 4, 10), Told(5, 4, 30, [(6, {0: 4})]), Told(8, 2, 1, [(9, {1: 2})], 10))
    return fabricated(jobs, end=20)


def test_completion_is_finish_minus_submit():
    assert job_completion_times(three_jobs().records).tolist() == [10, 7, 11]


def test_an_unfinished_job_has_no_completion_time(unfinished):
    np.testing.assert_array_equal(job_completion_times(unfinished.records), [np.nan, np.nan, 2])


def test_censored_completion_cuts_at_the_end(unfinished):
    assert censored_completion_times(unfinished).tolist() == [20, 15, 2]


def test_a_wait_includes_the_time_after_a_preemption_and_the_time_to_start_does_not():
    """B is without GPUs from 3 to 4."""
    assert times_to_start(three_jobs().records).tolist() == [0, 0, 8]
    assert waits(three_jobs()).tolist() == [0, 1, 8]


def test_a_job_that_never_started_has_waited_until_the_end_and_has_no_time_to_start(unfinished):
    np.testing.assert_array_equal(times_to_start(unfinished.records), [np.nan, 1, 1])
    assert waits(unfinished).tolist() == [20, 1, 1]


def test_without_a_log_no_wait_is_known():
    assert np.isnan(waits(replace(three_jobs(), log=told_log([])))).all()


def test_slowdown_is_relative_to_running_alone():
    assert slowdowns(three_jobs().records) == pytest.approx([1, 7 / 5, 11 / 3])


def test_bounded_slowdown_spares_short_jobs():
    """Threshold 4: A 10/10, B 7/5, C 11/4."""
    assert bounded_slowdowns(three_jobs().records, threshold=4) == pytest.approx([1, 1.4, 2.75])


def test_bounded_slowdown_is_at_least_one():
    assert bounded_slowdowns(three_jobs().records, threshold=100).tolist() == [1, 1, 1]


@pytest.mark.parametrize("threshold", [0, -1, float("nan")])
def test_bounded_slowdown_needs_a_positive_threshold(threshold):
    with pytest.raises(ValueError, match="positive"):
        bounded_slowdowns(three_jobs().records, threshold)


def test_contention_worked_by_hand():
    """Jobs in the system: 1 until 1, 2 until 2, 3 until 8, 2 until 10, 1 until 13."""
    assert average_contention(three_jobs()) == pytest.approx([25 / 10, 20 / 7, 25 / 11])


def test_fairness_worked_by_hand():
    """Shares of 8 GPUs: A 3.2 for 4, so 12.5 s; B 2.8 for 2, so its ideal 5 s; C 3.52 for 8, so 75/11 s."""
    assert finish_time_fairness(three_jobs()) == pytest.approx([10 / 12.5, 7 / 5, 11 / (75 / 11)])


def test_a_job_alone_at_its_ideal_throughput_is_exactly_fair():
    assert finish_time_fairness(fabricated([Told(3, 4, 7, [(3, {0: 4})], 10)])) == pytest.approx([1])


def test_time_sharing_in_turns_is_exactly_fair():
    """Two jobs that use the whole cluster and take 10 s alone; both end at 20."""
    acts = [(0, {0: 4, 1: 4}), (10, None)]
    jobs = (Told(0, 8, 10, acts, 20), Told(0, 8, 10, [(10, {0: 4, 1: 4})], 20))
    assert finish_time_fairness(fabricated(jobs)) == pytest.approx([1, 1])


def test_an_unfinished_job_has_no_fairness_but_counts_as_contention(unfinished):
    rho = finish_time_fairness(unfinished)
    assert np.isnan(rho[:2]).all()
    assert average_contention(unfinished)[2] == pytest.approx(3)


def test_contention_of_a_job_submitted_at_the_end():
    """It counts as alone; there is no division by its zero time."""
    assert average_contention(fabricated([Told(0, 1, 1), Told(9, 1, 1)], end=9)).tolist() == [1, 1]


def test_jain_extremes():
    assert jain_index(np.array([3.0, 3.0, 3.0])) == pytest.approx(1)
    assert jain_index(np.array([0.0, 0.0, 5.0, 0.0])) == pytest.approx(1 / 4)
    assert jain_index(np.zeros(3)) == 1
    assert np.isnan(jain_index(np.array([])))


def test_jain_worked_by_hand():
    """(1 + 2 + 3)^2 / (3 * 14)."""
    assert jain_index(np.array([1.0, 2.0, 3.0])) == pytest.approx(36 / 42)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1e150), min_size=1, max_size=20), st.floats(1e-3, 1e3))
def test_jain_lies_between_one_over_n_and_one_and_has_no_unit(values, factor):
    index = jain_index(np.array(values))
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
    assert jain_index(np.array(values) * factor) == pytest.approx(index, rel=1e-6)


@st.composite
def histories(draw):
    """Jobs of 1 GPU on separate nodes, so that any of them may overlap."""
    jobs = []
    for node in range(draw(st.integers(1, 6))):
        submit, wait, work = (draw(st.integers(0, 20)), draw(st.integers(0, 5)), draw(st.integers(1, 20)))
        jobs.append(Told(submit, 1, work, [(submit + wait, {node: 1})], submit + wait + work))
    return fabricated(sorted(jobs, key=lambda job: job.submit), node_gpus=[1] * len(jobs))


@settings(deadline=None, max_examples=50)
@given(histories())
def test_contention_equals_a_count_by_second(result):
    records = result.records
    present = np.array([[r["submit_time"] <= t < r["finish_time"] for t in range(50)] for r in records])
    counted = [present.sum(axis=0)[row].mean() for row in present]
    assert average_contention(result) == pytest.approx(counted)


@settings(deadline=None, max_examples=50)
@given(histories())
def test_shifting_all_times_changes_no_metric_of_jobs(result):
    records = result.records
    moved = records.copy()
    for column in ("submit_time", "start_time", "finish_time"):
        moved[column] += 1000
    for metric in (job_completion_times, times_to_start, slowdowns, bounded_slowdowns):
        assert metric(moved) == pytest.approx(metric(records))
