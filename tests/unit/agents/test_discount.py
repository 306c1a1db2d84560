"""What comes in over time: against integrals by quadrature, by hand, and however steps cut the time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.methods.ppo.advantage import generalised_advantages
from agents.methods.ppo.discount import discounted_rewards, discounted_seconds, returns_to_go

TIME_CONSTANTS = st.sampled_from([50.0, 10_000.0, math.inf])


@given(st.floats(0.0, 5000.0), TIME_CONSTANTS)
def test_seconds_are_worth_the_integral_of_the_discount(seconds, time_constant):
    grid = np.linspace(0.0, seconds, 20_001)
    expected = np.trapezoid(np.exp(-grid / time_constant), grid)
    assert discounted_seconds(np.array([seconds]), time_constant)[0] == pytest.approx(expected, rel=1e-4, abs=1e-12)


@st.composite
def cuttings(draw):
    """(rates, lengths, finer): stretches of constant rate, and the lengths of the steps that each is cut into."""
    count = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    lengths = rng.exponential(5000.0, count)
    finer = []
    for length in lengths:
        inner = np.sort(rng.uniform(0.0, length, draw(st.integers(0, 6))))
        finer.append(np.diff([0.0, *inner, *inner[-1:], length]))  # the last cut twice: a step without time
    return rng.normal(size=count), lengths, finer


@given(cuttings(), TIME_CONSTANTS)
def test_a_stretch_of_time_is_worth_the_same_however_steps_cut_it(cutting, time_constant):
    """Returns, and advantages with lambda 1, at the beginnings of the stretches."""
    rewards, lengths, finer = cutting
    cut, cut_rewards = np.concatenate(finer), np.repeat(rewards, [len(steps) for steps in finer])
    begins = np.cumsum([0, *(len(steps) for steps in finer)])
    whole = returns_to_go(rewards * lengths, lengths, time_constant)
    pieces = returns_to_go(cut_rewards * cut, cut, time_constant)
    np.testing.assert_allclose(pieces[begins], whole, rtol=1e-9, atol=1e-9)

    last = 3.0  # what follows after the stretches
    whole = generalised_advantages(
        rewards * lengths, np.append(np.zeros(len(lengths)), last), lengths, False, time_constant, 1.0
    )
    pieces = generalised_advantages(
        cut_rewards * cut, np.append(np.zeros(len(cut)), last), cut, False, time_constant, 1.0
    )
    np.testing.assert_allclose(pieces[begins[:-1]], whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 20, 200])
def test_ten_jobs_for_20000_seconds_by_hand(steps):
    """A reward of -0.01 a second at a time constant of 10,000 s: -100 (1 - e^-2)."""
    elapsed = np.full(steps, 20_000.0 / steps)
    assert returns_to_go(-0.01 * elapsed, elapsed, 10_000.0)[0] == pytest.approx(-100 * (1 - math.exp(-2)))


def test_a_stall_costs_no_more_than_waiting_for_ever():
    assert discounted_rewards(np.array([-1e9]), np.array([1e9]), 10_000.0)[0] == pytest.approx(-10_000.0)


def test_what_comes_in_without_time_comes_at_once():
    rewards, elapsed = np.array([5.0, 2.0, 1.0]), np.array([0.0, 10.0, 0.0])
    found = discounted_rewards(rewards, elapsed, 10.0)
    assert found == pytest.approx([5.0, 2.0 * (1 - math.exp(-1)), 1.0])
    once = math.exp(-1)
    assert returns_to_go(rewards, elapsed, 10.0) == pytest.approx(
        [5 + 2 * (1 - once) + once, 2 * (1 - once) + once, 1, 0]
    )


def test_endless_patience_leaves_rewards_alone():
    rewards, elapsed = np.array([-3.0, 2.0]), np.array([0.0, 1e6])
    assert discounted_rewards(rewards, elapsed, math.inf).tolist() == [-3.0, 2.0]
    assert returns_to_go(rewards, elapsed, math.inf).tolist() == [-1.0, 2.0, 0.0]
