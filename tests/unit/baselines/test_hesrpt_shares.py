"""Shares by rank, whole GPUs, and the exponent of a curve."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.hesrpt import HeSrpt, scaling_exponent, shares, whole_shares
from envs.types import MurmurationError


@given(num_jobs=st.integers(1, 40), exponent=st.floats(0, 0.99))
def test_shares_fall_with_length_and_sum_to_one(num_jobs, exponent):
    found = shares(num_jobs, exponent)
    assert found.sum() == pytest.approx(1)
    assert (np.diff(found) <= 1e-12).all()
    assert (found >= 0).all()


def test_shares_by_hand():
    """p = 1/2, three jobs: (1/3)^2, (2/3)^2 - (1/3)^2, 1 - (2/3)^2 for the longest to the shortest."""
    assert shares(3, 0.5) == pytest.approx([5 / 9, 3 / 9, 1 / 9])
    assert shares(4, 0.0) == pytest.approx([0.25] * 4)
    assert shares(0, 0.5).tolist() == []


@given(seed=st.integers(0, 100_000), gpus=st.integers(0, 30))
def test_whole_shares_are_runnable_and_fit(seed, gpus):
    rng = np.random.default_rng(seed)
    throughputs = rng.integers(0, 3, (int(rng.integers(1, 8)), 9)).astype(float)
    throughputs[:, 0] = 0.0
    wanted = rng.dirichlet(np.ones(len(throughputs)))
    found = whole_shares(wanted, throughputs, gpus)
    assert found.sum() <= gpus
    assert all(size == 0 or throughputs[place, size] > 0 for place, size in enumerate(found))
    due = 0.0
    for place, size in enumerate(found):  # a job gets at most what is due to it and to those before it
        due += wanted[place] * gpus - size
        assert due >= -0.5 - 1e-9


def test_gpus_left_by_rounding_go_to_the_next_job():
    """Due 2.6, 2.6 and 2.8 of 8. The first rounds up to 3, the second, with 2.2, gets 2, the third 3."""
    all_sizes = np.ones((3, 9))
    all_sizes[:, 0] = 0.0
    assert whole_shares(np.array([0.325, 0.325, 0.35]), all_sizes, 8).tolist() == [3, 2, 3]


def test_a_range_limits_the_share():
    """The shortest takes at most 2 of its 6 GPUs, so the next has 2 + 4; a job that needs 8 gets none."""
    throughputs = np.zeros((3, 9))
    throughputs[0, 1:3] = throughputs[1, 1:] = throughputs[2, 8] = 1.0
    assert whole_shares(np.array([0.75, 0.25, 0.0]), throughputs, 8).tolist() == [2, 6, 0]


def test_gpus_that_slow_a_job_go_to_the_next():
    """The first job is fastest on 2 of its 6 GPUs."""
    throughputs = np.array([[0.0, 3, 5, 4, 3, 2, 1, 1, 1], [0.0, *range(1, 9)]])
    assert whole_shares(np.array([0.75, 0.25]), throughputs, 8).tolist() == [2, 6]


def test_exponents_of_curves():
    assert scaling_exponent(np.array([0.0, 1, 2, 4 * 2**-0.5, 1.0, 0.5])) == pytest.approx(math.log(8**0.5, 3))
    assert math.isnan(scaling_exponent(np.array([0.0, 3, 2, 1])))
    assert scaling_exponent(np.array([0.0, *np.sqrt(np.arange(1, 9))])) == pytest.approx(0.5)
    assert scaling_exponent(np.array([0.0, 0, 2, 3, 4])) == pytest.approx(1)
    assert math.isnan(scaling_exponent(np.array([0.0, 0, 0, 4])))


@pytest.mark.parametrize("exponent", [-0.1, 1.0, math.nan])
def test_invalid_exponents(exponent):
    with pytest.raises(MurmurationError, match=f"HeSrpt: exponent is {exponent}; it must be at least 0 and below 1"):
        HeSrpt(exponent)
