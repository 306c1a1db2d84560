"""The compiled core of matching against its reference implementations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.sampling_matching.categories import Categories
from baselines.sampling_matching.kernels import (
    clear,
    expected_throughputs,
    match_categories,
    match_category,
    seconds,
    total,
    unfairness,
    valuation,
)
from baselines.sampling_matching.problem import compute_completion_seconds, objective, problem
from envs.metrics import jain_index
from tests.unit.baselines.matching_worlds import any_problem, match_category_slowly, paper_problem, some_matching

seeds = st.integers(0, 100_000)


def a_category(made, seed):
    """Sizes within the jobs' ranges that need at most the available workers."""
    among = Categories(
        made.least, made.most, int(np.random.default_rng(seed).integers(made.least.sum(), made.assigned + 1))
    )
    return among.draw(np.random.default_rng(seed), 1)[0]


@given(seeds, seeds)
def test_seconds_and_total_match_the_reference_implementation(seed, other):
    made = any_problem(seed)
    counts = some_matching(made, other)
    slow = compute_completion_seconds(made, counts)
    assert [seconds(made, job, counts) for job in range(made.num_jobs)] == pytest.approx(slow.tolist())
    assert total(made, counts) == pytest.approx(objective(made, counts))


def test_random_matchings_include_possible_and_impossible_ones():
    """Many of the random matchings can run, and many cannot."""
    finite = [np.isfinite(objective(any_problem(seed), some_matching(any_problem(seed), seed))) for seed in range(300)]
    assert 20 < sum(finite) < 280


@given(seeds, seeds, st.integers(1, 5), st.booleans())
def test_one_category_matches_the_reference_implementation(seed, other, solves, plain):
    made = any_problem(seed)
    sizes = a_category(made, other)
    counts = np.zeros(made.present.shape, np.int64)
    worth = match_category(made, sizes, solves, plain, counts)
    assert worth == pytest.approx(match_category_slowly(made, sizes, solves, plain))
    if np.isfinite(worth):
        assert objective(made, counts) == pytest.approx(worth)
        assert counts.sum(axis=1).tolist() == sizes.tolist()
        assert (counts.sum(axis=0) <= made.supply).all()


@given(seeds, st.sampled_from([0.0, 0.5]))
def test_many_categories_equal_single_ones(seed, fairness):
    made = any_problem(seed)
    rows = Categories(made.least, made.most, made.assigned).draw(np.random.default_rng(seed), 8)
    equal = np.random.default_rng(seed).uniform(1, 100, made.num_jobs)
    best = np.zeros(made.present.shape, np.int64)
    scores = match_categories(made, rows, 3, False, equal, fairness, best)
    for row, score in zip(rows, scores, strict=True):
        counts = np.zeros(made.present.shape, np.int64)
        worth = match_category(made, row, 3, False, counts)
        jain = jain_index(compute_completion_seconds(made, counts) / equal) if np.isfinite(worth) else 1.0
        assert score == pytest.approx(worth * (1 + fairness * (1 - jain)))
    if np.isfinite(scores).any():
        assert best.sum(axis=1).tolist() == rows[int(np.argmin(scores))].tolist()


@given(seeds)
def test_unfairness_is_one_minus_jains_index(seed):
    made, rng = paper_problem(seed, 3, 6), np.random.default_rng(seed)
    counts, equal = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]), rng.uniform(1, 9, 3)
    jain = jain_index(compute_completion_seconds(made, counts) / equal)
    assert unfairness(made, counts, equal) == pytest.approx(1 - jain)


def test_a_worker_is_worth_the_seconds_it_saves():
    """100 samples at 10 samples/s take 10 s; one sample/s more saves 10 - 100 / 11 = 0.909 s, to first order 1."""
    made = problem([[1.0, 3.0]], [100], supply=[20, 1], weight=[2])
    values = np.empty((1, 2))
    valuation(made, np.array([10]), np.array([10.0]), False, values)
    assert values.tolist() == [[2 * 1.0, 2 * 3.0]]
    valuation(made, np.array([10]), np.array([10.0]), True, values)
    assert values.tolist() == [[1.0, 3.0]]


def test_expected_throughputs_are_those_of_average_workers():
    """Job 0 cannot use the second type: 2 x 5. Job 1: 3 x (4 x 1 + 2 x 4) / 6."""
    made = problem([[5.0, 0.0], [1.0, 4.0]], [1, 1], supply=[4, 2])
    assert expected_throughputs(made, np.array([2, 3])).tolist() == [10, 6]


def test_valuation_by_savings_gives_the_heavy_job_the_fast_worker():
    """One worker each of 10 and 11 samples/s; the short job 0 is slightly faster than job 1 on the second."""
    made = problem([[10.0, 11.2], [10.0, 11.0]], [10, 1000])
    counts = np.zeros((2, 2), np.int64)
    assert match_category(made, np.array([1, 1]), 1, True, counts) == pytest.approx(10 / 11.2 + 100)
    assert match_category(made, np.array([1, 1]), 1, False, counts) == pytest.approx(1 + 1000 / 11)


def test_an_assignment_of_a_thousand_workers_of_three_types_clears():
    """Large supplies are moved in bulk; without competition welfare is the sum of the best values."""
    values = np.array([[3.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0]])
    counts, prices = np.zeros((3, 3), np.int64), np.zeros(3)
    supply = np.array([400, 300, 300])
    assert clear(values, supply, supply, counts, prices) == 3000
    assert counts.tolist() == np.diag(supply).tolist()
