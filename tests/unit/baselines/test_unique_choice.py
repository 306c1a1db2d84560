"""The best choice without a solver: equal to enumeration and to HiGHS, and refused where another is as good."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts import choosing
from baselines.parts.choosing import Solver
from baselines.parts.options import Options
from baselines.parts.unique_choice import LEAST_GAP, MARGIN, unique_choice
from tests.unit.baselines.test_choosing import fits, problems, two_jobs
from tests.unit.baselines.test_prices import crowd

GAP = 1e-6


def all_savings(options: Options, capacity: np.ndarray) -> list[tuple[float, tuple[int, ...]]]:
    """List all choices that fit with what they save, best first."""
    mine = [[-1, *np.flatnonzero(options.job == job).tolist()] for job in range(len(options.idle))]
    found = [chosen for chosen in product(*mine) if fits(options, chosen, capacity)]
    return sorted(((options.saved(np.array(chosen)), chosen) for chosen in found), reverse=True)


@given(problem=problems())
def test_the_choice_is_the_best_one_and_is_known_exactly_where_it_is_ahead(problem):
    options, capacity = problem
    found = unique_choice(options, capacity, GAP)
    (best, chosen), *others = all_savings(options, capacity)
    scale = float(np.abs(options.saving).max(initial=0.0))
    if not scale:
        assert found is None
        return
    ahead = (best - others[0][0]) / scale if others else np.inf
    margin = MARGIN * LEAST_GAP * max(best / scale, 1.0)
    assert ahead > 0.99 * margin if found is not None else ahead < 2 * margin
    assert found is None or tuple(found.tolist()) == chosen


@given(seed=st.integers(0, 10_000), num_jobs=st.integers(1, 30), alike=st.booleans())
def test_it_agrees_with_the_solver(seed, num_jobs, alike):
    rng = np.random.default_rng(seed)
    capacity = rng.integers(0, 20, 3)
    options = crowd(seed, num_jobs, capacity, alike=alike)
    options = options.only(rng.permutation(len(options.job)))  # options in no order
    found = unique_choice(options, capacity, GAP)
    solved = Solver("test", expect_ties=True).choose(options, capacity)
    if found is not None and solved.solved:
        np.testing.assert_array_equal(found, solved.chosen)


def test_most_programs_of_unequal_jobs_are_decided_without_a_solver():
    capacity = np.array([24, 24, 16])
    found = [unique_choice(crowd(seed, 40, capacity, alike=False), capacity, GAP) for seed in range(20)]
    assert sum(each is not None for each in found) >= 12


def test_equal_jobs_are_left_to_the_solver():
    same = Options(np.arange(2), np.zeros(2, np.int64), np.ones(2, np.int64), np.zeros(2), np.ones(2))
    assert unique_choice(same, np.array([1]), GAP) is None
    np.testing.assert_array_equal(unique_choice(same, np.array([2]), GAP), [0, 1])


def test_a_choice_that_is_ahead_by_less_than_the_gap_is_left_to_the_solver():
    np.testing.assert_array_equal(unique_choice(two_jobs(), np.array([1]), GAP), [-1, 1])
    assert unique_choice(two_jobs(), np.array([1]), 0.06) is None  # 10 x 6 % of what is saved; it is ahead by half


@pytest.mark.parametrize("cost", [0.0, np.inf, np.nan])
def test_programs_without_savings_or_with_endless_costs_are_left_to_the_solver(cost):
    options = Options(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64), np.array([cost]), np.zeros(1))
    assert unique_choice(options, np.array([1]), GAP) is None


def test_a_program_that_is_too_large_is_left_to_the_solver():
    """A thousand jobs for 3,000 GPUs of three types: no state of the dynamic program fits into the limit of work."""
    capacity = np.array([1000, 1000, 1000])
    assert unique_choice(crowd(0, 1000, capacity, alike=True), capacity, GAP) is None


def test_the_solver_uses_it(monkeypatch):
    monkeypatch.setattr(choosing, "_program", None)
    found = Solver("test").choose(two_jobs(), np.array([1]))
    assert (found.chosen.tolist(), found.solved, found.gap) == ([-1, 1], True, 0.0)
