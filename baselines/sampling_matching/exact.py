"""Optima to measure matching by: every assignment there is, and a mixed-integer program with a certificate."""

import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array

from baselines.parts.highs import milp
from baselines.sampling_matching.kernels import seconds
from baselines.sampling_matching.problem import Problem, objective
from envs.simulation.jit import jit
from envs.types import FloatArray, IntArray, MurmurationError, Seconds

MOST_SPLITS = 500_000_000  # of workers among one job and the others, that `every_split` looks at
FIRST_TANGENTS = 12  # of each job's time over its speed, before any solution is known
SCALE = 1e-3  # of the objective in the program, so that its tolerances fit


@dataclass(frozen=True)
class Optimum:
    """The best plan known, and how good any plan can be.

    Attributes:
        counts: int64[num_jobs, num_kinds].
        worth: weighted sum of the jobs' seconds.
        bound: no plan is worth less.
    """

    counts: IntArray
    worth: float
    bound: float

    @property
    def gap(self) -> float:
        """Share of `worth` that might be saved."""
        return 1.0 - self.bound / self.worth


def every_split(problem: Problem) -> Optimum:
    """The optimum by brute force: for every set of workers, every way to split it between one job and those behind it.

    Exact for any `Problem`, whatever its rates, restarts and idle workers. Workers of one kind are not told apart; for
    K workers all of their own kind there are 3^K splits.

    Raises:
        MurmurationError: there are too many, or no plan can be run.
    """
    splits = float(np.prod((problem.supply + 1.0) * (problem.supply + 2.0) / 2.0))
    if splits > MOST_SPLITS:
        raise MurmurationError(f"every split: {splits:.3g} splits are too many; use `certified_optimum`")
    counts = np.zeros(problem.present.shape, np.int64)
    worth = _split_all(problem, counts)
    if np.isinf(worth):
        raise MurmurationError("every split: no plan serves all jobs; leave one of them out")
    return Optimum(counts, worth, worth)


@jit
def _times(problem: Problem, steps: IntArray) -> FloatArray:
    """float64[num_jobs, num_sets]: weighted seconds of each job on each set of workers."""
    jobs, kinds = problem.present.shape
    sets = steps[kinds]
    times = np.empty((jobs, sets))
    counts = np.zeros((jobs, kinds), np.int64)
    for chosen in range(sets):
        for job in range(jobs):
            for kind in range(kinds):
                counts[job, kind] = chosen // steps[kind] % (problem.supply[kind] + 1)
            times[job, chosen] = problem.weight[job] * seconds(problem, job, counts)
    return times


@jit
def _split_all(problem: Problem, best: IntArray) -> float:
    """The least total; `best` is written. A set of workers is a number whose digits are the workers of each kind."""
    jobs, kinds = best.shape
    steps = np.ones(kinds + 1, np.int64)
    for kind in range(kinds):
        steps[kind + 1] = steps[kind] * (problem.supply[kind] + 1)
    times = _times(problem, steps)
    sets = steps[kinds]
    behind = np.full(sets, np.inf)  # the least total of the jobs behind, by the set that is left to them
    idle = np.sum(problem.supply) - min(np.sum(problem.supply), np.sum(problem.most))
    for whole in range(sets):
        size = 0
        for kind in range(kinds):
            size += whole // steps[kind] % (problem.supply[kind] + 1)
        if problem.may_idle or size == idle:
            behind[whole] = 0.0
    bits = np.max(problem.supply) == 1  # then sets are numbers in base 2, whose subsets are quicker to run through
    taken = np.zeros((jobs, sets), np.int64)  # what each job takes of what is left to it and those behind
    for job in range(jobs - 1, -1, -1):
        least = np.full(sets, np.inf)
        for whole in range(sets) if job > 0 else range(sets - 1, sets):
            part = whole
            while part >= 0:
                worth = times[job, part] + behind[whole - part]
                if worth < least[whole]:
                    least[whole] = worth
                    taken[job, whole] = part
                if part > 0 and bits:
                    part = (part - 1) & whole
                else:
                    part = _next_part(part, whole, steps)
        behind = least
    left = sets - 1
    for job in range(jobs):
        for kind in range(kinds):
            best[job, kind] = taken[job, left] // steps[kind] % (problem.supply[kind] + 1)
        left -= taken[job, left]
    return float(behind[sets - 1])


@jit
def _next_part(part: int, whole: int, steps: IntArray) -> int:
    """The next smaller number none of whose digits exceeds that of `whole`; -1 behind the last."""
    for kind in range(len(steps) - 1):
        base = steps[kind + 1] // steps[kind]
        if part // steps[kind] % base > 0:
            return int(part - steps[kind])
        part += steps[kind] * (whole // steps[kind] % base)
    return -1


def certified_optimum(problem: Problem, gap: float = 1e-4, time_limit: Seconds = 60.0) -> Optimum:
    """The optimum by HiGHS, up to a relative gap; after the time limit the best plan and the best bound so far.

    A job's time is convex in the sum of its workers' speeds, so tangents bound it from below, and the program with
    tangents for times is a bound for all plans. Its solution's true times close the gap or show where tangents are
    missing; these are added and it is solved again (Duran and Grossmann, "An outer-approximation algorithm for a
    class of mixed-integer nonlinear programs", Math. Programming 1986).

    Raises:
        MurmurationError: rates that depend on the gang's size, restarts, or workers that may idle: the program holds
            the paper's model only; or the solver found no plan at all.
    """
    if problem.rates.shape[1:3] != (1, 1) or problem.restart.any() or problem.may_idle:
        raise MurmurationError(
            "certified optimum: holds the paper's model only: rates by job and kind, no restarts, no idle workers"
        )
    program = _Program(problem)
    end = time.monotonic() + time_limit
    best, worth, bound = np.zeros(problem.present.shape, np.int64), np.inf, -np.inf
    while worth - bound > gap * worth or np.isinf(worth):
        left = end - time.monotonic()
        if left <= 0:
            break
        counts, below = program.solve(gap / 2, left)
        bound = max(bound, below)
        if counts is None:
            break
        if (value := objective(problem, counts)) < worth:
            worth, best = value, counts
        program.add_tangents(counts)
    if np.isinf(worth):
        raise MurmurationError(f"certified optimum: no plan found within {time_limit} s; give more time")
    return Optimum(best, worth, min(bound, worth))


class _Program:
    """The linear program: counts, one category per job as 0/1 choices, and times above their tangents."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.rates = problem, problem.rates[:, 0, 0, :]
        jobs, kinds = self.rates.shape
        most = np.minimum(problem.most, problem.num_workers)
        self.sizes = [np.arange(least, high + 1) for least, high in zip(problem.least, most, strict=True)]
        starts = jobs * kinds + np.concatenate([[0], np.cumsum([len(sizes) for sizes in self.sizes])])
        self.choice = starts[:-1]  # column of each job's first choice of size
        self.time = int(starts[-1])  # column of the first job's time
        self.num_columns = self.time + jobs
        self.rows: list[tuple[IntArray, FloatArray, float, float]] = []  # columns, coefficients, from, to
        for kind in range(kinds):
            self._add(np.arange(jobs) * kinds + kind, np.ones(jobs), 0.0, float(problem.supply[kind]))
        self._add(np.arange(jobs * kinds), np.ones(jobs * kinds), problem.assigned, problem.assigned)
        for job in range(jobs):
            columns = self.choice[job] + np.arange(len(self.sizes[job]))
            self._add(columns, np.ones(len(columns)), 1.0, 1.0)
            both = np.concatenate([job * kinds + np.arange(kinds), columns])
            self._add(both, np.concatenate([np.ones(kinds), -self.sizes[job].astype(np.float64)]), 0.0, 0.0)
            held = np.repeat(self.rates[job], problem.supply)
            for speed in np.geomspace(held.min(), held.sum(), FIRST_TANGENTS):
                self._add_tangent(job, float(speed))

    def solve(self, gap: float, time_limit: Seconds) -> tuple[IntArray | None, float]:
        """Counts of the best solution found, None if none was, and a bound of every plan's worth."""
        jobs, kinds = self.rates.shape
        columns, values, low, high = zip(*self.rows, strict=True)
        row = np.repeat(np.arange(len(self.rows)), [len(part) for part in columns])
        entries = (np.concatenate(values), (row, np.concatenate(columns)))
        matrix = csr_array(entries, shape=(len(self.rows), self.num_columns))
        whole, upper = np.ones(self.num_columns), np.ones(self.num_columns)
        whole[self.time :], upper[self.time :] = 0, np.inf
        upper[: jobs * kinds] = np.tile(self.problem.supply, jobs)
        found = milp(
            self._objective(),
            constraints=[LinearConstraint(matrix, np.array(low), np.array(high))],
            integrality=whole,
            bounds=Bounds(np.zeros(self.num_columns), upper),
            options={"mip_rel_gap": gap, "time_limit": time_limit},
        )
        bound = -np.inf if found.mip_dual_bound is None else float(found.mip_dual_bound) / SCALE
        if found.x is None:
            return None, bound
        return np.round(found.x[: jobs * kinds]).astype(np.int64).reshape(jobs, kinds), bound

    def add_tangents(self, counts: IntArray) -> None:
        """Tangents at the speeds of a plan."""
        for job, speed in enumerate((self.rates * counts).sum(axis=1).tolist()):
            self._add_tangent(job, speed)

    def _objective(self) -> FloatArray:
        costs = np.zeros(self.num_columns)
        for job, sizes in enumerate(self.sizes):
            overhead = self.problem.overhead[job, np.minimum(sizes, self.problem.overhead.shape[1] - 1)]
            costs[self.choice[job] + np.arange(len(sizes))] = SCALE * self.problem.weight[job] * overhead
            costs[self.time + job] = self.problem.weight[job]
        return costs

    def _add_tangent(self, job: int, speed: float) -> None:
        """Time >= 2 W / R0 - W R / R0^2, where R is the sum of rates."""
        kinds = self.rates.shape[1]
        work = SCALE * float(self.problem.work[job])
        columns = np.concatenate([[self.time + job], job * kinds + np.arange(kinds)])
        slopes = np.concatenate([[1.0], work * self.rates[job] / speed**2])
        self._add(columns, slopes, 2.0 * work / speed, np.inf)

    def _add(self, columns: IntArray, values: FloatArray, low: float, high: float) -> None:
        self.rows.append((columns, values, low, high))
