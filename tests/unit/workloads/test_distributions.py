"""Durations and arrivals: exact means, bounds, and the requested variability."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import lognorm

from envs.types import TraceError
from envs.workloads import AllAtOnce, Arrivals, LogNormal, MarkovModulated, Quantiles

DAILY = (*[0.5] * 12, *[1.5] * 12)


@given(median=st.floats(10, 1e5), sigma=st.floats(0.3, 2.5), seed=st.integers(0, 2**32 - 1))
def test_lognormal_stays_within_its_bounds_and_states_its_mean(median, sigma, seed):
    durations = LogNormal(median, sigma, low=median / 20, high=median * 50)
    drawn = durations.sample(np.random.default_rng(seed), 500)
    assert drawn.shape == (500,)
    assert drawn.min() >= durations.low
    assert drawn.max() <= durations.high
    density = lognorm(sigma, scale=median)
    mass = density.cdf(durations.high) - density.cdf(durations.low)
    # The integrand is smooth in logarithms, for any bounds.
    low, high = np.log(durations.low), np.log(durations.high)
    integral = quad(lambda x: np.exp(2 * x) * density.pdf(np.exp(x)), low, high, limit=200)[0] / mass
    assert durations.mean == pytest.approx(integral, rel=1e-5)


def test_lognormal_draws_have_the_right_mean_and_median():
    durations = LogNormal(1800.0, 1.3, low=120.0, high=86400.0)
    drawn = durations.sample(np.random.default_rng(1), 200_000)
    assert drawn.mean() == pytest.approx(durations.mean, rel=0.02)
    assert np.median(drawn) == pytest.approx(1800.0, rel=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {"median": 0.0, "sigma": 1.0},
        {"median": 10.0, "sigma": 0.0},
        {"median": 10.0, "sigma": float("nan")},
        {"median": 10.0, "sigma": 1.0, "low": 5.0, "high": 5.0},
        {"median": 10.0, "sigma": 1.0, "low": 0.0},
        {"median": 10.0, "sigma": 1.0, "high": float("inf")},
        {"median": 10.0, "sigma": 0.1, "low": 1e6, "high": 2e6},
    ],
)
def test_impossible_lognormals_are_refused(options):
    with pytest.raises(TraceError, match="durations"):
        LogNormal(**options)


def test_quantiles_by_hand():
    """Half of the jobs are log-uniform on [1, e], the other half take exactly e seconds."""
    durations = Quantiles((0.0, 0.5, 1.0), (1.0, np.e, np.e))
    assert durations.mean == pytest.approx(0.5 * (np.e - 1) + 0.5 * np.e)
    drawn = durations.sample(np.random.default_rng(0), 100_000)
    assert drawn.mean() == pytest.approx(durations.mean, rel=0.01)
    assert np.quantile(drawn, 0.25) == pytest.approx(np.exp(0.5), rel=0.02)
    assert drawn.max() == pytest.approx(np.e)


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=8), st.integers(0, 2**32 - 1))
def test_draws_have_the_given_quantiles(values, seed):
    values = sorted(values)
    durations = Quantiles(np.linspace(0, 1, len(values)).tolist(), values)
    assert values[0] * (1 - 1e-9) <= durations.mean <= values[-1] * (1 + 1e-9)
    drawn = durations.sample(np.random.default_rng(seed), 2000)
    middle = len(values) // 2
    share = (drawn <= values[middle] * (1 + 1e-9)).mean()
    assert share >= middle / (len(values) - 1) - 0.06


@pytest.mark.parametrize(
    ("levels", "seconds"),
    [
        ((0.0, 1.0), (1.0,)),
        ((0.0,), (1.0,)),
        ((0.1, 1.0), (1.0, 2.0)),
        ((0.0, 0.9), (1.0, 2.0)),
        ((0.0, 0.5, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0)),
        ((0.0, 1.0), (2.0, 1.0)),
        ((0.0, 1.0), (0.0, 1.0)),
        ((0.0, 1.0), (1.0, float("inf"))),
    ],
)
def test_impossible_quantiles_are_refused(levels, seconds):
    with pytest.raises(TraceError, match="durations"):
        Quantiles(levels, seconds)


@given(
    cv=st.floats(1.0, 4.0),
    burst=st.floats(0.0, 0.5),
    daily=st.sampled_from([(), DAILY]),
    size=st.integers(1, 300),
    seed=st.integers(0, 2**32 - 1),
)
def test_submissions_ascend_from_zero(cv, burst, daily, size, seed):
    if (cv**2 + 1) * (1 - burst) < 2:
        with pytest.raises(TraceError, match="with burst .* it must be at least"):
            Arrivals(cv, burst, daily)
        return
    times = Arrivals(cv, burst, daily).sample(np.random.default_rng(seed), size, 60.0)
    assert times.shape == (size,)
    assert times[0] == 0.0
    assert np.isfinite(times).all()
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize(("cv", "burst"), [(1.0, 0.0), (2.5, 0.0), (2.36, 0.057), (3.93, 0.162)])
def test_gaps_have_the_requested_mean_and_variability(cv, burst):
    gaps = np.diff(Arrivals(cv, burst).sample(np.random.default_rng(3), 400_000, 30.0))
    assert gaps.mean() == pytest.approx(30.0, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)
    assert (gaps == 0).mean() == pytest.approx(burst, abs=0.003)


def test_without_bursts_and_with_cv_one_arrivals_are_a_poisson_process():
    gaps = np.diff(Arrivals().sample(np.random.default_rng(4), 100_000, 1.0))
    # Memoryless: the share of gaps that outlast t is exp(-t).
    for t in (0.5, 1.0, 2.0, 4.0):
        assert (gaps > t).mean() == pytest.approx(np.exp(-t), abs=0.006)


def test_a_day_has_the_arrivals_of_its_hours():
    times = Arrivals(daily=DAILY).sample(np.random.default_rng(5), 200_000, 60.0)
    assert times[-1] / len(times) == pytest.approx(60.0, rel=0.02)
    # For any drawn phase, twelve successive hours have three times the jobs of the other twelve.
    by_hour = np.bincount((times // 3600 % 24).astype(int), minlength=24)
    halves = max(np.roll(by_hour, -shift)[:12].sum() for shift in range(24))
    assert halves / by_hour.sum() == pytest.approx(0.75, abs=0.02)


def test_a_night_without_any_jobs_is_possible():
    times = Arrivals(daily=(*[0.0] * 23, 1.0)).sample(np.random.default_rng(6), 5000, 60.0)
    busy = np.unique((times % 86400) // 600)
    assert len(busy) <= 7  # one hour of the day, in bins of ten minutes


@pytest.mark.parametrize(
    "options",
    [
        {"cv": 0.5},
        {"cv": float("inf")},
        {"burst": 1.0},
        {"burst": -0.1},
        {"cv": 1.0, "burst": 0.2},
        {"daily": (1.0,) * 23},
        {"daily": (0.0,) * 24},
        {"daily": (-1.0, *(1.0,) * 23)},
    ],
)
def test_impossible_arrivals_are_refused(options):
    with pytest.raises(TraceError, match="arrivals"):
        Arrivals(**options)


def test_a_markov_modulated_process_by_hand():
    """Busy a fifth of the time at four times the mean: a quarter of the mean elsewhere, and cv^2 = 1 + 4 = 5."""
    process = MarkovModulated(busy_share=0.2, intensity=4.0, busy_jobs=40.0)
    assert process.cv == pytest.approx(5**0.5)


@pytest.mark.parametrize(("share", "intensity", "jobs"), [(0.2, 4.0, 40.0), (0.5, 1.5, 10.0), (0.1, 10.0, 5.0)])
def test_a_markov_modulated_process_has_its_mean_variability_and_memory(share, intensity, jobs):
    process = MarkovModulated(share, intensity, jobs)
    gaps = np.diff(process.sample(np.random.default_rng(3), 400_000, 10.0))
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(10.0, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(process.cv, rel=0.05)
    assert process.cv > 1
    # Independent gaps would have a correlation of 0 +- 0.002. Where quiet periods are empty, no gap says where it is.
    if intensity * share < 1:
        assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] > 0.01


@pytest.mark.parametrize("seed", range(20))
def test_a_markov_modulated_process_begins_at_zero_and_ascends(seed):
    times = MarkovModulated().sample(np.random.default_rng(seed), 5, 1.0)
    assert times[0] == 0
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize(
    "options",
    [{"busy_share": 0.0}, {"busy_share": 1.0}, {"intensity": 1.0}, {"intensity": 5.1}, {"busy_jobs": 0.0}],
)
def test_impossible_markov_modulated_processes_are_refused(options):
    with pytest.raises(TraceError, match="arrivals: busy_"):
        MarkovModulated(**options)


def test_a_batch_is_there_at_the_beginning():
    assert AllAtOnce().sample(np.random.default_rng(0), 5, mean_gap=60.0).tolist() == [0.0] * 5
