"""One option for each job, at least cost: the integer program behind several elastic schedulers.

Minimise the sum of the costs of the options chosen and of the idle costs of jobs for which none is, such that the
options chosen take at most the GPUs that there are of each type (Sia, SOSP'23, section 3.3, in general form).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds

from baselines.parts.highs import milp
from baselines.parts.options import Options, greedy
from baselines.parts.prices import reduced
from envs.types import IntArray, Seconds

LARGE = 1000  # options beyond which a program is made small before it is solved
MOST_OPEN = 2000  # options left, beyond which it is not solved at all: minutes of search hardly better a choice then


@dataclass(frozen=True)
class Choice:
    """An answer.

    Attributes:
        chosen: int64[num_jobs], index of the option of each job; -1 for none.
        solved: whether it is an optimum, up to the gap that was asked for.
        gap: how much less an optimum could cost at most, relative to this cost; NaN where the solver found no bound.
    """

    chosen: IntArray
    solved: bool
    gap: float


class Solver:
    """Integer programs with a time limit, and an account of them.

    A program of many options is first made small by prices (`baselines.parts.prices`): what cannot be in a better
    choice than the one found there is left out, and jobs for which one option remains have it. An optimum stays one.
    Where too many options remain, that choice is the answer, and counts as stopped: on 8,000 GPUs and 6,000 jobs it
    is within some 0.02% of the bound, and what remains is mostly GPUs that no job's size fits.

    Args:
        time_limit: wall-clock seconds for each program; beyond it the best choice found is taken, or the quick one if
            that is better.
        gap: relative gap at which a choice counts as optimal.

    Attributes:
        counters: programs solved, those of them that were made small, those that hit the limit, those for which the
            quick choice stood in, and the largest gap in parts per million.
    """

    def __init__(self, time_limit: Seconds, gap: float = 1e-6) -> None:
        self.time_limit, self.gap = time_limit, gap
        self.counters: dict[str, int] = {}
        self.forget()

    def forget(self) -> None:
        """Begin an episode."""
        names = ("programs", "reduced_programs", "stopped_programs", "greedy_choices", "worst_gap_ppm")
        self.counters = dict.fromkeys(names, 0)

    def choose(self, options: Options, capacity: IntArray) -> Choice:
        """The options of least cost within `capacity`, int64[num_gpu_types]."""
        if not len(options.job):
            return Choice(np.full(len(options.idle), -1, np.int64), True, 0.0)
        self.counters["programs"] += 1
        if len(options.job) > LARGE:
            found = self._large(options, capacity)
        else:
            found = self._small(options, capacity)
        if not found.solved:
            self.counters["stopped_programs"] += 1
            if np.isfinite(found.gap):
                self.counters["worst_gap_ppm"] = max(self.counters["worst_gap_ppm"], round(1e6 * found.gap))
        return found

    def _small(self, options: Options, capacity: IntArray) -> Choice:
        exact = _program(options, capacity, self.time_limit, self.gap)
        if exact is not None and exact.solved:
            return exact
        rough = greedy(options, capacity)
        if exact is not None and options.total(exact.chosen) <= options.total(rough):
            return exact
        self.counters["greedy_choices"] += 1
        return Choice(rough, False, np.nan if exact is None else exact.gap)

    def _large(self, options: Options, capacity: IntArray) -> Choice:
        self.counters["reduced_programs"] += 1
        small = reduced(options, capacity)
        saved = options.saved(small.chosen)
        gap = small.missing / max(saved, 1e-300)
        if gap <= self.gap:
            return Choice(small.chosen, True, gap)
        if len(small.open) > MOST_OPEN:
            return Choice(small.chosen, False, gap)
        rest = options.only(small.open)
        # The gap is asked for of the whole, of which the rest is a part.
        part = max(options.saved(small.chosen[np.unique(rest.job)]), 1e-300)
        found = _program(rest, capacity - options.taken(small.settled, len(capacity)), self.time_limit, self.gap)
        if found is None:
            self.counters["greedy_choices"] += 1
            return Choice(small.chosen, False, gap)
        chosen = small.settled.copy()
        chosen[found.chosen >= 0] = small.open[found.chosen[found.chosen >= 0]]
        if options.saved(chosen) < saved:
            self.counters["greedy_choices"] += not found.solved
            chosen = small.chosen
        return Choice(chosen, found.solved, min(found.gap * part / max(saved, 1e-300), gap))


def _program(options: Options, capacity: IntArray, time_limit: Seconds, gap: float) -> Choice | None:
    """The integer program; None if no choice is found in time."""
    found = milp(
        -options.saving / max(float(np.abs(options.saving).max()), 1e-12),
        integrality=np.ones(len(options.job), np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=options.constraints(capacity),
        options={"time_limit": time_limit, "mip_rel_gap": gap},
    )
    if found.x is None:
        return None
    picked = np.flatnonzero(found.x > 0.5)
    chosen = np.full(len(options.idle), -1, np.int64)
    chosen[options.job[picked]] = picked
    reached = found.mip_gap if found.mip_gap is not None else 0.0
    return Choice(chosen, found.status == 0, float(reached))
