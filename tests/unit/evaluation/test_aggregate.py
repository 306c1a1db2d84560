"""Aggregates over workloads and seeds: against SciPy, against cases worked by hand, and for coverage."""

import json

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.evaluation import Comparison
from envs.evaluation.aggregate import (
    aggregate_comparison,
    improvement_probability,
    interquartile_mean,
    interquartile_means,
    performance_profile,
    profile_thresholds,
    resample,
    stratified_bootstrap,
)
from murmuration.reports.marl_eval import to_marl_eval
from tests.unit.evaluation.test_comparison import shifted
from tests.unit.metrics.fabricated import three_jobs

MATRICES = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).integers(0, 5, (3, 4)) / 4)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert interquartile_mean([[1, 2, 3, 4], [5, 6, 7, 800]]) == (3 + 4 + 5 + 6) / 4
    assert interquartile_mean([7]) == 7
    assert np.isnan(interquartile_mean([]))


@given(MATRICES)
def test_the_interquartile_mean_is_scipys(scores):
    assert interquartile_mean(scores) == pytest.approx(scipy.stats.trim_mean(scores.ravel(), 0.25))


def test_the_probability_of_improvement_worked_by_hand():
    """Workload 0: the scores 1 and 3 against 2: one of two is better. Workload 1: a tie and a win: 1.5 of 2."""
    scores = np.array([[1.0, 4.0], [3.0, 2.0]])
    assert improvement_probability(scores, np.array([[2.0, 4.0]])) == (0.5 + 0.75) / 2
    assert improvement_probability(np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 2.0, 2.0]])) == (1 + 0.5 + 0) / 3
    assert np.isnan(improvement_probability(np.ones((1, 0)), np.ones((1, 0))))


@given(MATRICES, MATRICES)
def test_the_probability_of_improvement_is_scipys_mann_whitney_statistic(scores, other):
    statistic = scipy.stats.mannwhitneyu(other, scores, axis=0, method="asymptotic").statistic
    assert improvement_probability(scores, other) == pytest.approx(np.mean(statistic) / 9)
    assert improvement_probability(scores, other) + improvement_probability(other, scores) == pytest.approx(1)


def test_a_performance_profile_worked_by_hand():
    scores = np.array([[0.5, 1.0], [1.0, 2.0]])
    assert performance_profile(scores, np.array([0.4, 0.5, 1.0, 1.5, 3.0])).tolist() == [0, 0.25, 0.75, 0.75, 1]


@settings(max_examples=20)
@given(st.integers(0, 99))
def test_a_resample_draws_the_same_workloads_for_all(seed):
    labels = np.arange(12.0).reshape(3, 4)
    ones, others = resample([labels, np.broadcast_to(np.arange(4.0), (1, 4))], np.random.default_rng(seed), 5)
    assert ones.shape == (5, 3, 4)
    assert len(np.unique(others, axis=0)) > 1
    for one, other in zip(ones, others, strict=True):
        assert np.array_equal(one % 4, np.repeat(other, 3, axis=0))
        assert np.ptp(one // 4, axis=1).tolist() == [0, 0, 0]


@given(MATRICES, MATRICES)
def test_statistics_of_many_resamples_are_those_of_each(scores, other):
    drawn, against = np.stack([scores, other]), np.stack([other, scores])
    assert interquartile_means(drawn.reshape(2, -1)).tolist() == [interquartile_mean(each) for each in drawn]
    expected = [improvement_probability(scores, other), improvement_probability(other, scores)]
    assert improvement_probability(drawn, against).tolist() == expected


def test_with_one_workload_per_stratum_the_bootstrap_is_scipys():
    """rliable's case: each task has one number for each run, and runs are drawn within tasks."""
    rng = np.random.default_rng(0)
    tasks = [rng.normal(task, 1.0, (20, 1)) for task in range(4)]

    def iqm(strata):
        return interquartile_means(np.concatenate([stratum[0][..., 0] for stratum in strata], axis=-1))

    ours = stratified_bootstrap([[task] for task in tasks], iqm, np.random.default_rng(1), 1500)
    theirs = scipy.stats.bootstrap(
        [task[:, 0] for task in tasks],
        lambda *drawn: interquartile_mean(np.concatenate(drawn)),
        n_resamples=1500,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=0.06)
    assert ours.low < ours.value < ours.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """40 workloads with an effect of their own and five seeds: 95 % intervals of the mean cover it 88 to 100 %."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(60):
        scores = 1.0 + rng.normal(0, 0.2, 40) + rng.normal(0, 0.05, (5, 1)) + rng.normal(0, 0.1, (5, 40))
        found = stratified_bootstrap([[scores]], lambda strata: strata[0][0].mean(axis=(1, 2)), rng, 200)
        covered += found.low <= 1.0 <= found.high
    assert 53 <= covered <= 60


@pytest.fixture
def comparison():
    """A reference and two seeds of a policy on three workloads."""
    first = [three_jobs() for _ in range(3)]
    return Comparison(
        {
            "told": first,
            "policy_0": [shifted(run, delay) for run, delay in zip(first, (0, 1, 2), strict=True)],
            "policy_1": [shifted(run, delay) for run, delay in zip(first, (3, 4, 5), strict=True)],
        },
        settings={"task": {"name": "small", "version": 2, "label": "", "objective": "mean JCT"}},
        resamples=200,
    )


def test_the_aggregates_of_a_comparison(comparison):
    policy, told = sorted(aggregate_comparison(comparison, {"policy": ["policy_0", "policy_1"]}), key=lambda a: a.name)
    reference = np.mean([10, 7, 11])
    assert policy.scores == pytest.approx((np.arange(6).reshape(2, 3) + np.mean([10, 5, 3])) / reference)
    assert policy.num_seeds == 2
    assert policy.iqm.value == interquartile_mean(policy.scores)
    assert policy.iqm.low <= policy.iqm.value <= policy.iqm.high
    assert policy.improvement.value == np.mean(policy.scores < 1)
    assert (told.iqm.value, told.improvement.value) == (1, 0.5)
    assert set(policy.row()) >= {"scheduler", "iqm_low", "improvement_high", "num_seeds"}
    thresholds = profile_thresholds([policy, told])
    assert performance_profile(policy.scores, thresholds)[[0, -1]].tolist() == [0, 1]


def test_without_groups_every_scheduler_stands_alone(comparison):
    assert {each.name for each in aggregate_comparison(comparison)} == {"told", "policy_0", "policy_1"}


def test_the_export_has_marl_evals_form(comparison):
    content = json.loads(
        json.dumps(to_marl_eval(comparison, {"policy": ["policy_0", "policy_1"]}, {"policy_1": 30}), allow_nan=False)
    )
    algorithms = content["murmuration"]["small-v2"]
    assert {name: list(runs) for name, runs in algorithms.items()} == {
        "policy": ["seed_0", "seed_1"],
        "told": ["seed_0"],
    }
    run = algorithms["policy"]["seed_1"]
    assert run["step_30"]["step_count"] == 30
    assert run["absolute_metrics"]["mean_episode_return"] == [-each for each in run["step_30"]["mean_jct"]]
    assert len(run["absolute_metrics"]["mean_jct"]) == 3
