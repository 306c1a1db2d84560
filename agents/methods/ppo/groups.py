"""Advantages against other episodes of the same workload, which replace a critic.

A return depends far more on the arriving jobs than on the actions. A baseline that knows the arrivals removes this
variance and leaves the policy gradient unbiased (input-dependent baselines, Mao et al., ICLR'19; in Decima, SIGCOMM'19,
section 5.3, the mean return of rollouts of one job sequence at the same time). Each episode is left out of its own
baseline (leave-one-out, Kool et al., ICLR workshop 2019), so that the baseline does not depend on its actions.

Simplifications: there is no learned, state-dependent part (no meta-critic of Mao et al.). The states of a group's
members may differ at one time; the effect of their earlier actions remains in the estimate as noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.methods.ppo.discount import discounted_seconds, returns_to_go
from envs.types import FloatArray, Seconds


@dataclass(frozen=True, slots=True)
class ReturnCurve:
    """The discounted return-to-go of one whole episode over its simulated time.

    Attributes:
        times: float64[T + 1], the beginning of each step, from 0, and the end.
        returns: float64[T + 1], return from each step on; 0 at the end.
        rewards_per_second: float64[T], of each step; 0 in steps without duration.
        time_constant: time constant of the discount.
    """

    times: FloatArray
    returns: FloatArray
    rewards_per_second: FloatArray
    time_constant: Seconds

    @classmethod
    def of(cls, rewards: FloatArray, elapsed: FloatArray, time_constant: Seconds) -> "ReturnCurve":
        """Compute it from the rewards and the simulated seconds of the steps, float64[T]."""
        times = np.concatenate([[0.0], np.cumsum(elapsed)])
        takes_time = elapsed > 0
        rewards_per_second = np.where(takes_time, rewards / np.where(takes_time, elapsed, 1.0), 0.0)
        return cls(times, returns_to_go(rewards, elapsed, time_constant), rewards_per_second, time_constant)

    def at(self, times: FloatArray) -> FloatArray:
        """Return the return-to-go at any times, float64[...]: exact inside a step, 0 from the end on.

        Of several steps at one time the first is used, before any decision at that time.
        """
        ahead = np.minimum(
            np.searchsorted(self.times, times), len(self.rewards_per_second)
        )  # index of the next step's beginning
        wait = np.maximum(self.times[ahead] - times, 0.0)
        running = self.rewards_per_second[np.maximum(ahead - 1, 0)] * discounted_seconds(wait, self.time_constant)
        found: FloatArray = running + np.exp(-wait / self.time_constant) * self.returns[ahead]
        return found


def group_advantages(curves: Sequence[ReturnCurve]) -> list[FloatArray]:
    """Subtract from each member's returns-to-go the mean of the other members' at the same simulated time.

    Args:
        curves: at least two episodes of one workload, with the same beginning.

    Returns:
        float64[T] for each episode, at its own steps.
    """
    found = []
    for i, curve in enumerate(curves):
        now = curve.times[:-1]
        others = [other.at(now) for j, other in enumerate(curves) if j != i]
        found.append(curve.returns[:-1] - np.mean(others, axis=0))
    return found


def explained_variance(curves: Sequence[ReturnCurve], advantages: Sequence[FloatArray]) -> float:
    """Return the share of the variance of returns-to-go that the groups' means explain; 0 if there is no variance."""
    variance = float(np.concatenate([curve.returns[:-1] for curve in curves]).var())
    return 1.0 - float(np.concatenate(advantages).var()) / variance if variance > 0 else 0.0
