"""One machine: the compiled bounds equal the plain ones, which equal simulations by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.metrics import bounds
from envs.metrics.bounds import Relaxation
from envs.metrics.one_machine import OneMachine
from tests.unit.metrics.one_machine_in_python import busy_periods, preemptive, total_of_periods

times_of = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=9)


@given(rows=times_of, static=st.booleans())
def test_one_machine_against_a_simulation_in_seconds(rows, static):
    """Recompute second by second; times are integers, so that every second belongs to one job."""
    submit, need = np.array(rows, dtype=float).T
    left, ends = need.copy(), np.zeros(len(need))
    seconds: list[list[float]] = [[] for _ in need]
    now = 0
    while left.any():
        here = [job for job in range(len(need)) if submit[job] <= now and left[job] > 0]
        if here:
            job = min(here, key=lambda job: ((need if static else left)[job], job))
            left[job] -= 1
            seconds[job].append(now + 0.5)
            ends[job] = now + 1
        now += 1
    found, busy = preemptive(submit, need, static=static)
    assert found.sum() == pytest.approx(ends.sum())
    assert (busy * need).sum() == pytest.approx(sum(map(sum, seconds)))


@given(rows=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=5))
@settings(max_examples=20)
def test_no_order_on_one_machine_has_smaller_busy_dates(rows):
    """Compare with every fixed order of preemption."""
    submit, need = np.array(rows, dtype=float).T
    least = preemptive(submit, need, static=True)[1].sum()
    for order in itertools.permutations(range(len(rows))):
        left, total, now = need.copy(), 0.0, 0
        while left.any():
            here = [job for job in order if submit[job] <= now and left[job] > 0]
            if here:
                left[here[0]] -= 1
                total += (now + 0.5) / need[here[0]]
            now += 1
        assert least <= total + 1e-9


def test_busy_periods_end_where_the_machine_is_idle():
    """0-3 and 2-5 are one period; 5 begins when the machine is idle; 20 is alone, although first in the array."""
    parts = busy_periods(np.array([20.0, 0.0, 2.0, 5.0]), np.array([1.0, 3.0, 2.0, 1.0]))
    assert [part.tolist() for part in parts] == [[1, 2], [3], [0]]


@st.composite
def machines(draw):
    """Up to 60 jobs on three types, in any order of submission, with ties, gaps, and jobs that do not run on a type."""
    count, rng = draw(st.integers(1, 60)), np.random.default_rng(draw(st.integers(0, 10**6)))
    spread, whole = draw(st.sampled_from([0.0, 0.5, 2.0, 9.0])), draw(st.booleans())
    submit, demand = rng.uniform(0, spread * count, count), rng.lognormal(1.0, 1.5, (count, 3))
    if whole:  # whole seconds: many ties
        submit, demand = submit.round(), demand.round() * 6  # also jobs of no length
    demand[rng.random((count, 3)) < 0.2] = np.inf
    demand[:, 0] = np.where(np.isinf(demand).all(axis=1), 3.0, demand[:, 0])
    return submit, rng.lognormal(1.0, 1.0, count), demand


@given(made=machines())
def test_the_compiled_bounds_equal_the_plain_ones(made):
    """At any prices, to a relative 1e-12: only the order of sums differs."""
    submit, alone, demand = made
    machine = OneMachine.of(submit, alone, demand)
    for prices in (np.array([0.5, 0.25, 0.25]), np.array([0.125, 0.125, 0.75])):
        expected = total_of_periods(submit, alone, (demand * prices).min(axis=1))
        assert machine.total_jct(prices) == pytest.approx(expected, rel=1e-12)


def crowded(count, seed=0):
    """Twice as much work on three types as they can do, so that prices matter."""
    rng = np.random.default_rng(seed)
    gpus, needs = np.array([8, 8, 8]), rng.lognormal(3.0, 1.2, count)
    demand = needs[:, None] * np.array([8.0, 12.0, 30.0]) * rng.lognormal(0.0, 0.3, (count, 3))
    submit = np.sort(rng.uniform(0, demand.min(axis=1).sum() / 48, count))
    return Relaxation(submit, np.zeros(count), needs, demand, gpus, None)


def test_of_many_jobs_the_prices_are_searched_on_few(monkeypatch):
    """The bound loses less than a thousandth, and is never below the one at the prices from which the search starts."""
    whole = crowded(3000).mean_jct()
    monkeypatch.setattr(bounds, "SEARCHED", 1000)
    relaxation = crowded(3000)
    machine = OneMachine.of(relaxation.submit_time, relaxation.alone, relaxation.demand)
    start = 1 / np.exp(np.log(relaxation.demand).mean(axis=0))
    least = machine.total_jct(start / (start @ relaxation.num_gpus)) / 3000
    assert least * 1.001 < relaxation.mean_jct()  # prices matter here
    assert relaxation.mean_jct() == pytest.approx(whole, rel=1e-3)
    assert relaxation.prices @ relaxation.num_gpus == pytest.approx(1.0)


def test_the_load_of_few_jobs_is_that_of_all():
    machine = OneMachine(np.arange(6.0), np.ones(6), np.full((6, 1), 2.0))
    third = machine.every(3)
    assert (third.submit.tolist(), third.demand.ravel().tolist()) == ([0.0, 3.0], [6.0, 6.0])
    assert machine.every(1).total_jct(np.ones(1)) == machine.total_jct(np.ones(1))
