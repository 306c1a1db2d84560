"""Intervals: worked by hand, compared with SciPy, and tested for coverage."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.evaluation.statistics import (
    Estimate,
    MeanEstimator,
    block_bootstrap_means,
    block_length,
    log_t_interval,
    method_for,
    t_interval,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def autoregressive(n, phi, generator):
    """An AR(1) series of mean 0: consecutive values are similar, like those of jobs that share a queue."""
    noise = generator.normal(size=n + 100)
    series = np.zeros(n + 100)
    for i in range(1, n + 100):
        series[i] = phi * series[i - 1] + noise[i]
    return series[100:]


def test_t_interval_is_scipys():
    values = np.array([3.0, 5.0, 4.0, 8.0, 6.0])
    found = t_interval(values, 0.9)
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (found.value, found.low, found.high) == pytest.approx((5.2, expected.low, expected.high))


def test_t_interval_of_one_value_has_no_bounds():
    found = t_interval(np.array([4.0]))
    assert found.value == 4
    assert np.isnan([found.low, found.high]).all()


def test_t_interval_of_equal_values_is_a_point():
    found = t_interval(np.full(6, 2.5))
    assert (found.value, found.low, found.high) == (2.5, 2.5, 2.5)


def test_five_workloads_are_enough_for_t():
    assert method_for(4) == "moving-block bootstrap over jobs"
    assert method_for(5) == "t over workloads on a log scale"


def test_blocks_of_independent_values_are_short():
    lengths = [block_length(rng(seed).normal(size=1000)) for seed in range(20)]
    assert np.median(lengths) <= 5


@pytest.mark.parametrize(("phi", "best"), [(0.5, 17.5), (0.8, 39.0)])
def test_blocks_grow_with_correlation(phi, best):
    """For AR(1) G / g(0) is 2 phi / (1 - phi^2), so that the rule's optimum is (6 phi^2 n / (1 - phi^2)^2)^(1/3)."""
    lengths = [block_length(autoregressive(2000, phi, rng(seed))) for seed in range(20)]
    assert best == pytest.approx((6 * phi**2 * 2000 / (1 - phi**2) ** 2) ** (1 / 3), rel=0.01)
    assert np.median(lengths) == pytest.approx(best, rel=0.25)


@pytest.mark.parametrize("values", [np.array([1.0]), np.array([1.0, 2.0, 3.0]), np.full(50, 7.0), np.zeros(50)])
def test_short_and_constant_series_have_blocks_of_one(values):
    assert block_length(values) == 1


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80))
def test_there_are_always_blocks_to_choose_from(values):
    assert 1 <= block_length(np.array(values)) <= max(1, np.ceil(len(values) / 3))


def test_a_resample_consists_of_consecutive_values():
    """In the series 0..8 as a circle, the mean of every block of 3 is its middle value, or that of a wrapped block."""
    values = np.repeat([0.0, 30.0, 60.0], 30)[None, :]
    means = block_bootstrap_means(values, rng(), 500)
    assert means.shape == (500, 1)
    assert means.mean() == pytest.approx(30, abs=3)
    assert means.min() >= 0
    assert means.max() <= 60


def test_resampled_means_equal_sums_over_blocks():
    """Compare the cumulative sums with plain slices of the doubled series, for the same draws."""
    values = np.vstack([autoregressive(61, 0.7, rng(1)), rng(2).exponential(size=61)])
    means = block_bootstrap_means(values, rng(5), 20)
    length = max(block_length(series) for series in values)
    again, doubled = rng(5), np.hstack([values, values])
    assert length > 1
    for found in means:
        starts = again.integers(0, 61, -(-61 // length))
        expected = np.hstack([doubled[:, start : start + length] for start in starts]).mean(axis=1)
        assert found == pytest.approx(expected)


def test_intervals_of_correlated_jobs_contain_the_true_mean():
    """95 % intervals of an AR(1) mean: blocks cover it with about that frequency, single draws far less often."""
    hits = {"blocks": 0, "singles": 0}
    for seed in range(120):
        series = autoregressive(400, 0.7, rng(seed))
        found = MeanEstimator([series[None, :] + 10], rng(seed), resamples=200).mean(0)
        hits["blocks"] += found.low <= 10 <= found.high
        singles = series[rng(seed).integers(0, 400, (200, 400))].mean(axis=1)
        low, high = np.quantile(singles, [0.025, 0.975])
        hits["singles"] += low <= 0 <= high
    assert hits["blocks"] / 120 > 0.85
    assert hits["singles"] / 120 < 0.7


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_have_the_width_of_their_level(level):
    """For independent normal values: the normal quantile times 1 / sqrt(n) to either side, on average."""
    widths = []
    for seed in range(20):
        found = MeanEstimator([rng(seed).normal(size=(1, 900))], rng(seed), level, resamples=1000).mean(0)
        widths.append(found.high - found.low)
    expected = 2 * scipy.stats.norm.ppf((1 + level) / 2) / np.sqrt(900)
    assert np.mean(widths) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("num_workloads", [1, 3, 8])
def test_pairing_removes_the_variance_that_schedulers_share(num_workloads):
    """One scheduler takes exactly half as long for every job, so the ratio is certain although the means vary."""
    workloads = [rng(seed).exponential(100 * (seed + 1), size=(1, 50)) for seed in range(num_workloads)]
    estimator = MeanEstimator([np.vstack([w, w / 2]) for w in workloads], rng())
    ratio = estimator.ratio(1, 0)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.5, 0.5, 0.5))
    assert estimator.mean(0).low < estimator.mean(0).value < estimator.mean(0).high


def test_every_workload_has_the_same_weight():
    """Means 2 and 10, from 1 and 3 jobs; ratios 1/2 and 2."""
    estimator = MeanEstimator([np.array([[2.0], [1.0]]), np.array([[9.0, 10, 11], [18, 20, 22]])], rng())
    assert estimator.mean(0).value == 6
    assert estimator.ratio(1, 0).value == pytest.approx(1)


def test_t_over_workloads_worked_by_hand():
    """Means 1 to 5: 3 times or divided by exp(2.776 x sqrt(2.5 / 5) / 3)."""
    estimator = MeanEstimator([np.array([[float(i), float(i)]]) for i in range(1, 6)], rng())
    found = estimator.mean(0)
    factor = np.exp(2.7764451 * np.sqrt(0.5) / 3)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3 / factor, 3 * factor))


def test_an_interval_on_a_log_scale_stays_positive_where_the_plain_one_does_not():
    """Five windows of 1 and one of 13: mean 3, standard error 2, t = 2.5706 with 5 degrees of freedom."""
    values = np.array([1.0, 1, 1, 1, 1, 13])
    factor = np.exp(2.5705818 * 2 / 3)
    found = log_t_interval(values)
    assert t_interval(values).low < 0
    assert (found.value, found.low, found.high) == pytest.approx((3, 3 / factor, 3 * factor))


def test_an_interval_on_a_log_scale_of_nearly_equal_values_is_the_plain_one():
    values = 1000 + np.arange(6.0)
    found, plain = log_t_interval(values), t_interval(values)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), rel=1e-5)


def test_an_interval_on_a_log_scale_of_zeros_is_a_point_and_of_one_value_has_no_bounds():
    assert log_t_interval(np.zeros(6)) == Estimate(0.0, 0.0, 0.0)
    assert np.isnan([log_t_interval(np.array([4.0])).low, log_t_interval(np.array([4.0])).high]).all()
    with pytest.raises(ValueError, match="a value is -1"):
        log_t_interval(np.array([2.0, -1.0]))


@pytest.mark.parametrize(("sigma", "least"), [(0.3, 0.93), (1.0, 0.85)])
def test_intervals_of_six_heavy_tailed_windows_cover_more_often_on_a_log_scale(sigma, least):
    """Log-normal window means, whose true mean is exp(sigma^2 / 2); both methods fall short of 95 % for long tails."""
    draws = np.exp(sigma * rng(11).normal(size=(4000, 6)))
    true, hits = np.exp(sigma**2 / 2), {log_t_interval: 0, t_interval: 0}
    for values in draws:
        for method in hits:
            found = method(values)
            hits[method] += found.low <= true <= found.high
    assert hits[log_t_interval] / 4000 > least
    assert hits[log_t_interval] > hits[t_interval]


def test_exact_means_replace_those_of_rounded_values():
    values = [np.array([[1.0, 2.0], [4.0, 4.0]])] * 6
    exact = np.array([[1.25 + i, 4.0] for i in range(6)])
    found = MeanEstimator(values, rng(), means=exact)
    assert found.mean(0).value == exact[:, 0].mean()
    assert found.ratio(0, 1).value == pytest.approx(np.exp(np.log(exact[:, 0] / 4).mean()))


def test_without_compared_jobs_there_are_no_figures():
    estimator = MeanEstimator([np.zeros((2, 0))], rng())
    assert np.isnan([estimator.mean(0).value, estimator.ratio(1, 0).low]).all()


def test_workloads_without_jobs_are_left_out():
    full = np.array([[4.0, 6.0]])
    assert MeanEstimator([full, np.zeros((1, 0))], rng()).mean(0).value == 5


def test_a_mean_of_zero_has_no_ratio():
    estimator = MeanEstimator([np.zeros((2, 9))], rng())
    assert estimator.mean(0).value == 0
    assert np.isnan(estimator.ratio(1, 0).value)


def test_the_same_seed_gives_the_same_interval():
    values = [rng(3).exponential(size=(2, 40))]
    assert MeanEstimator(values, rng(1)).mean(0) == MeanEstimator(values, rng(1)).mean(0)
    assert MeanEstimator(values, rng(1)).mean(0) != MeanEstimator(values, rng(2)).mean(0)


@pytest.mark.parametrize(("level", "resamples", "said"), [(0, 9, "level"), (1, 9, "level"), (0.9, 0, "resamples")])
def test_impossible_settings_are_refused(level, resamples, said):
    with pytest.raises(ValueError, match=said):
        MeanEstimator([np.ones((1, 3))], rng(), level, resamples)
