"""Search for a scheduler's parameters on training workloads, to be checked on validation workloads."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.optimize

from envs.evaluation.distinct import distinct
from envs.evaluation.outcome import Outcome
from envs.evaluation.playing import workload_seed
from envs.evaluation.spread import LostCallError, Spread, one_after_another
from envs.scheduling import Scheduler
from envs.simulation import Setup, Simulator, run_episode
from envs.types import FloatArray, MurmurationError
from envs.workloads import Workload, WorkloadSource

# Builds a scheduler with these parameters; {} means the defaults.
SchedulerFactory = Callable[[Mapping[str, float]], Scheduler]
# Receives the number of evaluations so far, the best score and its parameters.
ImprovementCallback = Callable[[int, float, Mapping[str, float]], None]
# Receives the number of evaluations so far.
EvaluationCallback = Callable[[int], None]
CLEAR = 1.96  # standard errors that a clear improvement exceeds: a 95 % interval of a normal distribution


@dataclass(frozen=True, slots=True)
class Parameter:
    """The range of a parameter to search for.

    Args:
        low: least value.
        high: greatest value.
        log: search on a logarithmic scale.

    Raises:
        MurmurationError: the range is empty or infinite, or its logarithm does not exist.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise MurmurationError(
                f"parameter: low is {self.low}, high is {self.high}; low must be less than high and both finite"
            )
        if self.log and self.low <= 0:
            raise MurmurationError(f"parameter: low is {self.low}; on a logarithmic scale it must be positive")

    def value(self, position: float) -> float:
        """Return the value at a position between 0 (`low`) and 1 (`high`)."""
        if self.log:
            return float(self.low * (self.high / self.low) ** position)
        return float(self.low + (self.high - self.low) * position)


@dataclass(frozen=True)
class ProblemSet:
    """A cluster with its rules, the workloads to run on it, and where they are run."""

    setup: Setup
    workloads: Sequence[Workload]
    seed: int = 0
    spread: Spread = one_after_another

    def outcomes(self, scheduler: Scheduler) -> list[Outcome]:
        """Run every workload and return the outcomes.

        Raises:
            LostCallError: a workload ended the process on which it was run, each time.
        """
        calls = [(index,) for index in range(len(self.workloads))]
        outcomes = []
        for found in self.spread(play_outcome, (self.setup, self.workloads, self.seed, scheduler), calls):
            if isinstance(found, LostCallError):
                raise found
            outcomes.append(found)
        return outcomes


def play_outcome(setup: Setup, workloads: Sequence[Workload], seed: int, scheduler: Scheduler, index: int) -> Outcome:
    """Run the workload at an index and return its outcome."""
    simulator = Simulator(workloads[index], setup, workload_seed(seed, index))
    return Outcome.of(run_episode(scheduler, simulator), setup.scenario)


class RelativeScore:
    """Scores of schedulers on problem sets: the mean logarithm of the ratio of mean JCT to a reference's.

    -0.05 is 5 % better than the reference. Every workload has the same weight, however long its jobs are. If jobs are
    starved (see `Outcome`), the score is infinite, whatever other jobs gain.

    Args:
        problem_sets: clusters and workloads to run on.
        reference: the scheduler to compare with, which runs once.

    Raises:
        MurmurationError: the reference starves jobs, so that ratios to it do not exist.
    """

    def __init__(self, problem_sets: Sequence[ProblemSet], reference: Scheduler) -> None:
        self.problem_sets = problem_sets
        self._reference = [_log_mean_jcts(problem_set.outcomes(reference)) for problem_set in problem_sets]
        if not all(np.isfinite(logs).all() for logs in self._reference):
            raise MurmurationError("tuning: the reference starves jobs here; choose another one, such as fifo")

    def score(self, scheduler: Scheduler) -> float:
        """Return the mean over all workloads; less is better."""
        return float(np.concatenate(self.by_problem_set(scheduler)).mean())

    def by_problem_set(self, scheduler: Scheduler) -> list[FloatArray]:
        """Return float64[num_workloads] for each problem set: log ratios of mean JCT, infinite where jobs starve."""
        pairs = zip(self.problem_sets, self._reference, strict=True)
        return [_log_mean_jcts(problem_set.outcomes(scheduler)) - reference for problem_set, reference in pairs]


def _log_mean_jcts(outcomes: Sequence[Outcome]) -> FloatArray:
    return np.array([math.inf if outcome.num_starved else math.log(outcome.mean_jct) for outcome in outcomes])


class Improvement(NamedTuple):
    """Scores of the same workloads under a scheduler's present values and under those found; less is better.

    Attributes:
        before: mean score of the present values, see `RelativeScore`.
        after: mean score of the values found.
        change: mean of the paired differences; exp(`change`) is the geometric mean of the ratios of mean JCT.
        error: standard error of that mean; infinite for fewer than two workloads.
    """

    before: float
    after: float
    change: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether the values found are better by more than a 95 % interval."""
        return self.change + CLEAR * self.error < 0


def improvement(before: Sequence[FloatArray], after: Sequence[FloatArray]) -> Improvement:
    """Compare scores by problem set, as `RelativeScore.by_problem_set` returns them, workload by workload.

    No change is clear if jobs starve under the present values or those found.
    """
    old, new = np.concatenate(before), np.concatenate(after)
    if not (np.isfinite(old).all() and np.isfinite(new).all()):
        return Improvement(float(old.mean()), float(new.mean()), math.inf, math.inf)
    change = new - old
    error = float(change.std(ddof=1) / math.sqrt(len(change))) if len(change) > 1 else math.inf
    return Improvement(float(old.mean()), float(new.mean()), float(change.mean()), error)


@dataclass(frozen=True)
class TuningResult:
    """The result of a search; its scores are those of `RelativeScore`."""

    values: Mapping[str, float]
    score: float  # on the training workloads
    default_score: float  # of the scheduler's defaults, on the training workloads
    evaluations: int


def search(
    make: SchedulerFactory,
    parameters: Mapping[str, Parameter],
    objective: RelativeScore,
    *,
    generations: int = 20,
    population: int = 3,
    seed: int = 0,
    listener: ImprovementCallback | None = None,
    progress: EvaluationCallback | None = None,
) -> TuningResult:
    """Search for the parameters with the least score by differential evolution (Storn and Price 1997; SciPy's).

    The score is a step function of the parameters with many local minima, so the search uses neither gradients nor a
    model of the surface. All candidates run the same workloads with the same seeds. The result is the defaults if no
    candidate is better.

    Args:
        make: builds the scheduler.
        parameters: ranges to search, by name.
        objective: scores on training workloads.
        generations: maximum number of generations.
        population: candidates per generation, in multiples of the number of parameters.
        seed: seed of the search.
        listener: is called at every improvement.
        progress: is called after every evaluation.

    Raises:
        MurmurationError: there is no parameter to search for.
    """
    if not parameters:
        raise MurmurationError("tuning: no parameter to search for; give at least one with its range")
    default = objective.score(make({}))
    best = [default]
    found: list[dict[str, float]] = [{}]
    played = [0]

    def score(positions: FloatArray) -> float:
        values = {name: space.value(x) for (name, space), x in zip(parameters.items(), positions, strict=True)}
        value = objective.score(make(values))
        played[0] += 1
        if progress:
            progress(played[0])
        if value < best[0]:
            best[0], found[0] = value, values
            if listener:
                listener(played[0], value, values)
        return value

    scipy.optimize.differential_evolution(
        score,
        scipy.optimize.Bounds(np.zeros(len(parameters)), np.ones(len(parameters))),
        maxiter=generations,
        popsize=population,
        init="sobol",
        polish=False,
        rng=np.random.default_rng(seed),
    )
    return TuningResult(found[0], best[0], default, played[0])


def draw_problem_set(
    source: WorkloadSource,
    setup: Setup,
    num_workloads: int,
    seed: int,
    split: str = "train",
    spread: Spread = one_after_another,
) -> ProblemSet:
    """Build a problem set with new workloads of a split of the source; fewer than requested if the split has no more.

    Raises:
        TraceError: the split does not exist.
    """
    rng = np.random.default_rng(seed)
    workloads = distinct((source.episode(rng, split) for _ in itertools.count()), num_workloads)
    return ProblemSet(setup, workloads, seed, spread)
