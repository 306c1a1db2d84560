"""Choose at most one option for each job at least cost: the integer program behind several elastic schedulers.

Minimise the sum of the costs of the options chosen and of the idle costs of jobs without one, such that the options
chosen take at most the available GPUs of each type (Sia, SOSP'23, section 3.3, in general form).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds

from baselines.parts.highs import milp
from baselines.parts.options import Options, greedy
from baselines.parts.prices import reduce_program
from baselines.parts.unique_choice import unique_choice
from envs.types import IntArray, MurmurationError

MANY_OPTIONS = 1000  # a program with more options is reduced before it is solved
NODE_LIMIT = 200  # default limit on the nodes of a search; HiGHS solves most programs of tens of jobs at the root
MOST_OPEN = 2000  # a reduced program with more options is not solved: minutes of search hardly improve the choice


@dataclass(frozen=True)
class SizeChoice:
    """The option chosen for each job.

    Attributes:
        chosen: int64[num_jobs], index of the option of each job; -1 for none.
        solved: whether the choice is optimal, up to the requested gap.
        gap: upper bound on how much less an optimum costs, relative to this cost; NaN if the solver found no bound.
    """

    chosen: IntArray
    solved: bool
    gap: float


class Solver:
    """Solves integer programs within a limit of work, and counts how they ended.

    The limit counts nodes of the search tree, not seconds, so a busy machine gives the same choices as an idle one.

    A program whose best choice is ahead of all others is solved without HiGHS (`baselines.parts.unique_choice`). HiGHS
    finds the same choice, unless it reaches the limit.

    A program with many options is first reduced by prices (`baselines.parts.prices`), which also finds a choice.
    Options that cannot be part of a better choice are left out, and a job with one remaining option gets it. The
    reduction keeps the optimum. If too many options remain, the choice found by prices is the answer and counts as
    stopped: on 8,000 GPUs and 6,000 jobs it is within about 0.02% of the bound, and the rest is mostly GPUs that no
    job's size fits.

    Args:
        scheduler: its name, for error messages.
        node_limit: nodes of the search tree for each program; after them, the best choice found is taken, or the greedy
            choice if that is better.
        gap: relative gap at which a choice counts as optimal.
        expect_ties: whether many choices cost the same as a rule, so that a search for a single best one is in vain.

    Attributes:
        counters: programs solved, reduced programs, programs that hit the limit, programs answered by the greedy
            choice, and the largest gap in parts per million.

    Raises:
        MurmurationError: the limit is not positive.
    """

    def __init__(
        self, scheduler: str, node_limit: int = NODE_LIMIT, gap: float = 1e-6, *, expect_ties: bool = False
    ) -> None:
        if not node_limit > 0:
            raise MurmurationError(f"{scheduler}: node_limit is {node_limit}; it must be positive")
        self.node_limit, self.gap, self.expect_ties = node_limit, gap, expect_ties
        self.counters: dict[str, int] = {}
        self.forget()

    def forget(self) -> None:
        """Begin an episode."""
        names = ("programs", "reduced_programs", "stopped_programs", "greedy_choices", "worst_gap_ppm")
        self.counters = dict.fromkeys(names, 0)

    def choose(self, options: Options, capacity: IntArray) -> SizeChoice:
        """Choose the options of least cost within `capacity`, int64[num_gpu_types]."""
        if not len(options.job):
            return SizeChoice(np.full(len(options.idle), -1, np.int64), True, 0.0)
        self.counters["programs"] += 1
        if len(options.job) > MANY_OPTIONS:
            found = self._large(options, capacity)
        else:
            found = self._small(options, capacity)
        if not found.solved:
            self.counters["stopped_programs"] += 1
            if np.isfinite(found.gap):
                self.counters["worst_gap_ppm"] = max(self.counters["worst_gap_ppm"], round(1e6 * found.gap))
        return found

    def _small(self, options: Options, capacity: IntArray) -> SizeChoice:
        best = None if self.expect_ties else unique_choice(options, capacity, self.gap)
        if best is not None:
            return SizeChoice(best, True, 0.0)
        exact = _program(options, capacity, self.node_limit, self.gap)
        if exact is not None and exact.solved:
            return exact
        rough = greedy(options, capacity)
        if exact is not None and options.total(exact.chosen) <= options.total(rough):
            return exact
        self.counters["greedy_choices"] += 1
        return SizeChoice(rough, False, np.nan if exact is None else exact.gap)

    def _large(self, options: Options, capacity: IntArray) -> SizeChoice:
        self.counters["reduced_programs"] += 1
        small = reduce_program(options, capacity)
        saved = options.saved(small.chosen)
        gap = small.missing / max(saved, 1e-300)
        if gap <= self.gap:
            return SizeChoice(small.chosen, True, gap)
        if len(small.open) > MOST_OPEN:
            return SizeChoice(small.chosen, False, gap)
        rest = options.only(small.open)
        # The gap is asked for of the whole, of which the rest is a part.
        part = max(options.saved(small.chosen[np.unique(rest.job)]), 1e-300)
        found = _program(rest, capacity - options.taken(small.settled, len(capacity)), self.node_limit, self.gap)
        if found is None:
            self.counters["greedy_choices"] += 1
            return SizeChoice(small.chosen, False, gap)
        chosen = small.settled.copy()
        chosen[found.chosen >= 0] = small.open[found.chosen[found.chosen >= 0]]
        if options.saved(chosen) < saved:
            self.counters["greedy_choices"] += not found.solved
            chosen = small.chosen
        return SizeChoice(chosen, found.solved, min(found.gap * part / max(saved, 1e-300), gap))


def _program(options: Options, capacity: IntArray, node_limit: int, gap: float) -> SizeChoice | None:
    """Solve the integer program; None if no choice is found within the limit."""
    found = milp(
        -options.saving / max(float(np.abs(options.saving).max()), 1e-12),
        integrality=np.ones(len(options.job), np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=options.constraints(capacity),
        options={"node_limit": node_limit, "mip_rel_gap": gap},
    )
    if found.x is None:
        return None
    picked = np.flatnonzero(found.x > 0.5)
    chosen = np.full(len(options.idle), -1, np.int64)
    chosen[options.job[picked]] = picked
    reached = found.mip_gap if found.mip_gap is not None else 0.0
    return SizeChoice(chosen, found.status == 0, float(reached))
