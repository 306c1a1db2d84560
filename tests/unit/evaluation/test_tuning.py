"""The search for a scheduler's parameters."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import Fifo, Srtf
from envs.evaluation.tuning import Parameter, ProblemSet, RelativeScore, draw_problem_set, improvement, search
from envs.performance import IdealModel, default_model
from envs.simulation import Scenario, Setup
from envs.types import ClusterSpec, MurmurationError, NodeSpec, TraceError
from envs.workloads import SyntheticSource
from tests.golden.playground import jobs

ONE_GPU = ClusterSpec((NodeSpec("plain", 1),))
FREE = Scenario(restart_delay=0.0)


@dataclass
class Lazy:
    """Runs only the job whose length is nearest to `near`; counts its calls."""

    near: float = 100.0

    def reset(self, cluster, rng):
        """Has no state to reset."""

    def schedule(self, view):
        """Run one job at a time."""
        allocation = view.allocation(keep_running=True)
        waiting = view.queued
        if waiting.size and not view.running.size:
            allocation.pack(int(waiting[np.abs(view.remaining_time(waiting) - self.near).argmin()]))
        return allocation


def problem_set(*rows):
    """One GPU and one workload."""
    return ProblemSet(Setup(ONE_GPU, IdealModel(), FREE), [jobs(*rows)])


def make(values):
    """A lazy scheduler with these parameters."""
    return Lazy(**values)


THREE = ((0.0, 1, 1.0), (0.0, 1, 10.0), (0.0, 1, 40.0))


def test_the_score_is_the_mean_log_ratio():
    """FIFO of 40, 10, 1 s: 40, 50, 51. Shortest first: 1, 11, 51. On the second problem set both are equal."""
    both = [problem_set(*reversed(THREE)), problem_set((0.0, 1, 5.0))]
    objective = RelativeScore(both, Fifo())
    assert objective.score(Srtf()) == pytest.approx(np.log(63 / 141) / 2)
    assert [part.tolist() for part in objective.by_problem_set(Fifo())] == [[0.0], [0.0]]


def test_jobs_that_are_cut_off_count_until_the_end():
    """Until 20: the job of 1 s ends at 1, that of 10 at 11, that of 40 has waited or run for 20."""
    cut = ProblemSet(Setup(ONE_GPU, IdealModel(), Scenario(restart_delay=0.0, horizon=20.0)), [jobs(*THREE)])
    assert cut.outcomes(Srtf())[0].mean_jct == pytest.approx((1 + 11 + 20) / 3)
    assert np.isfinite(RelativeScore([cut], Fifo()).score(Srtf()))


@dataclass
class Choosy(Lazy):
    """Never starts a job longer than `most`."""

    most: float = 1000.0

    def schedule(self, view):
        """Run one job at a time, if there is one that is short enough."""
        allocation = view.allocation(keep_running=True)
        waiting = view.queued[view.remaining_time(view.queued) <= self.most]
        if waiting.size and not view.running.size:
            allocation.pack(int(waiting[0]))
        return allocation


ONE_LONG = ((0.0, 1, 1.0), (0.0, 1, 10.0), (0.0, 1, 1e6))


def test_starving_gives_an_infinite_score_although_the_mean_is_lower():
    field = problem_set(*ONE_LONG)
    starved, done = field.outcomes(Choosy(most=20.0))[0], field.outcomes(Choosy(most=1e7))[0]
    assert starved.mean_jct < done.mean_jct
    objective = RelativeScore([field, problem_set(*THREE)], Fifo())
    assert objective.score(Choosy(most=1e7)) == pytest.approx(0.0)
    assert objective.score(Choosy(most=20.0)) == np.inf
    assert [part.tolist() for part in objective.by_problem_set(Choosy(most=45.0))] == [[np.inf], [pytest.approx(0.0)]]


def test_a_search_avoids_starving():
    """Only the milder half of the limits lets the long job run; all others have lower means."""
    found = search(
        lambda values: Choosy(**values), {"most": Parameter(20.0, 2e6)},
        RelativeScore([problem_set(*ONE_LONG)], Fifo()), generations=3, population=8,
    )  # fmt: skip
    assert found.default_score == np.inf
    assert found.values["most"] >= 1e6
    assert found.score == pytest.approx(0.0)


def test_a_reference_that_starves_is_refused():
    with pytest.raises(MurmurationError, match="the reference starves jobs here; choose another"):
        RelativeScore([problem_set(*ONE_LONG)], Choosy(most=20.0))


def test_a_search_finds_better_parameters_than_the_defaults():
    """Nearest to 100 s means longest first; nearest to a value below 5.5 means shortest first."""
    told = []
    found = search(
        make, {"near": Parameter(0.0, 100.0)}, RelativeScore([problem_set(*THREE)], Fifo()),
        generations=8, population=4,
        listener=lambda evaluations, score, values: told.append((evaluations, score, dict(values))),
    )  # fmt: skip
    assert found.values["near"] < 5.5
    assert found.score == pytest.approx(0.0)
    assert found.default_score == pytest.approx(np.log(141 / 63))
    assert told[-1][1:] == (found.score, found.values)
    assert [score for _, score, _ in told] == sorted((score for _, score, _ in told), reverse=True)
    assert 0 < told[-1][0] <= found.evaluations


def test_the_defaults_are_kept_if_nothing_is_better():
    best = search(
        lambda values: Lazy(values.get("near", 0.0)), {"near": Parameter(60.0, 100.0)},
        RelativeScore([problem_set(*THREE)], Fifo()), generations=1, population=4,
    )  # fmt: skip
    assert best.values == {}
    assert best.score == best.default_score


def test_a_seed_determines_the_search():
    def once(seed):
        return search(
            make, {"near": Parameter(1.0, 100.0, log=True)}, RelativeScore([problem_set(*THREE)], Fifo()),
            generations=2, population=4, seed=seed,
        )  # fmt: skip

    assert once(1) == once(1)
    assert once(1).values != once(2).values


@given(low=st.floats(0.001, 10), factor=st.floats(1.5, 100), position=st.floats(0, 1), log=st.booleans())
def test_values_are_within_the_range(low, factor, position, log):
    parameter = Parameter(low, low * factor, log)
    assert low * (1 - 1e-9) <= parameter.value(position) <= low * factor * (1 + 1e-9)
    assert parameter.value(0.0) == pytest.approx(low)
    assert parameter.value(1.0) == pytest.approx(low * factor)


def test_scales():
    assert Parameter(1.0, 100.0).value(0.5) == 50.5
    assert Parameter(1.0, 100.0, log=True).value(0.5) == pytest.approx(10)


@pytest.mark.parametrize(
    ("range_", "said"),
    [
        ((2.0, 1.0, False), "low is 2.0, high is 1.0; low must be less"),
        ((0.0, float("inf"), False), "both finite"),
        ((0.0, 1.0, True), "low is 0.0; on a logarithmic scale it must be positive"),
    ],
)
def test_impossible_ranges_are_refused(range_, said):
    with pytest.raises(MurmurationError, match=said):
        Parameter(*range_)


def test_a_search_without_parameters_is_refused():
    with pytest.raises(MurmurationError, match="no parameter to search for"):
        search(make, {}, RelativeScore([problem_set(*THREE)], Fifo()))


def test_problem_sets_have_new_workloads_of_their_split():
    cluster, performance = ClusterSpec((NodeSpec("V100", 8), NodeSpec("V100", 8))), default_model()
    source = SyntheticSource(cluster, performance, num_jobs=5)
    one, same, other, held_out = (
        draw_problem_set(source, Setup(cluster, performance, FREE), 2, seed, split)
        for seed, split in ((0, "train"), (0, "train"), (1, "train"), (0, "validation"))
    )
    drawn = [[workload.jobs["work"].tolist() for workload in made.workloads] for made in (one, same, other, held_out)]
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]
    assert drawn[0] != drawn[2]
    assert drawn[0] != drawn[3]
    with pytest.raises(TraceError, match="there is no split 'trian'; it has"):
        draw_problem_set(source, Setup(cluster, performance, FREE), 1, 0, "trian")


class OneEpisode(SyntheticSource):
    """Returns the same jobs at every draw, like a split that is no longer than an episode."""

    def episode(self, rng, split="train"):
        """Ignore the draw."""
        return super().episode(np.random.default_rng(0), split)


def test_the_same_workload_is_not_counted_twice():
    cluster, performance = ClusterSpec((NodeSpec("V100", 8), NodeSpec("V100", 8))), default_model()
    made = draw_problem_set(OneEpisode(cluster, performance, num_jobs=5), Setup(cluster, performance, FREE), 6, 0)
    assert len(made.workloads) == 1


def test_an_improvement_is_paired():
    """Both workloads gain 0.1 and 0.3, however different they are: 0.2 +- 0.1, more than 1.96 standard errors."""
    gain = improvement([np.array([5.0]), np.array([-3.0])], [np.array([4.9]), np.array([-3.3])])
    assert (gain.before, gain.after) == pytest.approx((1.0, 0.8))
    assert (gain.change, gain.error) == pytest.approx((-0.2, 0.1))
    assert gain.is_clear


@pytest.mark.parametrize("after", [[0.1, -0.2], [0.0, 0.0], [-1.0, np.inf], [-1.0]])
def test_an_unclear_improvement_is_none(after):
    """No gain on average, no difference, starved jobs, and one workload alone."""
    assert not improvement([np.zeros(len(after))], [np.array(after)]).is_clear
