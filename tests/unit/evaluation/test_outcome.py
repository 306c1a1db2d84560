"""What the best of several is chosen by: whoever starves a job is never better for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import Fifo, Srtf
from envs.evaluation.outcome import Outcome
from envs.performance import IdealModel
from envs.simulation import Scenario, Simulator, run_episode
from envs.types import ClusterSpec, NodeSpec
from tests.golden.playground import jobs

ONE_GPU = ClusterSpec((NodeSpec("plain", 1),))
FREE = Scenario(restart_delay=0.0)


class Starver:
    """First come, first served; some jobs never start."""

    def __init__(self, *starved):
        self.starved = starved

    def reset(self, cluster, rng):
        """Nothing to forget."""

    def schedule(self, view):
        """Whoever waits and is not starved."""
        wish = view.allocation(keep_running=True)
        for job in map(int, view.queued):
            if job not in self.starved:
                wish.pack(job)
        return wish


def outcome(scheduler, *rows, scenario=FREE):
    """Of jobs (submit, GPUs, seconds) on one GPU."""
    result = run_episode(scheduler, Simulator(jobs(*rows), ONE_GPU, IdealModel(), scenario))
    return Outcome.of(result, scenario)


LONG_LAST = ((0.0, 1, 10.0), (0.0, 1, 10.0), (0.0, 1, 100_000.0))


def test_a_run_that_finishes_everything_is_its_mean_jct():
    """10, 20 and 100,020 s."""
    assert outcome(Fifo(), *LONG_LAST) == (0, pytest.approx(100_050 / 3))


def test_who_starves_is_behind_though_its_mean_is_lower():
    """The stall ends after 100 minutes, long before the job of 28 hours could."""
    starved, done = outcome(Starver(2), *LONG_LAST), outcome(Fifo(), *LONG_LAST)
    assert starved.mean_jct < done.mean_jct
    assert starved.num_abandoned == 1
    assert done < starved


def test_among_those_that_abandon_alike_the_mean_decides():
    assert outcome(Starver(2), *LONG_LAST) < outcome(Starver(0), *LONG_LAST) < outcome(Starver(0, 2), *LONG_LAST)


def test_under_a_horizon_all_are_cut_at_it_and_no_job_is_abandoned():
    """Until 200: the starved job has waited as long as the other's has run, so starving gains nothing by itself."""
    cut = Scenario(restart_delay=0.0, horizon=200.0)
    assert outcome(Srtf(), *LONG_LAST, scenario=cut) == (0, pytest.approx((10 + 20 + 200) / 3))
    assert outcome(Starver(2), *LONG_LAST, scenario=cut) == outcome(Srtf(), *LONG_LAST, scenario=cut)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(1.0, 1e6)), min_size=1, max_size=6),
)
def test_the_least_is_one_that_abandons_least(pairs):
    best = min(Outcome(*pair) for pair in pairs)
    assert best.num_abandoned == min(number for number, _ in pairs)
    assert best.mean_jct == min(mean for number, mean in pairs if number == best.num_abandoned)
