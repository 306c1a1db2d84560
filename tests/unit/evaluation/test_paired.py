"""Paired differences: worked by hand, and the number of pairs against simulation."""

import numpy as np
import pytest
import scipy.stats

from envs.evaluation.paired import PairedDifference, paired_ratio


def test_a_difference_is_that_of_logarithms():
    found = PairedDifference.of(np.exp([0.01, 0.03, 0.05]))
    expected = scipy.stats.ttest_1samp([0.01, 0.03, 0.05], 0).confidence_interval(0.95)
    assert (found.pairs, found.mean.value, found.deviation) == pytest.approx((3, 0.03, 0.02))
    assert (found.mean.low, found.mean.high) == pytest.approx((expected.low, expected.high))
    assert found.error == pytest.approx(0.02 / 3**0.5)
    assert found.pairs_for_error(0.0051) == 16  # (0.02 / 0.0051)^2 = 15.4
    assert found.pairs_to_see(0.02) == 8  # ((1.96 + 0.84) * 0.02 / 0.02)^2 = 7.85


def test_one_pair_has_no_error_and_equal_pairs_need_one():
    one, equal = PairedDifference.of(np.array([1.1])), PairedDifference.of(np.array([1.1, 1.1]))
    assert np.isnan([one.error, one.pairs_for_error(0.02), one.pairs_to_see(0.02), one.mean.low]).all()
    assert (equal.error, equal.pairs_for_error(0.02)) == (0.0, 1)


def test_as_many_pairs_as_are_named_show_the_difference_in_80_percent():
    rng = np.random.default_rng(0)
    pairs = int(PairedDifference(2, PairedDifference.of(np.ones(2)).mean, 0.08).pairs_to_see(0.02))
    found = [PairedDifference.of(np.exp(rng.normal(0.02, 0.08, pairs))).mean for _ in range(2000)]
    assert np.mean([each.low > 0 for each in found]) == pytest.approx(0.8, abs=0.03)


def test_what_seeds_and_workloads_share_cancels():
    rng = np.random.default_rng(0)
    reference = rng.lognormal(8.0, 1.0, (4, 6))
    found = paired_ratio(0.9 * reference, reference)
    assert (found.value, found.low, found.high) == pytest.approx((0.9, 0.9, 0.9))
    worse = reference.copy()
    worse[0, 0] *= 100  # an outlier, which the interquartile mean leaves out
    assert paired_ratio(worse, reference).value == 1.0
