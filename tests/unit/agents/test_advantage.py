"""Advantages against a slow, obvious reference implementation and against the textbook, and the scale of values."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from agents.methods.ppo.advantage import GroupAdvantages, TimeDiscountedAdvantages, generalised_advantages
from agents.methods.ppo.columns import AGAINST_GROUP, ELAPSED
from tests.unit.agents.modules import ValueModule


@st.composite
def stretches(draw):
    """(rewards, values, elapsed, ended) of one stretch of an episode."""
    steps = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    elapsed = np.where(rng.random(steps) < 0.5, 0.0, rng.exponential(1000.0, steps))
    return rng.normal(size=steps), rng.normal(size=steps + 1), elapsed, draw(st.booleans())


def average_discount(seconds, time_constant):
    """The mean of exp(-s / time_constant) over a step, by the middles of 2,000 pieces."""
    middles = (np.arange(2000) + 0.5) / 2000 * seconds
    return float(np.exp(-middles / time_constant).mean())


def slow_advantage(t, rewards, values, elapsed, ended, time_constant, decay):
    """Sum over later steps of lambda^k times the discount from t times the surprise there: the definition."""
    total = 0.0
    for later in range(t, len(rewards)):
        passed = sum(elapsed[t:later])
        following = 0.0 if ended and later == len(rewards) - 1 else values[later + 1]
        worth = rewards[later] * average_discount(elapsed[later], time_constant)
        surprise = worth + math.exp(-elapsed[later] / time_constant) * following - values[later]
        total += decay ** (later - t) * math.exp(-passed / time_constant) * surprise
    return total


@given(stretches(), st.sampled_from([100.0, 5000.0, math.inf]), st.sampled_from([0.0, 0.5, 0.97, 1.0]))
def test_advantages_are_what_their_definition_says(stretch, time_constant, decay):
    rewards, values, elapsed, ended = stretch
    found = generalised_advantages(rewards, values, elapsed, ended, time_constant, decay)
    slow = [slow_advantage(t, rewards, values, elapsed, ended, time_constant, decay) for t in range(len(found))]
    np.testing.assert_allclose(found, slow, rtol=1e-3, atol=1e-4)


@given(stretches())
def test_without_passing_time_or_with_endless_patience_it_is_undiscounted_gae(stretch):
    rewards, values, elapsed, ended = stretch
    following = np.append(values[1:-1], 0.0 if ended else values[-1])
    delta = rewards + following - values[:-1]
    textbook = np.zeros_like(delta)
    carried = 0.0
    for t in reversed(range(len(delta))):
        textbook[t] = carried = delta[t] + 0.9 * carried
    np.testing.assert_allclose(
        generalised_advantages(rewards, values, elapsed, ended, math.inf, 0.9), textbook, atol=1e-9
    )
    np.testing.assert_allclose(
        generalised_advantages(rewards, values, 0 * elapsed, ended, 50.0, 0.9), textbook, atol=1e-9
    )


def test_with_all_lambda_it_is_the_discounted_return_less_the_value():
    """Two steps of 10 s at a time constant of 10 s: (1 - e^-1) + e^-1 (2 (1 - e^-1) + e^-1 * 8) - 5, by hand."""
    found = generalised_advantages(
        np.array([1.0, 2.0]), np.array([5.0, 7.0, 8.0]), np.array([10.0, 10.0]), False, 10.0, 1.0
    )
    once = math.exp(-1)
    second = 2 * (1 - once) + once * 8
    assert found == pytest.approx([1 - once + once * second - 5, second - 7])


def test_the_arguments_are_left_as_they_were():
    values = np.array([1.0, 2.0, 3.0])
    generalised_advantages(np.ones(2), values, np.ones(2), True, 10.0, 0.9)
    assert values.tolist() == [1.0, 2.0, 3.0]


class Stretch(list[int]):
    """What the connector asks of an episode: its length, the artificial last step included."""


def connector_batch(elongated, rewards, elapsed, ended):
    """A learner batch of stretches with one artificial step each, as RLlib's connectors leave it."""
    mask = np.concatenate([[True] * (n - 1) + [False] for n in elongated])
    return {
        DEFAULT_MODULE_ID: {
            Columns.OBS: torch.arange(len(mask), dtype=torch.float32),
            Columns.REWARDS: torch.tensor(rewards, dtype=torch.float32),
            Columns.TERMINATEDS: torch.tensor(ended),
            Columns.LOSS_MASK: torch.tensor(mask),
            ELAPSED: torch.tensor(elapsed, dtype=torch.float32),
        }
    }


def test_the_connector_treats_every_stretch_by_itself():
    """Values are the row numbers; 3 real steps that end, then 2 that go on, one artificial row behind each."""
    rewards = [1.0, -1.0, 2.0, 99.0, 0.5, 0.5, 99.0]
    elapsed = [0.0, 30.0, 60.0, 99.0, 10.0, 0.0, 99.0]
    ended = [False, False, True, True, False, False, True]
    module = ValueModule()
    connector = TimeDiscountedAdvantages(time_constant=100.0, decay=0.9)
    episodes = [Stretch(range(4)), Stretch(range(3))]
    batch = connector(
        rl_module={DEFAULT_MODULE_ID: module}, episodes=episodes, batch=connector_batch([4, 3], rewards, elapsed, ended)
    )[DEFAULT_MODULE_ID]
    values = np.arange(7.0)
    first = generalised_advantages(np.array(rewards[:3]), values[:4], np.array(elapsed[:3]), True, 100.0, 0.9)
    second = generalised_advantages(np.array(rewards[4:6]), values[4:7], np.array(elapsed[4:6]), False, 100.0, 0.9)
    real = np.array([0, 1, 2, 4, 5])
    raw = np.concatenate([first, second])
    found = batch[Postprocessing.ADVANTAGES].numpy()[real]
    np.testing.assert_allclose(found, (raw - raw.mean()) / raw.std(), rtol=1e-5)
    np.testing.assert_allclose(batch[Postprocessing.VALUE_TARGETS].numpy()[real], values[real] + raw, rtol=1e-5)
    assert module.value_mean == pytest.approx((values[real] + raw).mean(), rel=1e-5)  # real rows only


def test_group_advantages_are_taken_as_they_come_and_standardised_over_real_rows():
    batch = connector_batch([4, 3], [0.0] * 7, [0.0] * 7, [False] * 7)
    raw = np.array([1.0, -2.0, 4.0, 99.0, 0.5, 0.0, 99.0])
    batch[DEFAULT_MODULE_ID][AGAINST_GROUP] = torch.tensor(raw, dtype=torch.float32)
    found = GroupAdvantages()(batch=batch, rl_module=None, episodes=[])[DEFAULT_MODULE_ID]
    real = raw[[0, 1, 2, 4, 5]]
    expected = (real - real.mean()) / real.std()
    np.testing.assert_allclose(found[Postprocessing.ADVANTAGES].numpy()[[0, 1, 2, 4, 5]], expected, rtol=1e-5)
    assert Postprocessing.VALUE_TARGETS not in found


def test_the_first_targets_are_adopted_and_later_ones_followed_slowly():
    module = ValueModule()
    module.track_values(torch.tensor([10.0, 20.0, 30.0]), 0.1)
    assert float(module.value_mean) == pytest.approx(20.0)
    assert float(module.value_scale) == pytest.approx(10.0)
    module.track_values(torch.tensor([40.0, 50.0, 60.0]), 0.1)
    assert float(module.value_mean) == pytest.approx(23.0)
    assert float(module.value_scale) == pytest.approx(10.0)


def test_equal_targets_leave_a_scale_that_can_be_divided_by():
    module = ValueModule()
    module.track_values(torch.full((4,), 5.0), 0.1)
    assert float(module.value_scale) == pytest.approx(1e-3, rel=1e-3)


def test_values_are_told_in_units_of_reward():
    module = ValueModule()
    module.track_values(torch.tensor([-100.0, -300.0]), 0.1)
    batch = {Columns.OBS: torch.tensor([0.0, 1.0, -2.0])}
    scale = math.sqrt(2) * 100.0
    expected = [-200.0, -200.0 + scale, -200.0 - 2 * scale]
    assert module.compute_values(batch).tolist() == pytest.approx(expected, rel=1e-5)
    assert module.normalised_values(batch).tolist() == [0.0, 1.0, -2.0]
    assert isinstance(module.action_space, spaces.MultiDiscrete)
