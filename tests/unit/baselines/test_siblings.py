"""Run times by siblings: posterior means worked by hand, running siblings, calibration while sweeps run, and groups."""

import numpy as np
import pytest

from baselines.parts.group_history import GroupHistory
from baselines.parts.siblings import NormalScores, Siblings, find_groups
from envs.simulation.pooled_history import LEVELS
from envs.types import NUM_OUTCOMES, JobFacts


def facts(*rows):
    """Facts about jobs from rows (submission, GPUs, tenant, user, name, run time)."""
    submit, gpus, tenant, user, name, run_time = zip(*rows, strict=True) if rows else [()] * 6
    texts = [np.array(column, np.str_) for column in ([""] * len(rows), tenant, user, name)]
    return JobFacts._make([np.array(submit, float), np.array(gpus, int), *texts, np.array(run_time, float)])


def sweep(*run_times, submit=0.0):
    """Jobs without names, one second apart."""
    return [(submit + i, 1, "vc", "", "", run_time) for i, run_time in enumerate(run_times)]


def median(outcomes):
    return np.exp(np.log(outcomes[:, NUM_OUTCOMES // 2 - 1 : NUM_OUTCOMES // 2 + 1]).mean(axis=1))


def test_ended_siblings_move_the_mean_as_worked_by_hand():
    """Without history the scores are (log t - log 3600) / 1.5; parts have variances of 0.6, jobs of 0.4.

    Two siblings at a score of 1: precision 1 / 0.6 + 2 / 0.4, mean 5 / 6.67 = 0.75, variance 0.15 + 0.4.
    """
    one = 3600 * np.exp(1.5)
    found = Siblings().predict(facts(*sweep(0.0)), facts(*sweep(one, one, submit=10.0)))
    np.testing.assert_allclose(median(found), 3600 * np.exp(1.5 * 0.75), rtol=0.01)
    spread = np.log(found[0, -5] / found[0, 4]) / (1.5 * 2 * 1.078)  # of ranks 4.5 / 32: 1.078 standard deviations
    np.testing.assert_allclose(spread, np.sqrt(0.55), rtol=0.02)


def test_running_siblings_count_and_a_job_itself_does_not():
    alone = Siblings().predict(facts(*sweep(0.0)), facts(*sweep(60.0, submit=20.0)))
    asked = facts(*sweep(*[36_000.0] * 9, 0.0))
    among = Siblings().predict(asked, facts(*sweep(60.0, submit=20.0)))
    assert median(among)[-1] > 5 * median(alone)[0]
    one = Siblings().predict(facts(*sweep(0.0)), facts())
    np.testing.assert_allclose(Siblings().predict(facts(*sweep(36_000.0)), facts()), one)


@pytest.fixture
def history():
    """400 sweeps of eight jobs: logarithms with a standard deviation of 1 between sweeps and 0.7 within them."""
    rng = np.random.default_rng(3)
    return rng, np.exp(7 + rng.standard_normal((400, 1)) + 0.7 * rng.standard_normal((400, 8)))


def rank_of_truth(predictor, run_times):
    """Mean rank, 0 to 1, of the run times of jobs that still run when three of eight siblings have ended."""
    ranks = []
    for row in np.sort(run_times, axis=1):
        so_far = row[2]
        found = predictor.predict(facts(*sweep(*[so_far] * 5)), facts(*sweep(*row[:3], submit=5.0)))
        for outcomes, truth in zip(found, row[3:], strict=True):
            left = np.sort(outcomes)[np.sort(outcomes) > so_far]
            ranks.append(np.interp(truth, left, LEVELS[: len(left)] * NUM_OUTCOMES / max(len(left), 1)))
    return float(np.mean(ranks))


def test_jobs_of_a_sweep_do_not_look_short_because_the_short_ones_ended_first(history):
    """Ranks of true run times among those predicted are 0.5 on average; without running siblings they are higher."""
    rng, past = history
    episode = facts(*(job for i, row in enumerate(past) for job in sweep(*row, submit=1000.0 * i)))
    predictors = Siblings(), GroupHistory()
    for predictor in predictors:
        predictor.train([episode])
    np.testing.assert_allclose(np.sqrt(predictors[0].spreads.job), 0.7 / np.sqrt(1.49), rtol=0.06)
    new = np.exp(7 + rng.standard_normal((150, 1)) + 0.7 * rng.standard_normal((150, 8)))
    fair, biased = (rank_of_truth(predictor, new) for predictor in predictors)
    assert fair == pytest.approx(0.5, abs=0.04)
    assert biased > 0.56


def test_groups_are_names_of_users_or_sweeps_of_a_size():
    jobs = facts(
        (0.0, 1, "vc", "", "", 1.0),
        (50.0, 1, "vc", "", "", 1.0),  # with job 0
        (105.0, 1, "vc", "", "", 1.0),  # with job 1
        (50.0, 2, "vc", "", "", 1.0),
        (200.0, 1, "vc", "", "", 1.0),  # too late
        (0.0, 1, "vc", "u", "fit", 1.0),
        (9e4, 4, "vc", "u", "fit", 1.0),  # of the same name
        (0.0, 1, "vc", "v", "fit", 1.0),
    )
    group, first = find_groups(jobs, 60.0)
    parts = [[0, 1, 2], [3], [4], [5, 6], [7]]
    assert sorted(np.flatnonzero(group == each).tolist() for each in range(len(first))) == parts
    assert group[first].tolist() == list(range(len(first)))


def test_run_times_become_normal_scores_and_back():
    normal = np.random.default_rng(0).standard_normal(400)
    run_time = np.exp(7 + normal * np.abs(normal))
    scale = NormalScores(np.repeat([1, 2], [380, 20]), run_time)
    score = scale.score(np.full(380, 1), run_time[:380])
    assert abs(score.mean()) < 0.02
    assert score.std() == pytest.approx(1.0, abs=0.02)
    middle = np.abs(score) < 2
    np.testing.assert_allclose(
        scale.run_time(np.full(380, 1), score[:, None])[middle, 0], run_time[:380][middle], rtol=0.05
    )
