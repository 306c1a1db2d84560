"""Predictors by gradient boosting: what they know of earlier jobs, worked by hand, and what they learn from it."""

import numpy as np
import pytest

from baselines.parts.helios_history import HeliosHistory
from baselines.parts.quantile_boosting import LEAST_ROWS, QuantileBoosting
from baselines.parts.run_time_history import FEATURES, RunTimeHistory
from envs.simulation.pooled_history import LEVELS
from envs.types import JobFacts, MurmurationError


def facts(*rows):
    """Facts about jobs from rows (submission, GPUs, user, name, run time)."""
    submit, gpus, user, name, run_time = zip(*rows, strict=True) if rows else [()] * 5
    texts = [np.array(column, np.str_) for column in ([""] * len(rows), [""] * len(rows), user, name)]
    return JobFacts._make([np.array(submit, float), np.array(gpus, int), *texts, np.array(run_time, float)])


def test_a_job_knows_of_what_ended_before_its_submission():
    """Run times of e, e^2 and e^3 s. Job 1 comes while job 0 runs; job 2 when both have ended."""
    jobs = facts((0.0, 1, "u", "fit_1", np.e), (1.0, 2, "u", "fit_1", np.e**2), (100.0, 2, "u", "fit_2", np.e**3))
    history = RunTimeHistory()
    known = [dict(zip(FEATURES, row, strict=True)) for row in history.replay([jobs])]
    assert np.isnan(known[1]["mean of user"])
    assert known[1]["log jobs of user"] == 0.0
    assert known[2]["log2 GPUs"] == 1.0
    assert known[2]["mean of user"] == pytest.approx(1.5)
    assert known[2]["recent of similar name"] == pytest.approx(1.5)  # job 1 has a weight of a half
    assert known[2]["mean of user and GPUs"] == pytest.approx(2.0)
    assert np.isnan(known[2]["mean of group"])  # none was called fit_2
    assert known[2]["log jobs of user"] == pytest.approx(np.log(3))
    later = dict(zip(FEATURES, history.describe(facts((0.0, 4, "u", "fit_2", 0.0)), facts())[0], strict=True))
    assert later["mean of user"] == pytest.approx(2.0)
    assert later["mean of group"] == pytest.approx(3.0)


def test_ended_jobs_of_the_episode_are_added_for_one_question_alone():
    history = RunTimeHistory()
    asked = facts((0.0, 1, "u", "", 0.0))
    known = history.describe(asked, facts((30.0, 1, "u", "", np.e)))
    assert known[0, FEATURES.index("mean of group")] == pytest.approx(1.0)  # a sweep: within a minute
    assert np.isnan(history.describe(asked, facts())[0, 1:]).sum() == 12


def drawn(rng, count):
    """Jobs of two users: median 100 s with a spread of 0.2, and 10,000 s with a spread of 1."""
    fast = rng.random(count) < 0.5
    logarithm = np.where(fast, np.log(100), np.log(10_000)) + np.where(fast, 0.2, 1.0) * rng.standard_normal(count)
    users = np.where(fast, "fast", "slow")
    return facts(*zip(1e6 * np.arange(count), [1] * count, users, [""] * count, np.exp(logarithm), strict=True))


def test_quantiles_differ_by_user_and_cover_new_jobs():
    rng = np.random.default_rng(1)
    predictor = QuantileBoosting()
    predictor.train([drawn(rng, 1500)])
    new = drawn(rng, 600)
    found = predictor.predict(new._replace(run_time=np.zeros(600)), facts())
    below = (new.run_time[:, None] > found).mean(axis=1)
    assert (np.abs(below - 0.5) < 0.25).mean() == pytest.approx(0.5, abs=0.1)
    width = np.log(found[:, 24] / found[:, 7])
    assert width[new.user == "slow"].mean() > 3 * width[new.user == "fast"].mean()


@pytest.mark.parametrize("predictor", [QuantileBoosting, HeliosHistory])
def test_equal_jobs_give_equal_predictions_to_the_bit(predictor):
    first, second = predictor(), predictor()
    past, asked = drawn(np.random.default_rng(1), 300), drawn(np.random.default_rng(2), 5)
    first.train([past])
    second.train([past])
    np.testing.assert_array_equal(first.predict(asked, facts()), second.predict(asked, facts()))


@pytest.fixture
def rolling():
    """The rolling estimate alone, after jobs of three users that take as long as others of their name."""
    groups = [(1, "u", "fit_1", 100.0), (1, "u", "eval", 10_000.0), (2, "v", "x", 400.0)]
    count = LEAST_ROWS // len(groups) + 1
    predictor = HeliosHistory(rolling=1.0)
    predictor.train([facts(*((1e6 * i + 1e5 * at, *group) for i in range(count) for at, group in enumerate(groups)))])
    return predictor


@pytest.mark.parametrize(
    ("job", "typical"),
    [
        ((0.0, 1, "u", "eval", 0.0), 10_000.0),
        ((0.0, 4, "u", "fit_27", 0.0), 100.0),  # a similar name
        ((0.0, 1, "u", "other", 0.0), 1000.0),  # the user's jobs on one GPU
        ((0.0, 2, "w", "other", 0.0), 400.0),  # all jobs on two GPUs
    ],
)
def test_the_rolling_estimate_is_of_the_closest_jobs_that_are_known(rolling, job, typical):
    found = rolling.predict(facts(job), facts())
    assert np.interp(0.5, LEVELS, found[0]) == pytest.approx(typical, rel=0.02)


def test_a_weight_beyond_one_is_refused():
    with pytest.raises(MurmurationError, match=r"^predictor\.rolling is 2; it must be a weight from 0 to 1$"):
        HeliosHistory(rolling=2)
