"""Gavel's linear programs against reference implementations, closed forms and their constraints."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array

from baselines.gavel import shares as gavel_shares
from baselines.gavel.shares import (
    Sharing,
    maximise_least_throughput,
    maximise_total_throughput,
    minimise_finish_time_ratio,
    minimise_makespan,
    worst_ratio,
)
from baselines.parts.highs import solve_linear
from envs.types import FloatArray


@st.composite
def sharings(draw):
    """Up to 8 jobs of a few classes on up to 3 types; each job runs on some type."""
    num_types = draw(st.integers(1, 3))
    classes = draw(
        st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=num_types, max_size=num_types).filter(any),
            min_size=1,
            max_size=3,
        )
    )
    rows = draw(st.lists(st.sampled_from(range(len(classes))), min_size=1, max_size=8))
    gpus = np.array([draw(st.sampled_from([1, 2, 4])) for _ in rows])
    capacity = np.array([draw(st.integers(4, 9)) for _ in range(num_types)])
    return Sharing(np.array([classes[row] for row in rows]), gpus, capacity)


def check(sharing: Sharing, shares: FloatArray) -> None:
    """Check that shares are feasible."""
    assert shares.shape == sharing.throughput.shape
    assert (shares >= 0).all()
    assert (shares.sum(axis=1) <= 1 + 1e-6).all()
    assert (sharing.gpus @ shares <= sharing.capacity * (1 + 1e-6)).all()
    assert (shares[sharing.throughput == 0] == 0).all()


def level_slowly(sharing: Sharing, gain: FloatArray) -> float:
    """The largest least gain, by a dense program with a row for every job."""
    jobs, types = gain.shape
    rows, bounds = [], []
    for job in range(jobs):
        once = np.zeros((jobs, types))
        once[job] = 1.0
        least = np.zeros((jobs, types))
        least[job] = -gain[job]
        rows += [[*once.ravel(), 0.0], [*least.ravel(), 1.0]]
        bounds += [1.0, 0.0]
    for gpu_type in range(types):
        room = np.zeros((jobs, types))
        room[:, gpu_type] = sharing.gpus
        rows.append([*room.ravel(), 0.0])
        bounds.append(float(sharing.capacity[gpu_type]))
    found = linprog([0.0] * (jobs * types) + [-1.0], A_ub=rows, b_ub=bounds, method="highs")
    assert found.x is not None
    return float(found.x[-1])


@settings(max_examples=20)
@given(sharing=sharings())
def test_max_min_matches_the_reference_implementation(sharing):
    found = maximise_least_throughput(sharing)
    check(sharing, found.shares)
    gain = sharing.throughput * (sharing.gpus / sharing.proportional)[:, None]
    level = (gain * found.shares).sum(axis=1).min()
    assert level == pytest.approx(level_slowly(sharing, gain), rel=1e-5)
    assert (found.programs, found.failures) == (3, 0)


@settings(max_examples=20)
@given(sharing=sharings(), data=st.data())
def test_makespan_matches_the_reference_implementation(sharing, data):
    work = np.array([data.draw(st.floats(0.1, 1000.0)) for _ in range(sharing.num_jobs)])
    found = minimise_makespan(sharing, work)
    check(sharing, found.shares)
    level = (sharing.throughput * found.shares).sum(axis=1) / work
    assert level.min() == pytest.approx(level_slowly(sharing, sharing.throughput / work[:, None]), rel=1e-5)


@settings(max_examples=20)
@given(sharing=sharings())
def test_equal_jobs_have_equal_shares(sharing):
    shares = maximise_least_throughput(sharing).shares
    for one in range(sharing.num_jobs):
        for other in range(one):
            alike = (sharing.throughput[one] == sharing.throughput[other]).all()
            if alike and sharing.gpus[one] == sharing.gpus[other]:
                assert (shares[one] == shares[other]).all()


@settings(max_examples=20)
@given(sharing=sharings())
def test_total_throughput_is_at_least_that_of_fair_shares(sharing):
    gain = sharing.throughput / sharing.proportional[:, None]
    found = maximise_total_throughput(sharing)
    check(sharing, found.shares)
    assert (gain * found.shares).sum() >= (gain * maximise_least_throughput(sharing).shares).sum() * (1 - 1e-6)
    assert (gain * found.shares).sum() >= (gain * sharing.isolated).sum() * (1 - 1e-6)


@settings(max_examples=20)
@given(sharing=sharings(), data=st.data())
def test_finish_times_are_no_worse_than_with_equal_shares(sharing, data):
    def column(low: float, high: float) -> FloatArray:
        return np.array([data.draw(st.floats(low, high)) for _ in range(sharing.num_jobs)])

    work, waited, ahead = column(0.1, 100.0), column(0.0, 50.0), column(0.0, 50.0)
    deserved = ahead + work / (sharing.throughput * sharing.isolated).sum(axis=1)
    found = minimise_finish_time_ratio(sharing, work, waited, deserved)
    check(sharing, found.shares)
    assert found.failures == 0
    reached = worst_ratio(sharing.reach(found), work, waited, deserved)
    equal = (sharing.throughput * sharing.isolated).sum(axis=1)
    assert reached <= worst_ratio(equal, work, waited, deserved)
    # No shares reach a ratio that is 1 % smaller.
    spare = 0.99 * reached * deserved - waited
    assert (spare <= 0).any() or level_slowly(sharing, sharing.throughput * (spare / work)[:, None]) < 1.0


def test_finish_times_by_hand():
    """One GPU; A waited 40 s and has 20 s left, B arrived now with 20 s; both deserve 40 s.

    Ratios 1 + 0.5 / a and 0.5 / b with a + b = 1 are equal at 2 b^2 - 4 b + 1 = 0: b = 1 - sqrt(0.5).
    """
    sharing = Sharing(np.ones((2, 1)), np.array([1, 1]), np.array([1]))
    found = minimise_finish_time_ratio(sharing, np.array([20.0, 20.0]), np.array([40.0, 0.0]), np.array([40.0, 40.0]))
    assert found.shares[1, 0] == pytest.approx(1 - 0.5**0.5, abs=2e-3)


def test_two_types_by_hand():
    """Two jobs on one fast and one slow GPU; A is 4 times as fast on the fast one, B twice.

    With x of the fast GPU's time for A and 1 - x for B, over the proportional throughputs 2.5 and 1.5, the levels are
    (1 + 3 x) / 2.5 and (2 - x) / 1.5: equal at x = 0.5, both exactly 1.
    """
    sharing = Sharing(np.array([[4.0, 1.0], [2.0, 1.0]]), np.array([1, 1]), np.array([1, 1]))
    assert maximise_least_throughput(sharing).shares == pytest.approx(np.full((2, 2), 0.5), abs=1e-6)
    assert maximise_total_throughput(sharing).shares == pytest.approx(np.array([[1.0, 0.0], [0.0, 1.0]]), abs=1e-6)


def test_equal_shares_by_hand():
    """Three jobs on 8 GPUs: 8 / 3 GPUs each, so 2/3 of the time on 4 GPUs and all of it on 2 or 1."""
    sharing = Sharing(np.ones((3, 1)), np.array([4, 2, 1]), np.array([8]))
    assert sharing.isolated[:, 0] == pytest.approx([2 / 3, 1.0, 1.0])


@settings(max_examples=20)
@given(sharing=sharings(), seed=st.integers(0, 99), work=st.lists(st.sampled_from([1.0, 2.0]), min_size=8, max_size=8))
def test_shares_do_not_depend_on_which_optimum_a_solver_finds(sharing, seed, work):
    """A solver that sees columns and rows in another order, and throughputs with other last bits, finds the same."""
    rng = np.random.default_rng(seed)

    def other_solver(cost, rows, limits, *, iteration_limit):
        columns, lines = rng.permutation(len(cost)), rng.permutation(len(limits))
        found = np.empty(len(cost))
        found[columns] = solve_linear(cost[columns], csr_array(rows)[lines][:, columns], limits[lines])
        return found

    noise = 1 + rng.integers(-2, 3, sharing.throughput.shape) * 2.0**-52
    noisy = replace(sharing, throughput=sharing.throughput * noise)
    left = np.array(work[: sharing.num_jobs])
    objectives = (maximise_least_throughput, maximise_total_throughput, partial(minimise_makespan, work=left))
    ours = [objective(sharing).shares for objective in objectives]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gavel_shares, "solve_linear", other_solver)
        others = [objective(noisy).shares for objective in objectives]
    for one, other in zip(ours, others, strict=True):
        assert other == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize("fails", [1, 2])
def test_unsolved_programs_fall_back_to_equal_shares_and_are_counted(fails, monkeypatch):
    """The first or the second program of max-min is stopped by its time limit."""
    asked = []
    solve = solve_linear

    def stopped(*arguments, **settings):
        asked.append(arguments)
        return None if len(asked) == fails else solve(*arguments, **settings)

    monkeypatch.setattr(gavel_shares, "solve_linear", stopped)
    sharing = Sharing(np.array([[4.0, 1.0], [2.0, 1.0]]), np.array([1, 1]), np.array([1, 1]))
    found = maximise_least_throughput(sharing)
    assert (found.shares == sharing.isolated).all()
    assert (found.programs, found.failures) == (fails, 1)


def test_the_limit_of_iterations_reaches_the_solver(monkeypatch):
    limits = []

    def solver(cost, rows, most, *, iteration_limit):
        limits.append(iteration_limit)

    monkeypatch.setattr(gavel_shares, "solve_linear", solver)
    sharing = Sharing(np.ones((2, 1)), np.array([1, 1]), np.array([1]), iteration_limit=25)
    assert maximise_total_throughput(sharing).failures == 1
    assert limits == [25]


def test_a_program_over_the_limit_is_not_solved():
    """The program needs several simplex iterations; presolve alone does not solve it."""
    rng = np.random.default_rng(0)
    throughput = rng.uniform(1.0, 9.0, (40, 3))
    sharing = Sharing(throughput, rng.integers(1, 5, 40), np.array([20, 20, 20]), iteration_limit=1)
    assert maximise_least_throughput(sharing).failures == 1
    assert maximise_least_throughput(replace(sharing, iteration_limit=10_000)).failures == 0
