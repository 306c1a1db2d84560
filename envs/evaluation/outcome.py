"""What is looked at where the best of several is chosen: a teacher, a checkpoint, a scheduler's numbers."""

import math
from typing import NamedTuple

from envs.metrics import censored_completion_times
from envs.simulation import RunResult, Scenario


class Outcome(NamedTuple):
    """What a run, or several on average, came to. The least is the best: fewer jobs abandoned, then lower mean JCT.

    Mean JCT alone would crown who starves. A run ends when nothing moves any more; a long job that was never started is
    cut there, the earlier the less else was done, and counts for less than had it been run.
    """

    num_abandoned: float  # jobs that were left waiting for good, though time was not up
    mean_jct: float  # seconds, of the measured jobs; unfinished ones are cut at the end

    @classmethod
    def of(cls, result: RunResult, scenario: Scenario) -> "Outcome":
        """Of one run. Under a horizon no job counts as abandoned: a run with jobs left goes on to it.

        There all are cut at one common time, so that leaving jobs undone costs what it costs in the mean.
        """
        measured = result.records[result.records["measured"]]
        mean_jct = float(censored_completion_times(measured, result.end_time).mean())
        return cls(result.num_unfinished if math.isinf(scenario.horizon) else 0, mean_jct)
