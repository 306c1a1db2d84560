"""Growth, exchanges and shedding against their reference implementations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.sampling_matching.descent import (
    MOST_WORKERS_PER_STEP,
    NEGLIGIBLE_SAVING,
    descend,
    grow_by_marginal_gain,
    shed,
    start_least,
)
from baselines.sampling_matching.problem import compute_completion_seconds, objective, problem
from tests.unit.baselines.matching_worlds import (
    any_problem,
    descend_slowly,
    grow_slowly,
    paper_problem,
    shed_slowly,
    some_matching,
)

seeds = st.integers(0, 100_000)


def started(made):
    """Counts of least sizes, or None if impossible."""
    counts = np.zeros(made.present.shape, np.int64)
    return counts if start_least(made, counts) else None


@given(seeds)
def test_every_job_starts_with_its_least_size(seed):
    made = any_problem(seed)
    counts = started(made)
    if counts is not None:
        assert counts.sum(axis=1).tolist() == made.least.tolist()
        assert (counts.sum(axis=0) <= made.supply).all()
        assert np.isfinite(compute_completion_seconds(made, counts)).all()


def test_the_start_has_the_largest_product_of_throughputs():
    """9 x 2 = 18 against 8 x 3 = 24, though 9 + 2 and 8 + 3 are equal; job 0's unit does not matter."""
    for unit in (1.0, 1000.0):
        made = problem([[9 * unit, 8 * unit], [3.0, 2.0]], [1, 1])
        assert started(made).tolist() == [[0, 1], [1, 0]]


@given(seeds)
def test_growth_matches_the_reference_implementation(seed):
    made = any_problem(seed)
    counts = started(made)
    if counts is None:
        return
    slow = grow_slowly(made, counts, MOST_WORKERS_PER_STEP, NEGLIGIBLE_SAVING)
    grow_by_marginal_gain(made, counts)
    assert objective(made, counts) == pytest.approx(objective(made, slow))
    assert (counts.sum(axis=0) <= made.supply).all()
    assert (counts.sum(axis=1) <= made.most).all()


def test_growth_skips_sizes_that_do_not_help():
    """Two and three workers are no faster than one, but four are: steps of one worker would never reach four."""
    throughputs = np.array([1, 1, 1 / 2, 1 / 3, 1])[:, None]
    made = problem(throughputs[None, None], [100], supply=[4], may_idle=True)
    counts = np.array([[1]])
    grow_by_marginal_gain(made, counts)
    assert counts.tolist() == [[4]]


def test_all_workers_are_assigned_if_none_may_idle():
    """A third worker costs each job more than it saves; it still goes to the job that it harms least."""
    made = problem([[1.0], [1.0]], [10, 10], supply=[3], overhead=[[0, 0, 50, 50], [0, 0, 40, 40]])
    counts = np.array([[1], [1]])
    grow_by_marginal_gain(made, counts)
    assert counts.tolist() == [[1], [2]]
    counts = np.array([[1], [1]])
    grow_by_marginal_gain(made._replace(may_idle=True), counts)
    assert counts.tolist() == [[1], [1]]


@given(seeds)
def test_descent_matches_the_reference_implementation(seed):
    made = any_problem(seed)
    counts = started(made)
    if counts is None:
        return
    slow = descend_slowly(made, counts, NEGLIGIBLE_SAVING)
    before = objective(made, counts)
    made_exchanges = descend(made, counts, 1000)
    assert objective(made, counts) == pytest.approx(objective(made, slow))
    assert (counts >= 0).all()
    assert (counts.sum(axis=0) <= made.supply).all()
    assert objective(made, counts) <= before
    assert (made_exchanges == 0) == (objective(made, counts) == before)


@given(seeds, st.integers(2, 4), st.integers(5, 9))
def test_descent_on_single_workers(seed, jobs, workers):
    """The paper's model: every worker is its own type, and all are assigned before and after."""
    made = paper_problem(seed, jobs, workers, link_gb_s=1.25)
    counts = started(made)
    grow_by_marginal_gain(made, counts)
    slow = descend_slowly(made, counts, NEGLIGIBLE_SAVING)
    descend(made, counts, 1000)
    assert objective(made, counts) == pytest.approx(objective(made, slow))
    assert (counts.sum(axis=0) == 1).all()


def test_the_number_of_exchanges_can_be_limited():
    made = problem([[1.0, 9.0], [9.0, 1.0]], [9, 9])
    counts = np.array([[1, 0], [0, 1]])
    assert descend(made, counts, 0) == 0
    assert descend(made, counts, 5) == 1
    assert counts.tolist() == [[0, 1], [1, 0]]


@given(seeds, seeds, st.integers(0, 8))
def test_shedding_matches_the_reference_implementation(seed, other, need):
    made = any_problem(seed)
    counts = some_matching(made, other)
    able = np.isfinite(compute_completion_seconds(made, counts))
    counts[~able] = 0
    slow = shed_slowly(made, counts, need)
    assert shed(made, counts, need) == (slow is not None)
    if slow is not None:
        assert counts.tolist() == slow.tolist()
        assert made.supply.sum() - counts.sum() >= need


def test_shedding_shrinks_few_jobs_much_rather_than_many_a_little():
    """Two workers are needed; each job can spare two, and any change costs a restart of 5 s: one job gives both."""
    made = problem([[1.0], [1.0]], [12, 12], supply=[6], present=[[3], [3]], restart=[5, 5])
    counts = made.present.copy()
    assert shed(made, counts, 2)
    assert sorted(counts.ravel().tolist()) == [1, 3]
