"""Compositions: counted, ranked, unranked and drawn, compared with an explicit list."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.sampling_matching.categories import MOST_COMPILED, Categories, _draws_below
from envs.types import MurmurationError


@st.composite
def ranges(draw):
    """Ranges of up to five jobs and a total that may be out of reach."""
    least = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    most = [low + draw(st.integers(0, 4)) for low in least]
    return least, most, draw(st.integers(max(sum(least) - 1, 0), sum(most) + 1))


def listed(least, most, total):
    """All compositions in lexicographic order, by enumeration."""
    parts = product(*(range(low, high + 1) for low, high in zip(least, most, strict=True)))
    return [row for row in parts if sum(row) == total]


@given(ranges())
def test_numbers_and_categories_are_one_to_one(given_ranges):
    among, rows = Categories(*given_ranges), listed(*given_ranges)
    assert among.count == len(rows)
    assert [tuple(among.unrank(number).tolist()) for number in range(among.count)] == rows
    assert [among.rank(row) for row in rows] == list(range(len(rows)))
    assert [tuple(row) for row in among.all().tolist()] == rows


@given(ranges(), st.integers(0, 100), st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.7, 0.99]))
def test_draws_are_different_ordered_and_respect_skip(given_ranges, seed, samples, skip):
    among, rows = Categories(*given_ranges), listed(*given_ranges)
    drawn = [tuple(row) for row in among.draw(np.random.default_rng(seed), samples, skip).tolist()]
    first = min(int(skip * len(rows)), max(len(rows) - samples, 0))
    assert len(drawn) == min(samples, len(rows))
    numbers = [rows.index(row) for row in drawn]
    assert numbers == sorted(set(numbers))
    assert all(number >= first for number in numbers)


def test_categories_are_drawn_equally_often():
    """21 categories; 2,100 single draws give 100 each, and no count is off by more than five standard deviations."""
    among, rng = Categories([1] * 3, [6] * 3, 8), np.random.default_rng(0)
    numbers = [among.rank(among.draw(rng, 1)[0]) for _ in range(2100)]
    counts = np.bincount(numbers, minlength=21)
    assert among.count == 21
    assert np.abs(counts - 100).max() < 50


@pytest.mark.parametrize(("jobs", "workers"), [(4, 15), (5, 20), (6, 20), (7, 22)])
def test_the_count_is_a_binomial_coefficient(jobs, workers):
    assert Categories([1] * jobs, [workers] * jobs, workers).count == math.comb(workers - 1, jobs - 1)


def test_ranks_of_two_hundred_jobs_on_a_thousand_workers():
    """More categories than a machine word can count; the first and last in lexicographic order are known."""
    among = Categories([1] * 200, [1000] * 200, 1000)
    assert among.count == math.comb(999, 199)
    assert among.unrank(0).tolist() == [1] * 199 + [801]
    assert among.unrank(among.count - 1).tolist() == [801] + [1] * 199
    late = among.draw(np.random.default_rng(0), 3, skip=0.9)
    assert (late.sum(axis=1) == 1000).all()
    assert all(among.rank(row) >= 0.9 * among.count for row in late)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: Categories([1, 1], [2], 3), "least has 2 jobs and most 1"),
        (lambda: Categories([], [], 0), "give one range for each job"),
        (lambda: Categories([1, 1], [2, 2], 3).unrank(2), "category 2: does not exist; there are 2, numbered from 0"),
        (lambda: Categories([1, 1], [2, 2], 3).rank([1, 1]), "must be in their ranges and sum to 3"),
        (lambda: Categories([1, 1], [2, 2], 3).rank([0, 3]), "must be in their ranges and sum to 3"),
        (lambda: Categories([1] * 200, [1000] * 200, 1000).all(), "too many to list"),
    ],
)
def test_errors_have_one_line(ask, said):
    with pytest.raises(MurmurationError, match=said) as error:
        ask()
    assert "\n" not in str(error.value)


@given(seed=st.integers(0, 1000), bound=st.integers(1, 2**80), draws=st.integers(1, 40))
def test_numbers_drawn_at_once_are_those_drawn_one_after_the_other(seed, bound, draws):
    """The reference draws bytes for one number at a time, again while it is too large; both leave the same state."""
    one, all_ = np.random.default_rng(seed), np.random.default_rng(seed)
    bits = bound.bit_length()
    expected: list[int] = []
    found: list[int] = []
    while len(expected) < draws:
        number = int.from_bytes(one.bytes(-(-bits // 8)), "little") >> (-bits % 8)
        expected += [number] if number < bound else []
    while len(found) < draws:
        found += _draws_below(all_, bound, draws - len(found))
    assert found == expected
    assert one.random() == all_.random()


@given(ranges())
def test_compiled_categories_are_those_of_unrank(given_ranges):
    among = Categories(*given_ranges)
    expected = [among.unrank(number).tolist() for number in range(among.count)]
    assert among.unrank_all(range(among.count)).tolist() == expected


def test_numbers_too_large_for_compiled_code_are_unranked_one_by_one():
    categories = Categories(np.ones(60, np.int64), np.full(60, 40), 200)
    assert categories.count > MOST_COMPILED
    numbers = [0, 1, categories.count - 1]
    assert [categories.rank(row) for row in categories.unrank_all(numbers)] == numbers
