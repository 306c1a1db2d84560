"""Starling where throughputs must be found out, worked by hand: what it tries, and what it does not."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pytest

from baselines.starling.exploring import ExplorationRules
from baselines.starling.scheduler import Starling
from envs.simulation import Information, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import (
    ClusterSpec,
    Configuration,
    EstimatedCurve,
    JobSpec,
    KnownCurves,
    MurmurationError,
    NodeSpec,
    ThroughputSamples,
)
from envs.workloads import Workload
from tests.golden.playground import places, restarts, times

CLUSTER = ClusterSpec((NodeSpec("plain", 4), NodeSpec("odd", 4)), "plain and odd")
TRYING = ExplorationRules(optimism=2.0, long=3600.0)
LONG, SHORT = 20_000.0, 2_000.0  # seconds of four GPUs at one sample/s on each


@dataclass(frozen=True)
class OddGpus:
    """Linear scaling; one sample/s on a plain GPU, `odd` on an odd one."""

    odd: float
    models: tuple[str, ...] = ("first", "second")

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples/s."""
        return configuration.num_gpus * (self.odd if configuration.gpu_type == "odd" else 1.0)


class Guess:
    """Right about plain GPUs, with a spread of 0.1; about odd ones only once a job has run there.

    Args:
        believed: samples/s on one odd GPU before, with a spread of 0.5.
    """

    def __init__(self, believed: float) -> None:
        self.believed = believed

    def fit(self, known: KnownCurves) -> "GuessedCurve":
        """See `envs.scheduling.ThroughputEstimator`."""
        return GuessedCurve(self.believed, known.runs.shape)


class GuessedCurve(NamedTuple):
    """What `Guess` believes of one model."""

    believed: float
    shape: tuple[int, ...]

    def estimate(self, samples: ThroughputSamples) -> EstimatedCurve:
        """See `envs.scheduling.ThroughputFit`."""
        odd, gpus = CLUSTER.gpu_types.index("odd"), np.indices(self.shape)[1]
        per_gpu, spread = np.ones(self.shape), np.full(self.shape, 0.1)
        per_gpu[odd], spread[odd] = self.believed, 0.5
        for at in np.flatnonzero((samples.cells[:, 0] == odd) & ~samples.stated).tolist():
            per_gpu[odd], spread[odd] = samples.throughput[at] / samples.cells[at, 1], 0.1
        return EstimatedCurve(np.maximum(gpus, 1) * per_gpu, spread)


def play_odd(
    odd: float,
    believed: float,
    *seconds: float,
    exploration: ExplorationRules | None = TRYING,
    throughput: Literal["exact", "observed"] = "observed",
) -> RunResult:
    """Play rigid jobs of four GPUs, one of each model, all submitted at 0; a restart takes 10 s."""
    information = Information(throughput=throughput, stated_error=0.0, sample_error=0.0)
    scenario = Scenario(restart_delay=10.0, batch_sizes="usual", information=information)
    models = OddGpus.models
    workload = Workload.of([JobSpec(i, 0.0, 4, 4 * each, models[i]) for i, each in enumerate(seconds)])
    scheduler = Starling(look_ahead=0, exploration=exploration)
    return run_episode(scheduler, Simulator(workload, Setup(CLUSTER, OddGpus(odd), scenario, Guess(believed)), 0))


@pytest.mark.parametrize(("exploration", "seconds"), [(None, LONG), (TRYING, SHORT)])
def test_without_exploration_or_for_a_short_job_the_better_belief_wins(exploration, seconds):
    """Odd GPUs are twice as fast, but believed to be slower by a tenth: the job runs on plain ones to its end."""
    result = play_odd(2.0, 0.9, seconds, exploration=exploration)
    assert (times(result), restarts(result)) == ([(0, seconds)], [0])


def test_a_long_job_tries_the_gpus_of_which_little_is_known():
    """0.9 samples/s count as 0.9 * exp(2 * (0.5 - 0.1)) = 2.0. The job has 2 indeed, and ends in half the time."""
    result = play_odd(2.0, 0.9, LONG)
    assert (times(result), restarts(result)) == ([(0, LONG / 2)], [0])


def test_a_failed_try_ends_as_soon_as_it_has_shown_the_throughput():
    """Odd GPUs have 0.5 samples/s. At 1 s the job has done 2 of 80,000 samples; it moves, and begins again at 11 s."""
    result = play_odd(0.5, 0.9, LONG)
    assert places(result, 0) == [(0, {1: 4}), (1, {0: 4})]
    assert times(result) == [(0, 11 + (4 * LONG - 2) / 4)]


@pytest.mark.parametrize(("seconds", "moves"), [(SHORT, 0), (LONG, 1)])
def test_a_small_believed_gain_is_worth_a_restart_only_to_learn(seconds, moves):
    """The first job takes the odd GPUs for 50 s. Then the second one could gain a tenth there, as it is believed: too
    little for a restart. If it is long, it moves to learn that it is twice as fast.
    """
    result = play_odd(2.0, 1.1, 100.0, seconds)
    assert places(result, 0) == [(0, {1: 4})]
    assert restarts(result) == [0, moves]
    assert places(result, 1)[1:] == [(50, {1: 4})][:moves]


def test_where_throughputs_are_known_nothing_is_tried():
    """The same events with and without exploration, and no further decisions."""
    explored, plain = (
        play_odd(0.9, 0.9, LONG, SHORT, throughput="exact", exploration=rules) for rules in (TRYING, None)
    )
    assert explored.log == plain.log
    assert explored.num_rounds == plain.num_rounds


@pytest.mark.parametrize("rules", [ExplorationRules(optimism=-1.0), ExplorationRules(long=float("nan"))])
def test_invalid_rules_are_refused(rules):
    with pytest.raises(MurmurationError, match="exploration: .* must not be negative"):
        Starling(exploration=rules)
