"""Reduction of large programs: bounds hold, choices fit, and the optimum is kept."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from baselines.parts import choosing, prices
from baselines.parts.choosing import SizeChoice, Solver
from baselines.parts.options import Options, greedy
from baselines.parts.prices import (
    BestPrices,
    best_prices,
    bound_at,
    improve_choice,
    reduce_program,
    remove_overcommitment,
    round_choice,
    useful_options,
)
from envs.types import FloatArray, IntArray
from tests.unit.baselines.test_choosing import fits, problems


def crowd(seed: int, num_jobs: int, capacity: IntArray, *, alike: bool) -> Options:
    """Create jobs that may have 1, 2, 4 or 8 GPUs of any type, with falling returns; many of them equal, or none."""
    rng = np.random.default_rng(seed)
    num_types, sizes = len(capacity), np.array([1, 2, 4, 8])
    models = rng.uniform(0.4, 0.95, 3 if alike else num_jobs), rng.uniform(1, 4, (3 if alike else num_jobs, num_types))
    model = np.arange(num_jobs) % len(models[0])
    job, gpu_type, size = np.meshgrid(np.arange(num_jobs), np.arange(num_types), sizes, indexing="ij")
    job, gpu_type, size = job.ravel(), gpu_type.ravel(), size.ravel()
    goodput = models[1][model[job], gpu_type] * size ** models[0][model[job]]
    return Options(job, gpu_type, size, goodput**-0.5, np.full(num_jobs, 1.1))


def bound_slowly(options: Options, capacity: IntArray, at: FloatArray) -> float:
    """Sum the price of all GPUs and the saving of each job beyond the price of its best option."""
    total = float(at @ capacity)
    for job in range(len(options.idle)):
        mine = np.flatnonzero(options.job == job)
        total += max([0.0, *(options.saving[mine] - at[options.gpu_type[mine]] * options.num_gpus[mine]).tolist()])
    return total


def most_saved(options: Options, capacity: IntArray) -> float:
    """Find the most that any choice saves, by enumeration."""
    mine = [[-1, *np.flatnonzero(options.job == job).tolist()] for job in range(len(options.idle))]
    return max(options.saved(np.array(chosen)) for chosen in product(*mine) if fits(options, chosen, capacity))


@given(problem=problems())
def test_no_choice_saves_more_than_the_bound(problem):
    options, capacity = problem
    some = options.only(useful_options(options, capacity))
    if not len(some.job):
        return
    priced = best_prices(some, capacity)
    assert priced.bound == pytest.approx(bound_slowly(some, capacity, priced.prices), rel=1e-9)
    assert most_saved(some, capacity) <= priced.bound * (1 + 1e-9)
    assert (priced.loss >= 0).all()
    assert (priced.prices >= 0).all()


@given(problem=problems())
def test_the_reduction_keeps_the_optimum(problem):
    """The settled options with the best open ones, or the known choice, are optimal."""
    options, capacity = problem
    if not useful_options(options, capacity).size:
        return
    small = reduce_program(options, capacity)
    best = most_saved(options, capacity)
    assert fits(options, tuple(small.chosen.tolist()), capacity)
    assert best <= options.saved(small.chosen) + small.missing + 1e-9
    settled = np.flatnonzero(small.settled >= 0)
    assert not np.isin(options.job[small.open], settled).any()
    assert (options.job[small.settled[settled]] == settled).all()
    left = capacity - options.taken(small.settled, len(capacity))
    if (left >= 0).all():
        rest = options.saved(small.settled) + most_saved(options.only(small.open), left)
        assert max(rest, options.saved(small.chosen)) == pytest.approx(best, abs=1e-9)
    else:  # settled options hold for better choices only, and there are none
        assert options.saved(small.chosen) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_equals_that_of_the_linear_program(seed, alike):
    capacity = np.array([40, 31, 23])
    options = crowd(seed, 80, capacity, alike=alike)
    columns = np.arange(len(options.job))
    matrix = np.zeros((83, len(columns)))
    matrix[options.job, columns], matrix[80 + options.gpu_type, columns] = 1.0, options.num_gpus
    limits = np.concatenate([np.ones(80), capacity])
    relaxed = linprog(-options.saving, A_ub=matrix, b_ub=limits)
    assert best_prices(options, capacity).bound == pytest.approx(
        float(options.saving @ np.asarray(relaxed.x)), rel=1e-6
    )


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_choice_near_the_prices_is_nearly_the_best(seed, alike):
    """The gap to the bound is at most the saving of two of the 80 jobs."""
    capacity = np.array([40, 31, 23])
    options = crowd(seed, 80, capacity, alike=alike)
    priced = best_prices(options, capacity)
    chosen = round_choice(options, capacity, priced)
    assert fits(options, tuple(chosen.tolist()), capacity)
    assert priced.bound - options.saved(chosen) <= 2 * options.saving.max()
    assert options.saved(chosen) >= options.saved(greedy(options, capacity)) - options.saving.max()


@pytest.mark.parametrize("seed", range(6))
def test_large_and_small_programs_choose_equally_well(seed, monkeypatch):
    capacity = np.array([40, 31, 23])
    options = crowd(seed, 60, capacity, alike=seed % 2 == 0)
    whole = Solver("test").choose(options, capacity)
    monkeypatch.setattr(choosing, "MANY_OPTIONS", 0)
    solver = Solver("test")
    part = solver.choose(options, capacity)
    assert solver.counters["reduced_programs"] == 1
    assert whole.solved
    assert part.solved
    assert fits(options, tuple(part.chosen.tolist()), capacity)
    assert options.saved(part.chosen) == pytest.approx(options.saved(whole.chosen), rel=2e-6)


def test_with_all_nodes_down_no_job_has_gpus(monkeypatch):
    monkeypatch.setattr(choosing, "MANY_OPTIONS", 0)
    choice = Solver("test").choose(crowd(0, 5, np.array([4, 4]), alike=False), np.array([0, 0]))
    assert (choice.solved, choice.chosen.tolist()) == (True, [-1] * 5)


def large(monkeypatch, answer: object) -> tuple[Options, Solver, SizeChoice]:
    """Create a program that must still be solved after its reduction, with a solver that gives `answer`."""
    capacity = np.array([40, 31, 23])
    monkeypatch.setattr(choosing, "MANY_OPTIONS", 0)
    monkeypatch.setattr(choosing, "_program", answer)
    found = next(
        seed for seed in range(50) if reduce_program(crowd(seed, 60, capacity, alike=False), capacity).missing > 1e-3
    )
    options, solver = crowd(found, 60, capacity, alike=False), Solver("test")
    return options, solver, solver.choose(options, capacity)


def test_a_large_program_without_an_answer_keeps_the_known_choice(monkeypatch):
    options, solver, choice = large(monkeypatch, lambda *arguments: None)
    known = reduce_program(options, np.array([40, 31, 23]))
    assert not choice.solved
    assert choice.chosen.tolist() == known.chosen.tolist()
    assert choice.gap == pytest.approx(known.missing / options.saved(known.chosen))
    assert (solver.counters["stopped_programs"], solver.counters["greedy_choices"]) == (1, 1)
    assert solver.counters["worst_gap_ppm"] == round(1e6 * choice.gap)


def test_a_program_with_too_many_open_options_is_not_solved(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("solved")

    monkeypatch.setattr(choosing, "MOST_OPEN", 1)
    _, solver, choice = large(monkeypatch, refuse)
    assert not choice.solved
    assert (solver.counters["stopped_programs"], solver.counters["greedy_choices"]) == (1, 0)


def test_without_prices_the_bound_is_loose_but_valid(monkeypatch):
    """A failed master program leaves the bound at prices of 0: the sum of all jobs' best savings."""
    monkeypatch.setattr(prices, "milp", lambda *args, **kwargs: type("Failed", (), {"x": None}))
    options = crowd(0, 10, np.array([4]), alike=False)
    priced = best_prices(options, np.array([4]))
    best = np.zeros(10)
    np.maximum.at(best, options.job, options.saving)
    assert priced.bound == pytest.approx(best.sum())
    assert fits(options, tuple(round_choice(options, np.array([4]), priced).tolist()), np.array([4]))


@given(problem=problems(), seed=st.integers(0, 1000))
def test_the_bound_equals_the_reference(problem, seed):
    options, capacity = problem
    at = np.random.default_rng(seed).uniform(0, 3, len(capacity))
    total, taken = bound_at(options.job, options.gpu_type, options.num_gpus, options.saving, at, len(options.idle))
    assert total + float(at @ capacity) == pytest.approx(bound_slowly(options, capacity, at))
    assert taken.sum() <= options.num_gpus.sum()


def change_slowly(options: Options, order: IntArray, left: list[int], chosen: list[int], *, more: bool) -> None:
    """Reference implementation of `improve_choice` if `more`, else of `remove_overcommitment`."""
    for option in order.tolist():
        job = int(options.job[option])
        has, gpu_type = chosen[job], int(options.gpu_type[option])
        old, size = int(options.gpu_type[has]), int(options.num_gpus[option])
        after = list(left)
        after[old] += int(options.num_gpus[has])
        after[gpu_type] -= size
        if more:
            wanted = options.saving[option] > options.saving[has] and after[gpu_type] >= 0
        elif left[old] >= 0 or options.num_gpus[has] == 0:
            wanted = False
        else:
            wanted = size < options.num_gpus[has] if gpu_type == old else after[gpu_type] >= 0
        if wanted:
            left[:] = after
            chosen[job] = option


@pytest.mark.parametrize("more", [False, True])
@given(problem=problems(), seed=st.integers(0, 1000))
@settings(max_examples=60)
def test_changes_equal_the_reference(more, problem, seed):
    options, capacity = problem
    rng = np.random.default_rng(seed)
    jobs = np.arange(len(options.idle))
    none = np.zeros(len(jobs), np.int64)
    every = Options(
        np.concatenate([options.job, jobs]),
        np.concatenate([options.gpu_type, none]),
        np.concatenate([options.num_gpus, none]),
        np.concatenate([options.cost, options.idle]),
        options.idle,
    )
    chosen = np.array([rng.choice(np.flatnonzero(every.job == job)) for job in jobs])
    left = capacity - every.taken(chosen, len(capacity))
    slow_left, slow_chosen = left.tolist(), chosen.tolist()
    order = rng.permutation(len(every.job))
    change_slowly(every, order, slow_left, slow_chosen, more=more)
    if more:
        improve_choice(order, every.job, every.gpu_type, every.num_gpus, every.saving, left, chosen)
    else:
        remove_overcommitment(order, every.job, every.gpu_type, every.num_gpus, left, chosen)
    assert (left.tolist(), chosen.tolist()) == (slow_left, slow_chosen)


def test_useful_options_by_hand():
    options = Options(
        np.arange(4), np.zeros(4, np.int64), np.array([1, 9, 1, 8]), np.array([0.0, 0, 2, 0.5]), np.ones(4)
    )
    assert useful_options(options, np.array([8])).tolist() == [0, 3]


def test_prices_by_hand():
    """One GPU, two jobs that save 2 and 1 with it: at a price from 1 to 2 the first buys and the second does not."""
    options = Options(np.array([0, 1]), np.zeros(2, np.int64), np.ones(2, np.int64), np.zeros(2), np.array([2.0, 1.0]))
    priced = best_prices(options, np.array([1]))
    assert isinstance(priced, BestPrices)
    assert priced.bound == pytest.approx(2.0)
    assert 1.0 - 1e-6 <= priced.prices[0] <= 2.0 + 1e-6
    assert round_choice(options, np.array([1]), priced).tolist() == [0, -1]
