"""Discounting of rewards that accrue over simulated time."""

import numpy as np

from envs.types import FloatArray, Seconds


def discounted_seconds(elapsed: FloatArray, time_constant: Seconds) -> FloatArray:
    """Return the discounted length of each period at its beginning: the integral of exp(-s / time_constant)."""
    if np.isinf(time_constant):
        return elapsed
    seconds: FloatArray = -time_constant * np.expm1(-elapsed / time_constant)
    return seconds


def discounted_rewards(rewards: FloatArray, elapsed: FloatArray, time_constant: Seconds) -> FloatArray:
    """Discount each step's reward to the beginning of the step.

    A reward is assumed to accrue at a constant rate over its step, as the integrals of `TeamReward` do between events.
    The result therefore does not depend on how a period is divided into steps. The reward of a step without duration is
    not discounted.

    Args:
        rewards, elapsed: float64[T], total reward and simulated seconds of each step.
        time_constant: in seconds; infinite for no discount.
    """
    takes_time = elapsed > 0
    length = np.where(takes_time, elapsed, 1.0)
    worth: FloatArray = rewards * np.where(takes_time, discounted_seconds(length, time_constant) / length, 1.0)
    return worth


def returns_to_go(rewards: FloatArray, elapsed: FloatArray, time_constant: Seconds) -> FloatArray:
    """Return the discounted sum of rewards from each step of a whole episode on: float64[T + 1], the last one 0."""
    worth = discounted_rewards(rewards, elapsed, time_constant)
    discount = np.exp(-elapsed / time_constant)
    result = np.zeros(len(rewards) + 1)
    for t in range(len(rewards) - 1, -1, -1):
        result[t] = worth[t] + discount[t] * result[t + 1]
    return result
