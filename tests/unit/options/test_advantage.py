"""Advantages from groups of episodes, worked by hand and against a plain sum over small steps of time."""

import numpy as np
import pytest

from agents.on_options.advantage import cost_to_go, leave_one_out_advantages, value_at

TIME, COST = np.array([0.0, 10.0, 30.0]), np.array([0.0, 20.0, 30.0])  # 2 per second, then a half


def test_without_discount_the_cost_to_go_is_the_rest_of_the_cost():
    assert cost_to_go(TIME, COST, np.inf).tolist() == [30.0, 10.0, 0.0]


def test_discount_follows_simulated_time():
    """The integral of per_second x exp(-t / horizon), by the midpoint rule on steps of a thousandth of a second."""
    moments = np.arange(0.0005, 30.0, 0.001)
    costs = np.where(moments < 10.0, 2.0, 0.5)
    expected = (costs * np.exp(-moments / 7.0) * 0.001).sum()
    assert cost_to_go(TIME, COST, 7.0)[0] == pytest.approx(expected, rel=1e-6)


def test_two_instants_at_one_time_cost_what_lies_between_them():
    assert cost_to_go(np.array([5.0, 5.0]), np.array([1.0, 4.0]), 7.0).tolist() == [3.0, 0.0]


@pytest.mark.parametrize(
    ("when", "expected"),
    [(0.0, 30.0), (4.0, 22.0), (10.0, 10.0), (20.0, 5.0), (30.0, 0.0), (99.0, 0.0), (-1.0, 30.0)],
)
def test_the_value_between_two_instants(when, expected):
    assert value_at(TIME, COST, cost_to_go(TIME, COST, np.inf), np.inf, when) == pytest.approx(expected)


@pytest.mark.parametrize("horizon", [7.0, np.inf])
def test_the_value_at_an_instant_is_the_cost_to_go_from_there(horizon):
    to_go = cost_to_go(TIME, COST, horizon)
    assert [value_at(TIME, COST, to_go, horizon, when) for when in TIME] == pytest.approx(to_go.tolist())


def test_an_episode_is_compared_with_the_others_of_its_group_at_the_same_time():
    """Episodes cost 1, 2 and 3 a second for ten seconds: at t = 5 they have 5, 10 and 15 ahead of them."""
    time = np.tile([0.0, 5.0, 10.0], 3)
    cost = np.concatenate([per_second * np.array([0.0, 5.0, 10.0]) for per_second in (1.0, 2.0, 3.0)])
    to_go = np.concatenate([cost_to_go(time[:3], cost[3 * i : 3 * i + 3], np.inf) for i in range(3)])
    found = leave_one_out_advantages(np.array([0, 3, 6, 9]), time, cost, to_go, 3, np.inf)
    assert found.tolist() == pytest.approx([15.0, 7.5, 0.0, 0.0, 0.0, 0.0, -15.0, -7.5, 0.0])


def test_groups_do_not_mix():
    time, cost = np.tile([0.0, 10.0], 4), np.array([0.0, 1.0, 0.0, 3.0, 0.0, 100.0, 0.0, 100.0])
    to_go = np.array([1.0, 0.0, 3.0, 0.0, 100.0, 0.0, 100.0, 0.0])
    found = leave_one_out_advantages(np.array([0, 2, 4, 6, 8]), time, cost, to_go, 2, np.inf)
    assert found[::2].tolist() == [2.0, -2.0, 0.0, 0.0]
