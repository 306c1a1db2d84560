"""Objectives: how good an episode was, higher is better. A user's own is any such function, named by `_target_`."""

import math
from dataclasses import dataclass
from typing import Protocol

from agents.problems.playing import Score
from envs.types import MurmurationError


class EpisodeObjective(Protocol):
    """Any function from the score of an episode to its merit."""

    def __call__(self, score: Score) -> float:
        """Return the merit of an episode, higher is better."""
        ...


@dataclass(frozen=True, slots=True)
class LogMerit:
    """The negative weighted mean of the logarithms of mean JCT and makespan.

    Logarithms make a relative gain count the same on any task and workload.

    Attributes:
        makespan_share: share of makespan in it; the rest is mean JCT.
    """

    makespan_share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.makespan_share <= 1:
            raise MurmurationError(f"objective.makespan_share is {self.makespan_share}; it must be from 0 to 1")

    def __call__(self, score: Score) -> float:
        """Return the merit of an episode."""
        share = self.makespan_share
        return -((1.0 - share) * math.log(score.mean_jct) + share * math.log(score.makespan))


@dataclass(frozen=True, slots=True)
class Return:
    """The sum of the rewards of an episode, whatever the reward of the environment is."""

    def __call__(self, score: Score) -> float:
        """Return the merit of an episode."""
        return score.reward
