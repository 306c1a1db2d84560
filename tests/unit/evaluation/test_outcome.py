"""The criterion for the best of several: starving a job never improves it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import Fifo, Srtf
from envs.evaluation.outcome import Outcome
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, NodeSpec
from tests.golden.playground import jobs

ONE_GPU = ClusterSpec((NodeSpec("plain", 1),))
FREE = Scenario(restart_delay=0.0)


class Starver:
    """First come, first served; some jobs never start."""

    def __init__(self, *starved):
        self.starved = starved

    def reset(self, cluster, rng):
        """Has no state to reset."""

    def schedule(self, view):
        """Start waiting jobs that are not starved."""
        allocation = view.allocation(keep_running=True)
        for job in map(int, view.queued):
            if job not in self.starved:
                allocation.pack(job)
        return allocation


def outcome(scheduler, *rows, scenario=FREE):
    """The outcome of jobs (submit, GPUs, seconds) on one GPU."""
    result = run_episode(scheduler, Simulator(jobs(*rows), Setup(ONE_GPU, IdealModel(), scenario)))
    return Outcome.of(result, scenario)


LONG_LAST = ((0.0, 1, 10.0), (0.0, 1, 10.0), (0.0, 1, 100_000.0))


def test_the_outcome_of_a_run_that_finishes_all_jobs_is_its_mean_jct():
    """10, 20 and 100,020 s."""
    assert outcome(Fifo(), *LONG_LAST) == (0, pytest.approx(100_050 / 3))


def test_starving_is_worse_although_the_mean_is_lower():
    """The run ends 100 minutes after it stalls, long before the job of 28 hours could end."""
    starved, done = outcome(Starver(2), *LONG_LAST), outcome(Fifo(), *LONG_LAST)
    assert starved.mean_jct < done.mean_jct
    assert starved.num_starved == 1
    assert done < starved


def test_with_equally_many_starved_jobs_the_mean_decides():
    assert outcome(Starver(2), *LONG_LAST) < outcome(Starver(0), *LONG_LAST) < outcome(Starver(0, 2), *LONG_LAST)


def test_under_a_horizon_all_runs_end_there_and_no_job_is_starved():
    """Until 200 the starved job waits as long as it runs under SRTF, so starving alone gains nothing."""
    cut = Scenario(restart_delay=0.0, horizon=200.0)
    assert outcome(Srtf(), *LONG_LAST, scenario=cut) == (0, pytest.approx((10 + 20 + 200) / 3))
    assert outcome(Starver(2), *LONG_LAST, scenario=cut) == outcome(Srtf(), *LONG_LAST, scenario=cut)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(1.0, 1e6)), min_size=1, max_size=6),
)
def test_the_least_outcome_has_the_fewest_starved_jobs(pairs):
    best = min(Outcome(*pair) for pair in pairs)
    assert best.num_starved == min(number for number, _ in pairs)
    assert best.mean_jct == min(mean for number, mean in pairs if number == best.num_starved)
