"""One option for each job, at least cost: the integer program behind several elastic schedulers.

Minimise the sum of the costs of the options chosen and of the idle costs of jobs for which none is, such that the
options chosen take at most the GPUs that there are of each type (Sia, SOSP'23, section 3.3, in general form).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from envs.types import FloatArray, IntArray, Seconds


@dataclass(frozen=True)
class Options:
    """What jobs may be given.

    Attributes:
        job: int64[num_options], position of the job, 0 to num_jobs - 1.
        gpu_type: int64[num_options], index into the cluster's types.
        num_gpus: int64[num_options], at least 1.
        cost: float64[num_options].
        idle: float64[num_jobs], the cost of giving a job nothing.
    """

    job: IntArray
    gpu_type: IntArray
    num_gpus: IntArray
    cost: FloatArray
    idle: FloatArray

    @property
    def saving(self) -> FloatArray:
        """float64[num_options]: what an option costs less than nothing does."""
        saving: FloatArray = self.idle[self.job] - self.cost
        return saving

    def total(self, chosen: IntArray) -> float:
        """The cost of a choice."""
        picked = chosen[chosen >= 0]
        return float(self.idle.sum() - self.saving[picked].sum())


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

    Args:
        time_limit: wall-clock seconds for each program; beyond it the best choice found is taken, or the greedy one if
            that is better.
        gap: relative gap at which a choice counts as optimal.

    Attributes:
        counters: programs solved, those of them that hit the limit, those for which the greedy choice stood in, and the
            largest gap in parts per million.
    """

    def __init__(self, time_limit: Seconds, gap: float = 1e-6) -> None:
        self.time_limit, self.gap = time_limit, gap
        self.counters: dict[str, int] = {}
        self.forget()

    def forget(self) -> None:
        """Begin an episode."""
        self.counters = {"programs": 0, "stopped_programs": 0, "greedy_choices": 0, "worst_gap_ppm": 0}

    def choose(self, options: Options, capacity: IntArray) -> Choice:
        """The options of least cost within `capacity`, int64[num_gpu_types]."""
        if not len(options.job):
            return Choice(np.full(len(options.idle), -1, np.int64), True, 0.0)
        self.counters["programs"] += 1
        exact = _program(options, capacity, self.time_limit, self.gap)
        if exact is not None and exact.solved:
            return exact
        self.counters["stopped_programs"] += 1
        rough = greedy(options, capacity)
        if exact is None or options.total(rough) < options.total(exact.chosen):
            self.counters["greedy_choices"] += 1
            exact = Choice(rough, False, np.nan if exact is None else exact.gap)
        if np.isfinite(exact.gap):
            self.counters["worst_gap_ppm"] = max(self.counters["worst_gap_ppm"], round(1e6 * exact.gap))
        return exact


def _program(options: Options, capacity: IntArray, time_limit: Seconds, gap: float) -> Choice | None:
    """The integer program; None if no choice is found in time."""
    columns = np.arange(len(options.job))
    once = coo_array((np.ones(len(columns)), (options.job, columns)), shape=(len(options.idle), len(columns)))
    room = coo_array((options.num_gpus, (options.gpu_type, columns)), shape=(len(capacity), len(columns)))
    found = milp(
        -options.saving / max(float(np.abs(options.saving).max()), 1e-12),
        integrality=np.ones(len(columns), np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=[LinearConstraint(once.tocsr(), -np.inf, 1.0), LinearConstraint(room.tocsr(), -np.inf, capacity)],
        options={"time_limit": time_limit, "mip_rel_gap": gap},
    )
    if found.x is None:
        return None
    picked = np.flatnonzero(found.x > 0.5)
    chosen = np.full(len(options.idle), -1, np.int64)
    chosen[options.job[picked]] = picked
    reached = found.mip_gap if found.mip_gap is not None else 0.0
    return Choice(chosen, found.status == 0, float(reached))


def greedy(options: Options, capacity: IntArray) -> IntArray:
    """int64[num_jobs]: options by saving per GPU, the first that fits for each job, while anything is saved."""
    left = capacity.astype(np.int64)
    chosen = np.full(len(options.idle), -1, np.int64)
    worth = options.saving / options.num_gpus
    for option in np.lexsort((options.job, -worth)).tolist():
        job, kind, gpus = options.job[option], options.gpu_type[option], options.num_gpus[option]
        if worth[option] > 0 and chosen[job] < 0 and gpus <= left[kind]:
            chosen[job] = option
            left[kind] -= gpus
    return chosen
