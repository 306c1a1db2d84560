"""Whole shares of a mini-batch: exact min-max against brute force, never slower than equal shares."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.types import PerformanceError
from papers.sampling_matching.whole_samples import proportional_shares, step_seconds

throughputs = st.lists(st.integers(1, 50), min_size=1, max_size=6)
small_throughputs = st.lists(st.integers(1, 12), min_size=1, max_size=4)


def last(shares, zoo_throughputs):
    """When the last worker finishes, exactly."""
    return max(Fraction(int(share), checked) for share, checked in zip(shares, zoo_throughputs, strict=True))


def equal_shares(zoo_throughputs, batch):
    """Shares that differ by at most one sample, the surplus at the fastest workers."""
    fastest = np.argsort(-np.asarray(zoo_throughputs), kind="stable")[: batch % len(zoo_throughputs)]
    return np.bincount(fastest, minlength=len(zoo_throughputs)) + batch // len(zoo_throughputs)


def brute_force(zoo_throughputs, batch):
    options = product(range(batch + 1), repeat=len(zoo_throughputs))
    return min(last(shares, zoo_throughputs) for shares in options if sum(shares) == batch)


@given(small_throughputs, st.integers(0, 10))
def test_no_shares_finish_earlier(zoo_throughputs, batch):
    assert last(proportional_shares(zoo_throughputs, batch), zoo_throughputs) == brute_force(zoo_throughputs, batch)


@given(throughputs, st.integers(0, 10_000))
def test_every_sample_is_given_once(zoo_throughputs, batch):
    shares = proportional_shares(zoo_throughputs, batch)
    assert shares.sum() == batch
    assert (shares >= 0).all()
    assert shares.dtype == np.int64


@given(throughputs, st.integers(1, 10_000))
def test_proportional_is_never_slower_than_equal(zoo_throughputs, batch):
    assert last(proportional_shares(zoo_throughputs, batch), zoo_throughputs) <= last(
        equal_shares(zoo_throughputs, batch), zoo_throughputs
    )


def test_rounding_to_nearest_can_lose_to_equal_shares():
    """Rates 10, 9, 9 and 4 samples: quotas 1.43, 1.29, 1.29 round to 1, 1, 1 and one is left over; it must go to 10."""
    shares = proportional_shares([10, 9, 9], 4)
    assert shares.tolist() == [2, 1, 1]
    careless = [1, 1, 2]
    assert last(shares, [10, 9, 9]) < last(careless, [10, 9, 9])


def test_a_slow_worker_may_be_better_off_without_a_sample():
    assert proportional_shares([100, 1], 3).tolist() == [3, 0]
    assert equal_shares([100, 1], 3).tolist() == [2, 1]


def test_equal_workers_get_equal_shares_and_ties_go_to_the_first():
    assert proportional_shares([5, 5, 5], 9).tolist() == [3, 3, 3]
    assert proportional_shares([5, 5, 5], 10).tolist() == [4, 3, 3]


@pytest.mark.parametrize("scale", [1e-9, 0.1, 1 / 3, 1e9])
def test_exact_quotas_stay_exact_whatever_the_unit(scale):
    """Shares 1 : 2 : 3 of 600 are whole; floating-point quotients must not disturb them."""
    assert proportional_shares(np.array([1, 2, 3]) * scale, 600).tolist() == [100, 200, 300]


@given(throughputs, st.integers(1, 500))
def test_the_real_valued_bound_holds_within_one_sample_of_the_slowest(zoo_throughputs, batch):
    """The largest finishing time lies between this bound and one sample of the slowest worker above it."""
    bound = Fraction(batch, sum(zoo_throughputs))
    assert (
        bound
        <= last(proportional_shares(zoo_throughputs, batch), zoo_throughputs)
        <= bound + Fraction(1, min(zoo_throughputs))
    )


@given(throughputs, st.integers(1, 500), st.integers(1, 50))
def test_one_worker_more_never_delays_computation(zoo_throughputs, batch, newcomer):
    assert last(proportional_shares([*zoo_throughputs, newcomer], batch), [*zoo_throughputs, newcomer]) <= last(
        proportional_shares(zoo_throughputs, batch), zoo_throughputs
    )


def test_a_step_by_hand():
    """Rates 3 and 1, 8 samples: 6 and 2, two seconds."""
    assert step_seconds([3, 1], 8) == pytest.approx(2.0)


@given(throughputs, st.integers(1, 10_000))
def test_a_step_ends_with_the_last_share(zoo_throughputs, batch):
    assert step_seconds(zoo_throughputs, batch) == pytest.approx(
        float(last(proportional_shares(zoo_throughputs, batch), zoo_throughputs))
    )


@given(throughputs, st.integers(1, 1000), st.randoms())
def test_the_order_of_workers_does_not_matter(zoo_throughputs, batch, random):
    """Ties may give the odd sample to another worker; the step takes as long."""
    shuffled = random.sample(zoo_throughputs, len(zoo_throughputs))
    assert step_seconds(shuffled, batch) == pytest.approx(step_seconds(zoo_throughputs, batch))


@given(throughputs, st.integers(1, 1000), st.integers(1, 9))
def test_workers_twice_as_fast_take_half_as_long(zoo_throughputs, batch, factor):
    faster = [factor * checked for checked in zoo_throughputs]
    assert step_seconds(faster, batch) == pytest.approx(step_seconds(zoo_throughputs, batch) / factor)


@given(st.integers(1, 50), st.integers(1, 8), st.integers(1, 1000))
def test_equal_workers_take_the_rounded_up_share(throughput, workers, batch):
    assert step_seconds([throughput] * workers, batch) == pytest.approx(-(-batch // workers) / throughput)


def test_no_samples_take_no_time():
    assert step_seconds([3, 1], 0) == 0


@pytest.mark.parametrize(
    ("zoo_throughputs", "batch", "message"),
    [
        ([], 4, "at least one worker"),
        ([[1, 2]], 4, "one throughput for each"),
        ([1, 0], 4, "worker 1: throughput is 0.0"),
        ([1, np.nan], 4, "worker 1: throughput is nan"),
        ([np.inf], 4, "worker 0: throughput is inf"),
        ([1], -1, "batch_size is -1"),
    ],
)
def test_nonsense_is_refused(zoo_throughputs, batch, message):
    with pytest.raises(PerformanceError, match=message):
        proportional_shares(zoo_throughputs, batch)
    with pytest.raises(PerformanceError, match=message):
        step_seconds(zoo_throughputs, batch)
