"""What rewards are worth that come in over simulated time."""

import numpy as np

from envs.types import FloatArray, Seconds


def discounted_seconds(elapsed: FloatArray, time_constant: Seconds) -> FloatArray:
    """What so many seconds are worth at their beginning: the integral of exp(-s / time_constant) over them."""
    if np.isinf(time_constant):
        return elapsed
    seconds: FloatArray = -time_constant * np.expm1(-elapsed / time_constant)
    return seconds


def discounted_rewards(rewards: FloatArray, elapsed: FloatArray, time_constant: Seconds) -> FloatArray:
    """Rewards of steps, worth at the beginning of each what comes in during it.

    A reward is taken to come in at a constant rate over its step, as the integrals of `TeamReward` do between events.
    So a stretch of time is worth the same however steps cut it. The reward of a step without time comes in at once.

    Args:
        rewards, elapsed: float64[T], each step's whole reward and simulated seconds.
        time_constant: seconds; infinite for no discount.
    """
    takes_time = elapsed > 0
    length = np.where(takes_time, elapsed, 1.0)
    worth: FloatArray = rewards * np.where(takes_time, discounted_seconds(length, time_constant) / length, 1.0)
    return worth


def returns_to_go(rewards: FloatArray, elapsed: FloatArray, time_constant: Seconds) -> FloatArray:
    """Discounted sum of all rewards of a whole episode from each step on: float64[T + 1], the last one 0."""
    worth = discounted_rewards(rewards, elapsed, time_constant)
    discount = np.exp(-elapsed / time_constant)
    result = np.zeros(len(rewards) + 1)
    for t in range(len(rewards) - 1, -1, -1):
        result[t] = worth[t] + discount[t] * result[t + 1]
    return result
