"""Advantages against other episodes of the same workload, in place of a critic.

What a return is depends far more on which jobs come than on what is done: a baseline that knows the arrivals takes that
spread away and leaves the policy gradient unbiased (input-dependent baselines, Mao et al., ICLR'19; in Decima,
SIGCOMM'19, section 5.3, the mean return of rollouts of one job sequence at the same time). Each episode is left out of
its own baseline (leave-one-out, Kool et al., ICLR workshop 2019), so that the baseline does not depend on its actions.

Simplified: there is no learned, state-dependent part (no meta-critic of Mao et al.), and members' states at one time
may differ; what their earlier actions made of them stays in the estimate as noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.rllib.discount import discounted_seconds, returns_to_go
from envs.types import FloatArray, Seconds


@dataclass(frozen=True, slots=True)
class Course:
    """How the discounted return-to-go of one whole episode runs over its simulated time.

    Attributes:
        times: float64[T + 1], when each step began, from 0, and the end.
        returns: float64[T + 1], from each step on; 0 at the end.
        rates: float64[T], reward a second in each step; 0 in steps without time.
        time_constant: of the discount.
    """

    times: FloatArray
    returns: FloatArray
    rates: FloatArray
    time_constant: Seconds

    @classmethod
    def of(cls, rewards: FloatArray, elapsed: FloatArray, time_constant: Seconds) -> "Course":
        """From the rewards and the simulated seconds of its steps, float64[T]."""
        times = np.concatenate([[0.0], np.cumsum(elapsed)])
        takes_time = elapsed > 0
        rates = np.where(takes_time, rewards / np.where(takes_time, elapsed, 1.0), 0.0)
        return cls(times, returns_to_go(rewards, elapsed, time_constant), rates, time_constant)

    def at(self, times: FloatArray) -> FloatArray:
        """Return-to-go at any times, float64[...]: exact inside a step, 0 from the end on.

        Of several steps at one time the first counts, before anything was decided then.
        """
        ahead = np.minimum(np.searchsorted(self.times, times), len(self.rates))  # the next step's beginning
        wait = np.maximum(self.times[ahead] - times, 0.0)
        running = self.rates[np.maximum(ahead - 1, 0)] * discounted_seconds(wait, self.time_constant)
        found: FloatArray = running + np.exp(-wait / self.time_constant) * self.returns[ahead]
        return found


def group_advantages(courses: Sequence[Course]) -> list[FloatArray]:
    """Each member's returns-to-go, less the mean of the other members' at the same simulated time.

    Args:
        courses: of at least two episodes of one workload, from the same beginning.

    Returns:
        float64[T] for each, at its own steps.
    """
    found = []
    for i, course in enumerate(courses):
        now = course.times[:-1]
        others = [other.at(now) for j, other in enumerate(courses) if j != i]
        found.append(course.returns[:-1] - np.mean(others, axis=0))
    return found


def explained_variance(courses: Sequence[Course], advantages: Sequence[FloatArray]) -> float:
    """Share of the spread of returns-to-go that the groups' means take away; 0 where there is no spread."""
    spread = float(np.concatenate([course.returns[:-1] for course in courses]).var())
    return 1.0 - float(np.concatenate(advantages).var()) / spread if spread > 0 else 0.0
