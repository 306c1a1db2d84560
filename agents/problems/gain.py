"""What bids gain over the market's own scheduler."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from agents.problems.playing import Score


class Gain(NamedTuple):
    """The gain of bids over the market's own scheduler, as fractions, with standard errors over workloads.

    Attributes:
        jct, makespan: 1 - ratio of the geometric means; 0.05 for 5 % less.
        jct_error, makespan_error: their standard errors.
        merit: mean difference in the objective, by which checkpoints are compared.
        merit_error: its standard error.
        unfinished: jobs that did not finish, mean over workloads.
    """

    jct: float
    jct_error: float
    makespan: float
    makespan_error: float
    merit: float
    merit_error: float
    unfinished: float

    def __str__(self) -> str:
        return (
            f"mean JCT {self.jct:+.1%} +-{self.jct_error:.1%}, makespan {self.makespan:+.1%} "
            f"+-{self.makespan_error:.1%}"
        )


def gain_of(scores: Sequence[Score], own: Sequence[Score], merit: Callable[[Score], float]) -> Gain:
    """Compare scores with those of the market's own scheduler on the same workloads, in the same order.

    Args:
        scores: of the policy.
        own: of the market alone.
        merit: of an episode, higher is better.
    """

    def mean(values: list[float]) -> tuple[float, float]:
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        return float(np.mean(values)), error

    pairs = list(zip(scores, own, strict=True))
    jct, jct_error = mean([math.log(a.mean_jct / b.mean_jct) for a, b in pairs])
    makespan, makespan_error = mean([math.log(a.makespan / b.makespan) for a, b in pairs])
    mean_merit, merit_error = mean([merit(a) - merit(b) for a, b in pairs])
    return Gain(
        1.0 - math.exp(jct),
        math.exp(jct) * jct_error,
        1.0 - math.exp(makespan),
        math.exp(makespan) * makespan_error,
        mean_merit,
        merit_error,
        float(np.mean([a.unfinished for a in scores])),
    )
