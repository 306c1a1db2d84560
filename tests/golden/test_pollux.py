"""Pollux on schedules worked by hand."""

import pytest

from baselines import Pollux
from envs.performance import PerformanceModel
from envs.simulation import Rounds
from envs.types import Configuration, JobSpec
from envs.workloads import Workload
from tests.golden.playground import (
    SlowerBeyondTwo,
    TwoThroughputs,
    fast_and_slow,
    jobs,
    places,
    play,
    restarts,
    times,
    two_nodes,
)

EVERY_TEN = Rounds(on_events=False, interval=10.0)


class Flat:
    """Model "linear" does one sample per second and GPU, "flat" one per second on any number of GPUs."""

    models = ("linear", "flat")

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return float(configuration.num_gpus) if model == "linear" else 1.0


FLAT: PerformanceModel = Flat()


def pollux(**options):
    return Pollux(round_length=10.0, **options)


def sizes(result, job):
    """(time, GPUs) of every start and change."""
    return [(time, sum(gpus.values())) for time, gpus in places(result, job)]


def test_equal_jobs_have_equal_shares():
    """1 to 8 GPUs each, 8 in all; fair shares are 4. 4 and 4 cost 1 + 1 (p = -1), 5 and 3 cost 4 / 5 + 4 / 3."""
    result = play(pollux(), jobs((0, 4, 10), (0, 4, 10), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 10), (0, 10)]
    assert sizes(result, 0) == sizes(result, 1) == [(0, 4)]


def test_a_job_that_gains_nothing_gets_one_gpu():
    """Flat has its fair throughput on one GPU; linear has seven: the cost is 1 + 4 / 7."""
    pair = Workload.of(
        [
            JobSpec(0, 0.0, 4, 10.0, "flat", min_gpus=1, max_gpus=8),
            JobSpec(1, 0.0, 4, 70.0, "linear", min_gpus=1, max_gpus=8),
        ]
    )
    result = play(pollux(), pair, two_nodes(), performance=FLAT)
    assert (sizes(result, 0), sizes(result, 1)) == ([(0, 1)], [(0, 7)])
    assert times(result) == [(0, 10), (0, 10)]


def test_no_type_gives_a_job_more_gpus_than_are_fastest_there():
    """The means over types rise up to 4 GPUs, but those of the fast type are offered only up to 2."""
    pair = jobs((0, 1, 10), (0, 1, 10), elastic=(1, 4))
    result = play(pollux(), pair, fast_and_slow(), performance=SlowerBeyondTwo())
    assert sorted([places(result, 0)[0], places(result, 1)[0]], key=str) == [(0, {0: 4}), (0, {1: 2})]


@pytest.mark.parametrize(("power", "large", "small"), [(-1.0, 5, 3), (-0.1, 5, 3), (-8.0, 4, 4)])
def test_gpus_that_only_one_job_can_use_go_to_it(power, large, small):
    """A: 1 to 8 GPUs, linear. Fair shares are 4. If B may have at most 3 GPUs, it has its fair throughput with 3, and A
    has the rest at any power. If B may have at most 4, it has its fair throughput with 4, as A does.
    """
    most = 3 if small == 3 else 4
    pair = Workload.of(
        [
            JobSpec(0, 0.0, 4, 40.0, "any", min_gpus=1, max_gpus=8),
            JobSpec(1, 0.0, 3, 40.0, "any", min_gpus=1, max_gpus=most),
        ]
    )
    result = play(pollux(power=power), pair, two_nodes())
    assert (sizes(result, 0)[0], sizes(result, 1)[0]) == ((0, large), (0, small))


def test_a_job_gets_at_most_twice_the_most_gpus_so_far():
    """A job of 1 to 8 GPUs alone: 1, 2, 4, 8 GPUs in rounds of 10 s. 70 of 110 samples are done at 30; 40 / 8 = 5 s."""
    result = play(pollux(growth=2.0), jobs((0, 8, 13.75), elastic=(1, 8)), two_nodes(), rounds=EVERY_TEN)
    assert sizes(result, 0) == [(0, 1), (10, 2), (20, 4), (30, 8)]
    assert times(result) == [(0, 35)]


def test_growth_waits_until_a_restart_is_worth_it():
    """A: 320 GPU-s, B: 40, restarts of 10 s. At 10 A, alone and 10 s old, would have r = 1 / 2 on 8 GPUs, which is no
    gain over 4. At 20, r = 2 / 3 and it grows. 240 are left: 20 + 10 + 30.
    """
    pair = jobs((0, 4, 80), (0, 4, 10), elastic=(1, 8))
    result = play(pollux(), pair, two_nodes(), rounds=EVERY_TEN, restart_delay=10)
    assert times(result) == [(0, 60), (0, 10)]
    assert restarts(result) == [1, 0]


def test_gpu_types_are_ignored():
    """Alone and running on the slow node, a job is not moved to the fast one: both count the same."""
    rows = jobs((0, 4, 10), (0, 4, 100))
    result = play(pollux(), rows, fast_and_slow(), performance=TwoThroughputs(), rounds=EVERY_TEN)
    assert restarts(result) == [0, 0]
    assert {node for job in (0, 1) for _, gpus in places(result, job) for node in gpus} == {0, 1}


def test_too_many_jobs_start_at_their_least_size():
    """Nine jobs of 16 GPU-s on 8 GPUs: eight have one each, 0-16; then all 8 for the ninth: 16-18."""
    result = play(pollux(), jobs(*[(0.0, 8, 2.0)] * 9, elastic=(1, 8)), two_nodes())
    assert sorted(times(result)) == [(0, 16)] * 8 + [(16, 18)]
