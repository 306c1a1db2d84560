"""Sharing out by value, against enumeration, against the paper's recurrence, and against its own bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.elastic_dp.optimizer import (
    best_shares,
    concave_hulls,
    fill_up,
    maximise,
    share_by_hulls,
    trace_back,
    worth_keeping,
)
from envs.types import FloatArray
from tests.unit.baselines.slow_dp import (
    fill_up_slowly,
    hull_slowly,
    hull_value,
    recurrence,
    sizes_of,
    try_everything,
)

CURVES = ("rough", "rising", "concave", "equal", "stairs")
seeds = st.integers(0, 100_000)
curves = st.sampled_from(CURVES)


def drawn_values(seed: int, curve: str, most_jobs: int = 4, most_gpus: int = 6) -> FloatArray:
    """Draw whole values, so that sums are exact and ties frequent; some sizes do not run."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, most_jobs + 1)), int(rng.integers(1, most_gpus + 1)) + 1
    values = rng.integers(0, 20, shape).astype(float)
    if curve == "rising":
        values.sort(axis=1)
    elif curve == "concave":
        values = np.cumsum(-np.sort(-values, axis=1), axis=1)
    elif curve == "equal":
        values[:] = np.sort(values[0])
    elif curve == "stairs":
        values = np.cumsum(values * (rng.random(shape) < 0.3), axis=1)
    values[rng.random(shape) < 0.15] = -np.inf
    values[:, 0] = -np.inf
    values[~np.isfinite(values).any(axis=1), 1] = 3.0
    return values


def least_sum(values: FloatArray) -> int:
    """Return the GPUs that the least sizes take together."""
    return sum(sizes_of(row)[0] for row in values)


@given(seed=seeds, curve=curves, spare=st.integers(0, 12), prune=st.booleans())
def test_no_other_shares_are_better(seed, curve, spare, prune):
    """On small instances: the same value as by enumeration, within the capacity, and at most the bound."""
    values = drawn_values(seed, curve)
    capacity = least_sum(values) + spare
    shares = best_shares(values, capacity, prune=prune)
    assert shares.value == try_everything(values, capacity)
    assert shares.sizes.sum() <= capacity
    assert shares.value == values[np.arange(len(values)), shares.sizes].sum()
    assert shares.value <= shares.bound * (1 + 1e-12)


@given(seed=seeds, curve=curves, spare=st.integers(0, 120))
def test_the_recurrence_gives_the_same(seed, curve, spare):
    """On larger instances: neither ruling sizes out nor proving by the bound changes the value."""
    values = drawn_values(seed, curve, most_jobs=15, most_gpus=12)
    capacity = least_sum(values) + spare
    assert best_shares(values, capacity).value == recurrence(values, capacity)
    assert best_shares(values, capacity, prune=False).value == recurrence(values, capacity)


@given(seed=seeds, spare=st.integers(0, 40))
def test_fractional_values(seed, spare):
    """Values that are no whole numbers: equal up to rounding."""
    rng = np.random.default_rng(seed)
    values = (
        rng.lognormal(0, 0.7, (10, 1)) * np.arange(9) ** rng.uniform(0.3, 1.0, (10, 1)) * rng.uniform(0.9, 1.1, (10, 9))
    )
    values[:, 0] = -np.inf
    capacity = least_sum(values) + spare
    shares = best_shares(values, capacity)
    np.testing.assert_allclose(shares.value, recurrence(values, capacity), rtol=1e-9)
    assert shares.value <= shares.bound * (1 + 1e-12)


@given(seed=seeds, spare=st.integers(0, 60))
def test_concave_values_need_no_program(seed, spare):
    """With falling gains the hull equals the values, and its shares are the best at any capacity."""
    rng = np.random.default_rng(seed)
    gains = -np.sort(-rng.integers(0, 20, (8, 9)), axis=1)
    values = np.concatenate([np.full((8, 1), -np.inf), np.cumsum(gains, axis=1).astype(float)], axis=1)
    shares = best_shares(values, 8 + spare)
    assert (shares.cells, shares.value) == (0, recurrence(values, 8 + spare))
    assert shares.value == pytest.approx(shares.bound)


def test_shares_by_hand():
    """A: 1, 1, 9 on 1, 2, 3 GPUs; B: 2, 4, 5. On 4 GPUs A 3 + B 1 = 11; the steepest step first gives the same.

    On 3 GPUs A cannot have 3; 1 + 4 is best, and the bound takes half of A's step of slope 4: 1 + 2 + 4 = 7.
    """
    values = np.array([[-np.inf, 1, 1, 9], [-np.inf, 2, 4, 5]])
    assert best_shares(values, 4).sizes.tolist() == [3, 1]
    three = best_shares(values, 3)
    assert (three.sizes.tolist(), three.value, three.bound) == ([1, 2], 5.0, 7.0)


def test_a_gpu_may_have_to_stay_idle():
    """All are worth 1 on 1 GPU; A 10 on 4, B and C 5 on 3. On 7 GPUs A 4, B 1, C 1 makes 12 and leaves one idle; A 1,
    B 3, C 3 makes 11. On 8 GPUs A 4, B 3, C 1 makes 16 and meets the bound.
    """
    values = np.full((3, 5), -np.inf)
    values[:, 1] = 1
    values[0, 4], values[1, 3], values[2, 3] = 10, 5, 5
    seven, eight = best_shares(values, 7), best_shares(values, 8)
    assert (seven.sizes.tolist(), seven.value, seven.bound) == ([4, 1, 1], 12.0, 14.0)
    assert (eight.sizes.tolist(), eight.value, eight.bound, eight.cells) == ([4, 3, 1], 16.0, 16.0, 0)


def test_the_program_beats_steepest_first():
    """A: 0, 6 on 1 and 3 GPUs (3 a GPU). B: 0, 8 on 1 and 4 GPUs (2.7 a GPU). 5 GPUs: A first makes 6, B makes 8."""
    values = np.full((2, 5), -np.inf)
    values[:, 1] = 0
    values[0, 3], values[1, 4] = 6, 8
    shares = best_shares(values, 5)
    assert (shares.sizes.tolist(), shares.value) == ([1, 4], 8.0)
    assert shares.cells > 0
    assert share_by_hulls(values, np.array([1, 1]), 5).sizes.tolist() == [3, 1]


def test_more_gpus_than_the_jobs_can_use():
    """GPUs that add no value stay idle."""
    values = np.array([[-np.inf, 3, 3, 2], [-np.inf, 1, 5, 5]])
    shares = best_shares(values, 100)
    assert (shares.sizes.tolist(), shares.bound) == ([1, 2], 8.0)


def test_without_jobs():
    shares = best_shares(np.zeros((0, 4)), 8)
    assert (shares.sizes.tolist(), shares.value, shares.bound) == ([], 0.0, 0.0)


def test_impossible_problems_are_refused():
    with pytest.raises(ValueError, match="job 1 has no size"):
        best_shares(np.array([[-np.inf, 1.0], [-np.inf, -np.inf]]), 4)
    with pytest.raises(ValueError, match="add up to 4 GPUs; there are 3"):
        best_shares(np.array([[-np.inf, -np.inf, 1.0], [-np.inf, -np.inf, 1.0]]), 3)


def test_arguments_are_not_changed():
    values = drawn_values(3, "rough")
    before = values.copy()
    best_shares(values, least_sum(values) + 3)
    np.testing.assert_array_equal(values, before)


@given(seed=seeds, curve=curves)
def test_hulls_are_the_steepest_ways_up(seed, curve):
    values = drawn_values(seed, curve, most_gpus=12)
    count, corners = concave_hulls(values, np.isfinite(values).argmax(axis=1))
    for job, row in enumerate(values):
        found = corners[job, : count[job]].tolist()
        assert found == hull_slowly(row)
        slopes = np.diff(row[found]) / np.diff(found)
        assert (slopes > 0).all()
        assert (np.diff(slopes) < 0).all()
        assert all(row[size] <= hull_value(row, size) + 1e-9 for size in sizes_of(row))


@given(seed=seeds, curve=curves, spare=st.integers(0, 12))
def test_the_bound_is_the_hulls_best(seed, curve, spare):
    """No division of the GPUs, in tenths, gives two jobs more value on their hulls; the price is not negative."""
    values = np.concatenate([drawn_values(seed, curve, 1), drawn_values(seed, curve, 1)])
    capacity = least_sum(values) + spare
    hulls = share_by_hulls(values, np.isfinite(values).argmax(axis=1), capacity)
    low, high = sizes_of(values[0])[0], capacity - sizes_of(values[1])[0]
    tenths = np.linspace(low, high, 10 * (high - low) + 1)
    reached = max(hull_value(values[0], part) + hull_value(values[1], capacity - part) for part in tenths)
    assert reached == pytest.approx(hulls.bound)
    assert hulls.price >= 0


@given(seed=seeds, curve=curves, spare=st.integers(0, 12))
def test_ruled_out_sizes_are_in_no_better_shares(seed, curve, spare):
    """Any shares with a ruled-out size have a smaller value than the known shares."""
    values = drawn_values(seed, curve, most_jobs=3)
    capacity = least_sum(values) + spare
    hulls = share_by_hulls(values, np.isfinite(values).argmax(axis=1), capacity)
    known = values[np.arange(len(values)), hulls.sizes].sum()
    keep = worth_keeping(values, hulls.sizes, hulls)
    for job, row in enumerate(values):
        assert keep[job, hulls.sizes[job]]
        for size in sizes_of(row):
            if not keep[job, size]:
                forced = values.copy()
                forced[job] = -np.inf
                forced[job, size] = row[size]
                if least_sum(forced) <= capacity:
                    assert try_everything(forced, capacity) < known


@given(seed=seeds, curve=curves, room=st.integers(0, 15))
def test_filling_up(seed, curve, room):
    values = drawn_values(seed, curve, most_jobs=6)
    least = np.isfinite(values).argmax(axis=1)
    sizes = least.copy()
    fill_up(values, sizes, room)
    assert sizes.tolist() == fill_up_slowly(values, least.tolist(), room)


@given(seed=seeds, curve=curves, spare=st.integers(0, 12))
def test_the_kernel_alone(seed, curve, spare):
    """Over lists of sizes, the kernel reaches the value of the recurrence, and tracing back finds its sizes."""
    values = drawn_values(seed, curve, most_jobs=8)
    capacity = least_sum(values) + spare
    options = [sizes_of(row) for row in values]
    first = np.cumsum([0] + [len(sizes) for sizes in options])
    size = np.array([size for sizes in options for size in sizes])
    value = np.array([values[job, size] for job, sizes in enumerate(options) for size in sizes])
    chosen, cells = maximise(size, value, first, capacity)
    assert values[np.arange(len(values)), chosen].sum() == recurrence(values, capacity)
    assert chosen.sum() <= capacity
    assert 0 < cells <= (len(values) + 1) * (capacity + 1)


def test_tracing_back_takes_the_fewest_gpus_and_the_smallest_sizes():
    """One job, 1 or 2 GPUs of equal worth: row 0 holds 0 GPUs, row 1 holds 1 and 2."""
    arrays = (np.array([1, 2]), np.array([5.0, 5.0]), np.array([0, 2]))
    best, start, low = np.array([0.0, 5.0, 5.0]), np.array([0, 1, 3]), np.array([0, 1])
    assert trace_back(*arrays, best, start, low).tolist() == [1]


def test_a_thousand_jobs_on_eight_thousand_gpus():
    """The size for which the project promises quick decisions; this checks that the value is at most the bound."""
    rng = np.random.default_rng(0)
    gpus = np.arange(65)
    curves = np.maximum.accumulate(gpus ** rng.uniform(0.4, 0.9, (25, 1)) * rng.uniform(0.9, 1.1, (25, 65)), axis=1)
    values = curves[rng.integers(0, 25, 1000)]
    values[:, 0] = -np.inf
    shares = best_shares(values, 8000)
    assert shares.sizes.sum() <= 8000
    assert 0 <= shares.bound - shares.value <= 1e-3 * shares.bound
