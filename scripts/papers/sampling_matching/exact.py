"""Optima for judging matchings: by enumeration of all assignments, and by a mixed-integer program with a bound."""

import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array

from baselines.parts.highs import milp
from baselines.sampling_matching.kernels import seconds
from baselines.sampling_matching.problem import Problem, objective
from envs.simulation.compiled.jit import jit
from envs.types import FloatArray, IntArray, MurmurationError, Seconds

MOST_SPLITS = 500_000_000  # most splits that `every_split` enumerates
FIRST_TANGENTS = 12  # of each job's time over its throughput, before the first solution
SCALE = 1e-3  # of the objective in the program, to suit the solver's tolerances


@dataclass(frozen=True)
class Optimum:
    """The best matching found, and a lower bound on all matchings.

    Attributes:
        counts: int64[num_jobs, num_kinds].
        worth: weighted sum of the jobs' seconds.
        bound: lower bound on the worth of every matching.
    """

    counts: IntArray
    worth: float
    bound: float

    @property
    def gap(self) -> float:
        """Relative gap between `worth` and `bound`."""
        return 1.0 - self.bound / self.worth


def every_split(problem: Problem) -> Optimum:
    """The optimum by brute force: every way to split every set of workers between one job and the later jobs.

    Exact for any `Problem`, whatever its throughputs, restarts and idle workers. Workers of one type are equal. For K
    workers that all differ in type there are 3^K splits.

    Raises:
        MurmurationError: there are too many splits, or no matching can be run.
    """
    splits = float(np.prod((problem.supply + 1.0) * (problem.supply + 2.0) / 2.0))
    if splits > MOST_SPLITS:
        raise MurmurationError(f"every split: {splits:.3g} splits are too many; use `certified_optimum`")
    counts = np.zeros(problem.present.shape, np.int64)
    worth = _split_all(problem, counts)
    if np.isinf(worth):
        raise MurmurationError("every split: no matching serves all jobs; remove a job")
    return Optimum(counts, worth, worth)


@jit
def _times(problem: Problem, steps: IntArray) -> FloatArray:
    """float64[num_jobs, num_sets]: weighted seconds of each job on each set of workers."""
    jobs, num_types = problem.present.shape
    sets = steps[num_types]
    times = np.empty((jobs, sets))
    counts = np.zeros((jobs, num_types), np.int64)
    for chosen in range(sets):
        for job in range(jobs):
            for worker_type in range(num_types):
                counts[job, worker_type] = chosen // steps[worker_type] % (problem.supply[worker_type] + 1)
            times[job, chosen] = problem.weight[job] * seconds(problem, job, counts)
    return times


@jit
def _split_all(problem: Problem, best: IntArray) -> float:
    """The least total; `best` is written. A set of workers is a number whose digits count workers of each type."""
    jobs, num_types = best.shape
    steps = np.ones(num_types + 1, np.int64)
    for worker_type in range(num_types):
        steps[worker_type + 1] = steps[worker_type] * (problem.supply[worker_type] + 1)
    times = _times(problem, steps)
    sets = steps[num_types]
    behind = np.full(sets, np.inf)  # the least total of the later jobs, by the set left to them
    idle = np.sum(problem.supply) - min(np.sum(problem.supply), np.sum(problem.most))
    for whole in range(sets):
        size = 0
        for worker_type in range(num_types):
            size += whole // steps[worker_type] % (problem.supply[worker_type] + 1)
        if problem.may_idle or size == idle:
            behind[whole] = 0.0
    bits = np.max(problem.supply) == 1  # then sets are numbers in base 2, whose subsets enumerate faster
    taken = np.zeros((jobs, sets), np.int64)  # what each job takes of the set left to it and the later jobs
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
        for worker_type in range(num_types):
            best[job, worker_type] = taken[job, left] // steps[worker_type] % (problem.supply[worker_type] + 1)
        left -= taken[job, left]
    return float(behind[sets - 1])


@jit
def _next_part(part: int, whole: int, steps: IntArray) -> int:
    """The next smaller number whose digits are at most those of `whole`; -1 after the last."""
    for worker_type in range(len(steps) - 1):
        base = steps[worker_type + 1] // steps[worker_type]
        if part // steps[worker_type] % base > 0:
            return int(part - steps[worker_type])
        part += steps[worker_type] * (whole // steps[worker_type] % base)
    return -1


def certified_optimum(problem: Problem, gap: float = 1e-4, time_limit: Seconds = 60.0) -> Optimum:
    """The optimum by HiGHS up to a relative gap; at the time limit, the best matching and bound so far.

    A job's time is convex in the sum of its workers' throughputs, so tangents bound it from below, and the program with
    tangents in place of times bounds all matchings. If the true times of its solution do not close the gap, tangents at
    this solution are added and the program is solved again (Duran and Grossmann, "An outer-approximation algorithm for
    a class of mixed-integer nonlinear programs", Math. Programming 1986).

    Raises:
        MurmurationError: throughputs depend on the gang's size, there are restarts, or workers may idle (the program
            covers the paper's model only); or the solver found no matching.
    """
    if problem.throughputs.shape[1:3] != (1, 1) or problem.restart.any() or problem.may_idle:
        raise MurmurationError(
            "certified optimum: works on the paper's model only: throughputs by job and worker type, no restarts, "
            "no idle workers"
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
        raise MurmurationError(f"certified optimum: no matching found within {time_limit} s; give more time")
    return Optimum(best, worth, min(bound, worth))


class _Program:
    """The program: counts, the size of each job as 0/1 choices, and times above their tangents."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.throughputs = problem, problem.throughputs[:, 0, 0, :]
        jobs, num_types = self.throughputs.shape
        most = np.minimum(problem.most, problem.num_workers)
        self.sizes = [np.arange(least, high + 1) for least, high in zip(problem.least, most, strict=True)]
        starts = jobs * num_types + np.concatenate([[0], np.cumsum([len(sizes) for sizes in self.sizes])])
        self.choice = starts[:-1]  # column of each job's first choice of size
        self.time = int(starts[-1])  # column of the first job's time
        self.num_columns = self.time + jobs
        self.rows: list[tuple[IntArray, FloatArray, float, float]] = []  # columns, coefficients, from, to
        for worker_type in range(num_types):
            self._add(np.arange(jobs) * num_types + worker_type, np.ones(jobs), 0.0, float(problem.supply[worker_type]))
        self._add(np.arange(jobs * num_types), np.ones(jobs * num_types), problem.assigned, problem.assigned)
        for job in range(jobs):
            columns = self.choice[job] + np.arange(len(self.sizes[job]))
            self._add(columns, np.ones(len(columns)), 1.0, 1.0)
            both = np.concatenate([job * num_types + np.arange(num_types), columns])
            self._add(both, np.concatenate([np.ones(num_types), -self.sizes[job].astype(np.float64)]), 0.0, 0.0)
            held = np.repeat(self.throughputs[job], problem.supply)
            for gang_throughput in np.geomspace(held.min(), held.sum(), FIRST_TANGENTS):
                self._add_tangent(job, float(gang_throughput))

    def solve(self, gap: float, time_limit: Seconds) -> tuple[IntArray | None, float]:
        """Solve; return the best counts found, or None, and a lower bound on every matching's worth."""
        jobs, num_types = self.throughputs.shape
        columns, values, low, high = zip(*self.rows, strict=True)
        row = np.repeat(np.arange(len(self.rows)), [len(part) for part in columns])
        entries = (np.concatenate(values), (row, np.concatenate(columns)))
        matrix = csr_array(entries, shape=(len(self.rows), self.num_columns))
        whole, upper = np.ones(self.num_columns), np.ones(self.num_columns)
        whole[self.time :], upper[self.time :] = 0, np.inf
        upper[: jobs * num_types] = np.tile(self.problem.supply, jobs)
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
        return np.round(found.x[: jobs * num_types]).astype(np.int64).reshape(jobs, num_types), bound

    def add_tangents(self, counts: IntArray) -> None:
        """Add tangents at the throughputs of a matching."""
        for job, gang_throughput in enumerate((self.throughputs * counts).sum(axis=1).tolist()):
            self._add_tangent(job, gang_throughput)

    def _objective(self) -> FloatArray:
        costs = np.zeros(self.num_columns)
        for job, sizes in enumerate(self.sizes):
            overhead = self.problem.overhead[job, np.minimum(sizes, self.problem.overhead.shape[1] - 1)]
            costs[self.choice[job] + np.arange(len(sizes))] = SCALE * self.problem.weight[job] * overhead
            costs[self.time + job] = self.problem.weight[job]
        return costs

    def _add_tangent(self, job: int, gang_throughput: float) -> None:
        """Add time >= 2 W / R0 - W R / R0^2, where R is the sum of the workers' throughputs."""
        num_types = self.throughputs.shape[1]
        work = SCALE * float(self.problem.work[job])
        columns = np.concatenate([[self.time + job], job * num_types + np.arange(num_types)])
        slopes = np.concatenate([[1.0], work * self.throughputs[job] / gang_throughput**2])
        self._add(columns, slopes, 2.0 * work / gang_throughput, np.inf)

    def _add(self, columns: IntArray, values: FloatArray, low: float, high: float) -> None:
        self.rows.append((columns, values, low, high))
