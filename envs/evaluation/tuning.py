"""A scheduler's numbers, searched for on training workloads and held against validation workloads."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from envs.evaluation.compare import workload_seed
from envs.evaluation.distinct import distinct
from envs.evaluation.outcome import Outcome
from envs.performance import PerformanceModel
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Simulator, run_episode
from envs.types import ClusterSpec, FloatArray, MurmurationError
from envs.workloads import Workload, WorkloadSource

Make = Callable[[Mapping[str, float]], Scheduler]  # a scheduler with these numbers; its defaults for {}
Listener = Callable[[int, float, Mapping[str, float]], None]  # evaluations so far, the best score, its numbers


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number to search for.

    Args:
        low: least value.
        high: greatest value.
        log: search on a logarithmic scale.

    Raises:
        MurmurationError: there is nothing between the two, or no logarithm.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise MurmurationError(f"parameter: low is {self.low}, high is {self.high}; low must be less, both finite")
        if self.log and self.low <= 0:
            raise MurmurationError(f"parameter: low is {self.low}; on a logarithmic scale it must be positive")

    def value(self, position: float) -> float:
        """The value at a position from 0, at `low`, to 1, at `high`."""
        if self.log:
            return float(self.low * (self.high / self.low) ** position)
        return float(self.low + (self.high - self.low) * position)


@dataclass(frozen=True)
class Ground:
    """A world and the workloads that are played in it."""

    cluster: ClusterSpec
    performance: PerformanceModel
    scenario: Scenario
    workloads: Sequence[Workload]
    seed: int = 0

    def outcomes(self, scheduler: Scheduler) -> list[Outcome]:
        """What each workload comes to."""
        return [self._outcome(scheduler, index) for index in range(len(self.workloads))]

    def _outcome(self, scheduler: Scheduler, index: int) -> Outcome:
        seed = workload_seed(self.seed, index)
        world = Simulator(self.workloads[index], self.cluster, self.performance, self.scenario, seed)
        return Outcome.of(run_episode(scheduler, world), self.scenario)


class Yardstick:
    """Scores of schedulers on some grounds: the mean logarithm of mean JCT relative to a reference's.

    -0.05 is 5 % better than the reference. Every workload counts the same, however long its jobs are. Where jobs are
    abandoned (see `Outcome`) the score is infinite: no gain for others makes up for that.

    Args:
        grounds: where to play.
        reference: whom to be compared with; it plays once.

    Raises:
        MurmurationError: the reference abandons jobs, so that nothing can be measured by it.
    """

    def __init__(self, grounds: Sequence[Ground], reference: Scheduler) -> None:
        self.grounds = grounds
        self._reference = [_log_mean_jcts(ground.outcomes(reference)) for ground in grounds]
        if not all(np.isfinite(logs).all() for logs in self._reference):
            raise MurmurationError("tuning: the reference leaves jobs undone here; choose another, such as fifo")

    def score(self, scheduler: Scheduler) -> float:
        """The mean over all workloads; less is better."""
        return float(np.concatenate(self.by_ground(scheduler)).mean())

    def by_ground(self, scheduler: Scheduler) -> list[FloatArray]:
        """For each ground float64[num_workloads]: log ratios of mean JCT, infinite where jobs are abandoned."""
        pairs = zip(self.grounds, self._reference, strict=True)
        return [_log_mean_jcts(ground.outcomes(scheduler)) - reference for ground, reference in pairs]


def _log_mean_jcts(outcomes: Sequence[Outcome]) -> FloatArray:
    return np.array([math.inf if outcome.num_abandoned else math.log(outcome.mean_jct) for outcome in outcomes])


@dataclass(frozen=True)
class Tuned:
    """What a search found; scores are those of `Yardstick`."""

    values: Mapping[str, float]
    score: float  # on the training workloads
    default_score: float  # there, with the scheduler's defaults
    evaluations: int


def search(
    make: Make,
    parameters: Mapping[str, Parameter],
    yardstick: Yardstick,
    *,
    generations: int = 20,
    population: int = 3,
    seed: int = 0,
    listener: Listener | None = None,
) -> Tuned:
    """The numbers with the least score, by differential evolution (Storn and Price 1997; SciPy's).

    The score is a step function of the numbers, with many local minima: no gradient, no model of the surface is
    assumed. All candidates play the same workloads with the same seeds. The defaults stay where nothing beats them.

    Args:
        make: builds the scheduler.
        parameters: what to search for, by name.
        yardstick: on training workloads.
        generations: at most so many.
        population: candidates of a generation, in multiples of the number of parameters.
        seed: of the search.
        listener: is told of every improvement.

    Raises:
        MurmurationError: nothing to search for.
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
    cluster: ClusterSpec,
    performance: PerformanceModel,
    scenario: Scenario,
    num_workloads: int,
    seed: int,
    split: str = "train",
) -> Ground:
    """A ground with fresh workloads of a split of the source; fewer than asked for where the split holds no more.

    Raises:
        TraceError: there is no such split.
    """
    rng = np.random.default_rng(seed)
    workloads = distinct((source.episode(rng, split) for _ in itertools.count()), num_workloads)
    return Ground(cluster, performance, scenario, workloads, seed)
