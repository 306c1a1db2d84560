"""Advantages against a group: compared with a slow reference implementation, and their properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.methods.ppo.discount import returns_to_go
from agents.methods.ppo.groups import ReturnCurve, explained_variance, group_advantages


@st.composite
def episodes(draw, least=2):
    """A few (rewards, elapsed) of different lengths, half of the steps without time, some at common times."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    found = []
    for _ in range(draw(st.integers(least, 4))):
        steps = draw(st.integers(1, 10))
        lengths = np.where(rng.random(steps) < 0.5, 100.0 * rng.integers(1, 4, steps), rng.exponential(200.0, steps))
        found.append((rng.normal(size=steps), np.where(rng.random(steps) < 0.5, 0.0, lengths)))
    return found


def slow_return(rewards, elapsed, now, time_constant):
    """What an episode still brings from a time on: each step's part of the integral, by the middles of 500 pieces."""
    total, begin = 0.0, 0.0
    for reward, seconds in zip(rewards, elapsed, strict=True):
        end = begin + seconds
        if seconds == 0.0 and begin >= now:
            total += reward * math.exp(-(begin - now) / time_constant)
        elif end > now:
            first = max(begin, now)
            middles = first + (np.arange(500) + 0.5) / 500 * (end - first)
            total += reward / seconds * (end - first) * float(np.exp(-(middles - now) / time_constant).mean())
        begin = end
    return total


@settings(max_examples=50, deadline=None)
@given(episodes(), st.sampled_from([300.0, 10_000.0, math.inf]))
def test_the_mean_of_the_others_at_the_same_simulated_time(members, time_constant):
    found = group_advantages([ReturnCurve.of(member[0], member[1], time_constant) for member in members])
    for i, (rewards, elapsed) in enumerate(members):
        own = returns_to_go(rewards, elapsed, time_constant)
        now = 0.0
        for t, seconds in enumerate(elapsed):
            others = [slow_return(other[0], other[1], now, time_constant) for j, other in enumerate(members) if j != i]
            assert found[i][t] == pytest.approx(own[t] - sum(others) / len(others), rel=1e-3, abs=1e-3)
            now += seconds


@given(episodes(), st.sampled_from([300.0, math.inf]))
def test_at_its_own_first_step_of_each_time_a_course_is_its_returns(members, time_constant):
    for rewards, elapsed in members:
        curve = ReturnCurve.of(rewards, elapsed, time_constant)
        first = np.concatenate([[True], elapsed > 0])  # of the steps at one time, the end included
        np.testing.assert_allclose(curve.at(curve.times[first]), curve.returns[first], atol=1e-9)


def test_after_its_end_an_episode_brings_nothing():
    curve = ReturnCurve.of(np.array([-5.0]), np.array([10.0]), 100.0)
    assert curve.at(np.array([10.0, 11.0, 1e9])).tolist() == [0.0, 0.0, 0.0]


def test_two_members_by_hand():
    """No discount. A: -4 over 4 s, then -2 over 2 s. B: -6 over 3 s. B's return-to-go is -6 at 0 and 0 at 4."""
    first = ReturnCurve.of(np.array([-4.0, -2.0]), np.array([4.0, 2.0]), math.inf)
    second = ReturnCurve.of(np.array([-6.0]), np.array([3.0]), math.inf)
    found = group_advantages([first, second])
    assert [advantage.tolist() for advantage in found] == [[0.0, -2.0], [0.0]]


def test_equal_members_have_no_advantages():
    curve = ReturnCurve.of(np.array([-1.0, 0.0, -3.0]), np.array([5.0, 0.0, 8.0]), 20.0)
    assert all(np.allclose(advantage, 0.0) for advantage in group_advantages([curve] * 3))


def test_where_all_decide_at_the_same_times_they_are_deviations_from_the_mean():
    """Leaving oneself out of K only scales the deviation by K / (K - 1)."""
    rng = np.random.default_rng(0)
    elapsed = np.array([3.0, 7.0, 2.0])
    curves = [ReturnCurve.of(rng.normal(size=3), elapsed, 50.0) for _ in range(5)]
    returns = np.array([curve.returns[:-1] for curve in curves])
    np.testing.assert_allclose(group_advantages(curves), (returns - returns.mean(0)) * 5 / 4)


@given(episodes(least=3))
def test_no_episode_is_in_its_own_baseline(members):
    """Later rewards move an advantage by exactly what they move the return: the baseline stays unbiased."""
    curves = [ReturnCurve.of(member[0], member[1], 500.0) for member in members]
    rewards, elapsed = members[0]
    changed = ReturnCurve.of(rewards + 10.0, elapsed, 500.0)
    before, after = group_advantages(curves)[0], group_advantages([changed, *curves[1:]])[0]
    np.testing.assert_allclose(after - before, changed.returns[:-1] - curves[0].returns[:-1], atol=1e-9)


def test_explained_variance_by_hand():
    curves = [ReturnCurve.of(np.array([reward]), np.array([1.0]), math.inf) for reward in (1.0, 3.0)]
    assert explained_variance(curves, [np.zeros(1), np.zeros(1)]) == 1.0
    assert explained_variance(curves, group_advantages(curves)) == pytest.approx(1 - 4.0 / 1.0)  # -2 and 2
    assert explained_variance(curves[:1], [np.zeros(1)]) == 0.0
