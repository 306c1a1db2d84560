"""Figures that differ by rounding alone are equal, and a stated order breaks their ties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.ties import first_largest, least_first, less, merge_ties

BIT = 1 + 2**-52


@pytest.mark.parametrize(
    ("one", "other", "below"),
    [
        (1.0, 2.0, True),
        (2.0, 1.0, False),
        (1.0, BIT, False),
        (1e300, 1e300 * BIT, False),
        (-BIT, -1.0, False),
        (1.0, 1 + 1e-8, True),
        (-math.inf, -1e300, True),
        (1.0, math.inf, True),
        (math.inf, math.inf, False),
        (0.0, 1e-300, True),
    ],
)
def test_less_by_more_than_rounding(one, other, below):
    assert less(one, other) is below


def test_the_first_of_equal_figures_is_taken():
    assert first_largest(np.array([1.0, 3.0, 3.0 * BIT, 2.0])) == 1
    assert first_largest(np.array([-np.inf, -np.inf])) == 0
    assert least_first([3.0 * BIT, 3.0, 4.0], lambda value: value) == 3.0 * BIT
    assert least_first([("b", 1.0), ("a", BIT), ("c", 2.0)], lambda item: item[1], lambda item: item[0]) == ("a", BIT)


def test_figures_around_nothing_are_equal_within_the_stated_difference():
    values = np.array([[1e-12, -1e-12], [0.0, 5.0]])
    assert merge_ties(values, 1e-6).tolist() == [[-1e-12, -1e-12], [-1e-12, 5.0]]
    assert merge_ties(values).tolist() == values.tolist()


@given(
    values=st.lists(st.sampled_from([-np.inf, -3.0, 0.0, 1e-9, 1.0, 7.0, np.inf]), max_size=12),
    bits=st.lists(st.integers(-4, 4), min_size=12, max_size=12),
)
def test_sorting_does_not_see_the_last_bits(values, bits):
    exact = np.array(values, dtype=np.float64)
    noisy = exact * (1 + np.array(bits[: len(values)]) * 2.0**-52)
    order = np.argsort(merge_ties(noisy), kind="stable")
    assert order.tolist() == np.argsort(exact, kind="stable").tolist()
