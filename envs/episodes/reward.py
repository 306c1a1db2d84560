"""The reward, which all nodes share."""

from dataclasses import dataclass
from typing import Protocol

from envs.types import FloatArray, MurmurationError


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Changes between two observations of a batch of episodes; float64[B] each."""

    seconds: FloatArray  # simulated time
    job_seconds: FloatArray  # integral of the number of jobs in the system
    busy_seconds: FloatArray  # integral of the number of GPUs held


class Reward(Protocol):
    """Any function from elapsed time and usage to a team reward, float64[B]."""

    def __call__(self, elapsed: Elapsed) -> FloatArray:
        """The reward of one step of each episode."""
        ...


@dataclass(frozen=True, slots=True)
class TeamReward:
    """Minus the time that jobs spend in the system, and minus the time until all jobs are done.

    With `jct=1`, `makespan=0` and `scale=1` the undiscounted return of an episode is minus its total JCT in seconds
    (Decima, SIGCOMM'19, section 5.3); with `jct=0`, `makespan=1` minus its makespan from the first submission.
    """

    jct: float = 1.0
    makespan: float = 0.0  # weight of a second of makespan relative to a second of JCT
    scale: float = 1.0  # seconds per unit of reward

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise MurmurationError(f"reward.scale is {self.scale}; it must be positive")

    def __call__(self, elapsed: Elapsed) -> FloatArray:
        """Return float64[B], the reward of one step of each episode."""
        cost: FloatArray = self.jct * elapsed.job_seconds + self.makespan * elapsed.seconds
        return -cost / self.scale
