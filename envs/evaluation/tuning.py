"""Search for a scheduler's parameters on training workloads, to be checked on validation workloads."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from envs.evaluation.compare import workload_seed
from envs.evaluation.distinct import distinct
from envs.evaluation.outcome import Outcome
from envs.scheduling import Scheduler
from envs.simulation import Setup, Simulator, run_episode
from envs.types import FloatArray, MurmurationError
from envs.workloads import Workload, WorkloadSource

Make = Callable[[Mapping[str, float]], Scheduler]  # builds a scheduler with these parameters; {} means the defaults
ImprovementCallback = Callable[[int, float, Mapping[str, float]], None]  # evaluations, best score, its parameters


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
class Ground:
    """A cluster with its rules, and the workloads to run on it."""

    setup: Setup
    workloads: Sequence[Workload]
    seed: int = 0

    def outcomes(self, scheduler: Scheduler) -> list[Outcome]:
        """Run every workload and return the outcomes."""
        return [self._outcome(scheduler, index) for index in range(len(self.workloads))]

    def _outcome(self, scheduler: Scheduler, index: int) -> Outcome:
        seed = workload_seed(self.seed, index)
        simulator = Simulator(self.workloads[index], self.setup, seed)
        return Outcome.of(run_episode(scheduler, simulator), self.setup.scenario)


class Yardstick:
    """Scores of schedulers on some grounds: the mean logarithm of the ratio of mean JCT to a reference's.

    -0.05 is 5 % better than the reference. Every workload has the same weight, however long its jobs are. If jobs are
    starved (see `Outcome`), the score is infinite, whatever other jobs gain.

    Args:
        grounds: the grounds to run on.
        reference: the scheduler to compare with, which runs once.

    Raises:
        MurmurationError: the reference starves jobs, so that ratios to it do not exist.
    """

    def __init__(self, grounds: Sequence[Ground], reference: Scheduler) -> None:
        self.grounds = grounds
        self._reference = [_log_mean_jcts(ground.outcomes(reference)) for ground in grounds]
        if not all(np.isfinite(logs).all() for logs in self._reference):
            raise MurmurationError("tuning: the reference starves jobs here; choose another one, such as fifo")

    def score(self, scheduler: Scheduler) -> float:
        """Return the mean over all workloads; less is better."""
        return float(np.concatenate(self.by_ground(scheduler)).mean())

    def by_ground(self, scheduler: Scheduler) -> list[FloatArray]:
        """Return for each ground float64[num_workloads]: log ratios of mean JCT, infinite where jobs are starved."""
        pairs = zip(self.grounds, self._reference, strict=True)
        return [_log_mean_jcts(ground.outcomes(scheduler)) - reference for ground, reference in pairs]


def _log_mean_jcts(outcomes: Sequence[Outcome]) -> FloatArray:
    return np.array([math.inf if outcome.num_starved else math.log(outcome.mean_jct) for outcome in outcomes])


@dataclass(frozen=True)
class Tuned:
    """The result of a search; scores are those of `Yardstick`."""

    values: Mapping[str, float]
    score: float  # on the training workloads
    default_score: float  # of the scheduler's defaults, on the training workloads
    evaluations: int


def search(
    make: Make,
    parameters: Mapping[str, Parameter],
    yardstick: Yardstick,
    *,
    generations: int = 20,
    population: int = 3,
    seed: int = 0,
    listener: ImprovementCallback | None = None,
) -> Tuned:
    """Search for the parameters with the least score by differential evolution (Storn and Price 1997; SciPy's).

    The score is a step function of the parameters with many local minima, so the search uses neither gradients nor a
    model of the surface. All candidates run the same workloads with the same seeds. The result is the defaults if no
    candidate is better.

    Args:
        make: builds the scheduler.
        parameters: ranges to search, by name.
        yardstick: scores on training workloads.
        generations: maximum number of generations.
        population: candidates per generation, in multiples of the number of parameters.
        seed: seed of the search.
        listener: is called at every improvement.

    Raises:
        MurmurationError: there is no parameter to search for.
    """
    if not parameters:
        raise MurmurationError("tuning: no parameter to search for; give at least one with its range")
    default = yardstick.score(make({}))
    best = [default]
    found: list[dict[str, float]] = [{}]
    played = [0]

    def score(positions: FloatArray) -> float:
        values = {name: space.value(x) for (name, space), x in zip(parameters.items(), positions, strict=True)}
        value = yardstick.score(make(values))
        played[0] += 1
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
    return Tuned(found[0], best[0], default, played[0])


def training_ground(
    source: WorkloadSource,
    setup: Setup,
    num_workloads: int,
    seed: int,
    split: str = "train",
) -> Ground:
    """Build a ground with new workloads of a split of the source; fewer than requested if the split has no more.

    Raises:
        TraceError: the split does not exist.
    """
    rng = np.random.default_rng(seed)
    workloads = distinct((source.episode(rng, split) for _ in itertools.count()), num_workloads)
    return Ground(setup, workloads, seed)
