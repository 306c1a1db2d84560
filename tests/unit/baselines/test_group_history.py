"""Run times by user and name: posterior means worked by hand, variances found again, and what a name is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.group_history import GroupHistory, Groups, Spreads, believe, find_spreads
from envs.types import NUM_OUTCOMES, JobFacts


def facts(*rows):
    """Facts about jobs from rows (submission, GPUs, user, name, run time)."""
    submit, gpus, user, name, run_time = zip(*rows, strict=True) if rows else [()] * 5
    texts = [np.array(column, np.str_) for column in ([""] * len(rows), [""] * len(rows), user, name)]
    return JobFacts._make([np.array(submit, float), np.array(gpus, int), *texts, np.array(run_time, float)])


def test_parts_are_posterior_means():
    """All variances are 1. A name with two jobs of mean 3, one with none, of one user; and a user who is not known."""
    level, variance = believe(Spreads(1, 1, 1), np.array([0, 0, 1]), np.array([2, 0, 0]), np.array([6.0, 0.0, 0.0]))
    # The mean of two jobs has a variance of 1 + 1/2 about the user's part: 1 / (1 + 1/1.5) * 3 / 1.5 = 1.2.
    np.testing.assert_allclose(level, [3 * 2 / 2.5, 1.2, 0.0])
    np.testing.assert_allclose(variance, [2 * 0.5 / 2.5, 1 / (1 + 1 / 1.5) + 1, 2.0])


def test_the_variances_of_made_jobs_are_found_again():
    """60 users with 5 names of 6 jobs each: standard deviations 0.9, 0.6 and 0.4."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(60), 5)
    name = np.repeat(np.arange(300), 6)
    part = 0.9 * rng.standard_normal(60)[user] + 0.6 * rng.standard_normal(300)
    found = find_spreads(name, part[name] + 0.4 * rng.standard_normal(1800), user.tolist())
    np.testing.assert_allclose(np.sqrt(found), [0.9, 0.6, 0.4], rtol=0.15)


def test_the_jobs_of_a_name_tell_more_than_those_of_the_user():
    """The user's jobs took 100 s; those of name `long` took 10,000 s. More jobs of a name narrow the prediction."""
    rng = np.random.default_rng(1)

    def jobs(count, name, typical):
        return [(float(i), 1, "u", name, typical * np.exp(0.1 * rng.standard_normal())) for i in range(count)]

    others = [(float(i), 1, f"v{i % 9}", f"n{i}", np.exp(8 + rng.standard_normal())) for i in range(90)]
    predictor = GroupHistory()
    predictor.train([facts(*jobs(20, "short", 100.0), *jobs(20, "long", 10_000.0), *others)])
    asked = facts(*((0.0, 1, "u", name, 0.0) for name in ("short", "new", "long")), (0.0, 1, "w", "", 0.0))
    found = predictor.predict(asked, facts())
    middle, spread = found[:, NUM_OUTCOMES // 2], np.log(found[:, -1] / found[:, 0])
    assert middle[0] < 200
    assert middle[0] < middle[1] < middle[2]
    assert middle[2] > 5000
    assert spread[0] < spread[1] < spread[3]


def test_what_ends_in_the_episode_counts_as_well():
    predictor = GroupHistory()
    asked = facts((0.0, 1, "u", "n", 0.0))
    before = predictor.predict(asked, facts())
    after = predictor.predict(asked, facts((0.0, 1, "u", "n", 60.0), (0.0, 2, "u", "m", 50.0)))
    assert after[0, 16] < before[0, 16] / 5
    assert np.ptp(np.log(after)) < np.ptp(np.log(before))


def test_jobs_without_names_belong_together_if_they_came_one_after_the_other():
    """Of one user and number of GPUs, each within 60 s of the one before; two users are never one."""
    rows = [(0.0, 1, "u", ""), (10.0, 1, "v", ""), (50.0, 1, "u", ""), (100.0, 1, "u", ""), (100.0, 2, "u", "")]
    rows += [(200.0, 1, "u", ""), (200.0, 4, "v", "n"), (900.0, 1, "v", "n")]
    jobs = facts(*((*row, 1.0) for row in rows))
    groups = Groups()
    found = groups.find_all([jobs, jobs], 60.0).tolist()
    assert found[0] == found[2] == found[3]
    assert len({found[0], found[1], found[4], found[5]}) == 4
    assert found[6] == found[7] == found[14] == found[15]
    assert [groups.user[i] == groups.user[found[0]] for i in found[:6]] == [True, False, True, True, True, True]
    assert not set(found[8:14]) & set(found[:6]), "a sweep does not go on in another episode"


JOBS = st.tuples(st.floats(0, 300), st.integers(1, 2), st.sampled_from("uv"), st.sampled_from(["", "n", "m"]))


@given(rows=st.lists(JOBS, min_size=1, max_size=12), ends=st.integers(0, 2**12), cuts=st.sets(st.integers(1, 11)))
def test_jobs_may_be_submitted_one_after_the_other(rows, ends, cuts):
    """However an episode is cut, and by a copy of it too, the prediction is that for all of its jobs at once."""
    predictor = GroupHistory()
    predictor.train([facts(*((*row, 50.0) for row in sorted(rows))), facts((0.0, 1, "u", "n", 20.0))])
    jobs = facts(*((*row, 10.0 + i) for i, row in enumerate(sorted(rows))))
    ended = np.array([ends >> i & 1 for i in range(len(rows))], bool)
    expected = predictor.predict(jobs.rows(~ended), jobs.rows(ended))
    episode = predictor.follow()
    for part in np.split(np.arange(len(rows)), sorted(cut for cut in cuts if cut < len(rows))):
        other, episode = episode, episode.copy()
        episode.submit(jobs.rows(part))
        other.submit(facts((0.0, 1, "w", "of the other copy alone", 1.0)))
    found = episode.predict(np.flatnonzero(~ended), np.flatnonzero(ended), jobs.run_time)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("episodes", [[], [facts()]])
def test_without_history_it_predicts_an_hour_within_a_wide_range(episodes):
    predictor = GroupHistory()
    predictor.train(episodes)
    found = predictor.predict(facts((0.0, 1, "", "", 0.0)), facts())[0]
    assert np.sqrt(found[0] * found[-1]) == pytest.approx(3600.0)
    assert np.log(found).std() == pytest.approx(1.5, rel=0.05)
