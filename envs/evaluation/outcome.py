"""The criterion for choosing the best of several teachers, checkpoints or scheduler parameters."""

import math
from typing import NamedTuple

from envs.metrics import censored_completion_times
from envs.simulation import RunResult, Scenario


class Outcome(NamedTuple):
    """The outcome of a run, or the average of several. The least is the best: fewer starved jobs, then lower mean JCT.

    Ranking by mean JCT alone rewards schedulers that starve jobs. A run ends when no job makes progress. A job that was
    never started then counts with its time in the system up to that end, which is less than if it had run.
    """

    num_starved: float  # starved jobs: they never finish although the run has no time limit
    mean_jct: float  # seconds, of the measured jobs; unfinished ones count until the end of the run

    @classmethod
    def of(cls, result: RunResult, scenario: Scenario) -> "Outcome":
        """Compute the outcome of one run. Under a horizon no job counts as starved.

        All runs with unfinished jobs end at the horizon then, so that the mean JCT includes the cost of not running
        them.
        """
        mean_jct = float(censored_completion_times(result)[result.records["measured"]].mean())
        return cls(result.num_unfinished if math.isinf(scenario.horizon) else 0, mean_jct)
