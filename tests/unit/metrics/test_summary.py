"""The summary of a run: the jobs that count, and the counts next to the means."""

import dataclasses

import numpy as np
import pytest

from envs.metrics import Summary, finished_jobs, makespan, percentile, summarise
from envs.metrics.summary import mean
from tests.unit.metrics.fabricated import Told, fabricated, three_jobs, told_log


@pytest.fixture
def cut_off():
    """Four jobs: one before the window, one still running and one never started when the run ends at 30."""
    jobs = (
        Told(0, 1, 4, [(0, {0: 1})], 4),
        Told(10, 2, 5, [(12, {0: 2}), (14, None), (15, {0: 2})], 20),
        Told(12, 2, 50, [(13, {1: 2})]),
        Told(14, 4, 3),
    )
    return fabricated(jobs, end=30, window=(5.0, 100.0))


def test_all_figures_of_three_jobs():
    summary = summarise(three_jobs())
    assert (summary.num_measured, summary.num_unfinished, summary.num_compared) == (3, 0, 3)
    assert (summary.mean_jct, summary.p50_jct) == pytest.approx((28 / 3, 10))
    assert summary.p99_jct == pytest.approx(10.98)
    assert summary.mean_jct_censored == pytest.approx(28 / 3)
    assert (summary.makespan, summary.mean_wait, summary.mean_time_to_start) == pytest.approx((13, 3, 8 / 3))
    assert (summary.p99_wait, summary.p99_time_to_start) == pytest.approx((7.86, 7.84))
    assert summary.mean_slowdown == pytest.approx((1 + 1.4 + 11 / 3) / 3)
    assert summary.mean_bounded_slowdown == pytest.approx((1 + 1 + 1.1) / 3)
    assert summary.mean_fairness == pytest.approx((0.8 + 1.4 + 121 / 75) / 3)
    assert summary.worst_fairness == pytest.approx(121 / 75)
    shares = np.array([1 / 0.8, 1 / 1.4, 75 / 121])
    assert summary.jain_index == pytest.approx(shares.sum() ** 2 / (3 * (shares**2).sum()))
    assert (summary.utilisation, summary.fragmentation) == pytest.approx((76 / 104, 8 / 28))
    assert (summary.mean_jobs_in_system, summary.gpu_hours) == pytest.approx((28 / 13, 76 / 3600))
    assert (summary.preemptions, summary.restarts) == (1, 1)


def test_unfinished_jobs_are_counted_separately_from_means(cut_off):
    summary = summarise(cut_off)
    assert (summary.num_measured, summary.num_unfinished, summary.num_compared) == (3, 2, 1)
    assert summary.mean_jct == 10
    assert summary.mean_jct_censored == pytest.approx((10 + 18 + 16) / 3)


def test_makespan_is_cut_at_the_end(cut_off):
    assert makespan(cut_off) == 20  # from 10, the first measured submission, to the end


def test_jobs_outside_of_the_window_do_not_count(cut_off):
    assert finished_jobs(cut_off).tolist() == [1]


def test_means_are_over_the_compared_jobs():
    summary = summarise(three_jobs(), np.array([0, 2]))
    assert (summary.num_measured, summary.num_compared) == (3, 2)
    assert summary.mean_jct == 10.5
    assert (summary.mean_wait, summary.mean_time_to_start) == (4, 4)


def test_a_job_that_did_not_finish_cannot_be_compared(cut_off):
    with pytest.raises(ValueError, match="told on fabricated: job 2 is not measured and finished"):
        summarise(cut_off, np.array([1, 2]))


def test_a_run_in_which_nothing_finished_has_counts_and_no_means():
    summary = summarise(fabricated([Told(0, 1, 5)], end=10))
    assert (summary.num_measured, summary.num_unfinished, summary.num_compared) == (1, 1, 0)
    assert np.isnan([summary.mean_jct, summary.p99_jct, summary.mean_fairness, summary.jain_index]).all()
    assert (summary.mean_jct_censored, summary.utilisation, summary.gpu_hours) == (10, 0, 0)


def test_a_window_without_jobs_has_no_figures():
    summary = summarise(three_jobs(window=(50.0, 60.0)))
    assert (summary.num_measured, summary.preemptions) == (0, 0)
    assert np.isnan([summary.mean_jct, summary.makespan]).all()


def test_a_run_that_ended_before_the_first_submission_has_no_figures():
    whole = three_jobs()
    empty = dataclasses.replace(whole, records=whole.records[:0], log=told_log([]), end_time=0.0)
    summary = summarise(empty)
    assert (summary.num_measured, summary.num_unfinished, summary.gpu_hours) == (0, 0, 0)
    assert np.isnan([summary.mean_jct, summary.makespan, summary.utilisation, summary.fragmentation]).all()


def test_percentiles_are_interpolated_linearly():
    assert percentile(np.array([1.0, 2.0, 3.0, 4.0]), 50) == 2.5
    assert percentile(np.arange(101.0), 99) == 99
    assert np.isnan(percentile(np.array([]), 50))


def test_the_mean_of_no_values_is_nan():
    assert np.isnan(mean(np.array([])))


def test_every_figure_states_how_workloads_are_merged():
    ways = {column.metadata.get("over_workloads", "mean") for column in dataclasses.fields(Summary)}
    assert ways == {"sum", "max", "mean"}
