"""Guesses of hidden work: by hand, against a reference implementation, and properties."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.starling.hidden_work import NORMAL_QUANTILES, guess_seconds, survival, time_for_an_end

seeds = st.integers(0, 1_000_000)


def drawn(seed):
    """Draw up to 40 jobs, with equal run times among them, some ended and some waiting."""
    rng = np.random.default_rng(seed)
    num_jobs = int(rng.integers(1, 40))
    ran = np.round(np.exp(rng.normal(3.0, 1.5, num_jobs)), int(rng.integers(0, 3)))
    ran[rng.random(num_jobs) < 0.3] = 0.0
    ended = (rng.random(num_jobs) < 0.6) & (ran > 0)
    return ran, ended, float(rng.uniform(5.0, 100.0)), float(rng.choice([0.0, 0.5, 1.2]))


def slow_guess(ran, ended, job, median, spread, residual):
    """Reference implementation: at each distinct time, jobs at risk and ends are counted anew."""
    prior = [median * np.exp(spread * quantile) for quantile in NORMAL_QUANTILES]
    ends = [*ran[ended].tolist(), *prior]
    everyone = [*ran.tolist(), *prior]
    chance, options = 1.0, []  # of running on, given that the job has run so long
    spent, last = 0.0, ran[job]
    for time in sorted({time for time in ends if time > ran[job]}):
        spent += chance * (time - last)
        last = time
        chance *= 1 - ends.count(time) / sum(other >= time for other in everyone)
        options.append(spent / (1 - chance))
    return max(1.0, min(options)) if options else max(1.0, residual * ran[job])


@given(seed=seeds)
def test_guesses_equal_the_reference(seed):
    ran, ended, median, spread = drawn(seed)
    present = np.flatnonzero(~ended)
    expected = [slow_guess(ran, ended, job, median, spread, 0.7) for job in present.tolist()]
    assert guess_seconds(ran, ended, present, median, spread, 0.7).tolist() == pytest.approx(expected, rel=1e-9)


@given(seed=seeds)
def test_renaming_jobs_changes_nothing_else(seed):
    ran, ended, median, spread = drawn(seed)
    order = np.random.default_rng(seed).permutation(len(ran))
    everyone = np.arange(len(ran))
    before = guess_seconds(ran, ended, everyone, median, spread, 1.0)
    assert guess_seconds(ran[order], ended[order], everyone, median, spread, 1.0).tolist() == before[order].tolist()


def test_the_quantiles_are_those_of_the_normal_distribution():
    expected = [NormalDist().inv_cdf((2 * place + 1) / 16) for place in range(8)]
    assert expected == pytest.approx(NORMAL_QUANTILES, abs=1e-5)


def test_survival_by_hand():
    """Ends at 1 and 3, a job that runs at 2, the prior at 4: of 11 one ends at 1, of 9 one at 3, then all 8."""
    times, share = survival(np.array([1.0, 2.0, 3.0]), np.array([True, False, True]), 4.0, 0.0)
    assert times.tolist() == [1.0, 3.0, *[4.0] * 8]
    assert share[:2].tolist() == pytest.approx([10 / 11, 10 / 11 * 8 / 9])
    assert share[-1] == pytest.approx(0.0)


def test_a_young_job_may_end_soon_and_an_old_one_will_not():
    """Half of the jobs end at 1 s, half at 10 s. A new job: 1 s for half an end. One that has run for 2 s: 8 s."""
    times, share = survival(np.ones(8), np.ones(8, np.bool_), 10.0, 0.0)
    assert time_for_an_end(0.0, times, share, 1.0) == pytest.approx(2.0)
    assert time_for_an_end(2.0, times, share, 1.0) == pytest.approx(8.0)


def test_jobs_of_equal_length_are_finished_in_turn():
    """If all jobs run for 100 s, the one that has run longest ends soonest."""
    guesses = guess_seconds(np.array([0.0, 30.0, 90.0]), np.zeros(3, np.bool_), np.arange(3), 100.0, 0.0, 1.0)
    assert guesses[2] == pytest.approx(10.0)
    assert guesses[0] > guesses[1] > guesses[2]


def test_a_job_that_has_outrun_all_others_needs_as_long_again():
    assert guess_seconds(np.array([500.0]), np.array([False]), np.array([0]), 100.0, 0.5, 2.0).tolist() == [1000.0]


def test_run_times_of_the_episode_replace_the_prior():
    """Of 508 run times 8 are the prior of 10 s: an end there takes 10 * 508 / 8 s. The others take nearly 1,000 s."""
    ran, ended = np.append(np.full(500, 1000.0), 0.0), np.append(np.ones(500, np.bool_), False)
    assert guess_seconds(ran, ended, np.array([500]), 10.0, 0.0, 1.0)[0] == pytest.approx(635.0)
