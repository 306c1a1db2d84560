"""Assignments at clearing prices: the kernel finds the largest value, and every job prefers what it gets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.sampling_matching.kernels import clear
from tests.unit.baselines.matching_worlds import assign_slowly


@st.composite
def assignments(draw):
    """Up to five jobs and four types, with or without ties and with or without unusable workers."""
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    num_types = int(rng.integers(1, 5))
    supply = rng.integers(1, 5, num_types)
    jobs = int(rng.integers(1, min(5, supply.sum()) + 1))
    sizes = rng.multinomial(int(rng.integers(0, supply.sum() - jobs + 1)), np.full(jobs, 1 / jobs)) + 1
    values = rng.uniform(0, 10, (jobs, num_types))
    if draw(st.booleans()):
        values = np.round(values / 3)
    if draw(st.booleans()):
        values[rng.random(values.shape) < 0.2] = -np.inf
    return values, sizes, supply


@given(assignments())
def test_the_kernel_clears_at_the_largest_value(problem):
    values, sizes, supply = problem
    counts, prices = np.zeros(values.shape, np.int64), np.zeros(len(supply))
    welfare = clear(values, sizes, supply, counts, prices)
    slow = assign_slowly(values, sizes, supply)
    if slow is None:
        assert welfare == -np.inf
        return
    assert welfare == pytest.approx((slow * np.where(slow > 0, values, 0.0)).sum(), rel=1e-9, abs=1e-9)
    assert (counts.sum(axis=1) == sizes).all()
    assert (prices >= 0).all()
    assert (prices[counts.sum(axis=0) < supply] == 0).all()
    gains = values - prices
    assert all(gains[job][row > 0].min() >= gains[job].max() - 1e-7 for job, row in enumerate(counts))
