"""heSRPT on schedules worked by hand."""

from dataclasses import dataclass

import pytest

from baselines import HeSrpt, Srtf
from envs.types import ClusterSpec, Configuration, NodeSpec
from tests.golden.playground import jobs, places, play, times, two_nodes

LARGE = ClusterSpec((NodeSpec("plain", 240),))


@dataclass(frozen=True)
class Root:
    """k GPUs are the square root of k times as fast as one: the paper's law with p = 1/2."""

    models: tuple[str, ...] = ("any",)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return float(configuration.num_gpus**0.5)


def test_shares_by_rank():
    """p = 1/2: of two jobs the longer has (1/2)^2 = 1/4, the shorter 3/4. On one node of 8: 6 and 2.

    B: 16 / 6 s. A: 64 - 2 * 16 / 6 left, on all 8: until 10.
    """
    node = ClusterSpec((NodeSpec("plain", 8),))
    result = play(HeSrpt(0.5), jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8)), node)
    assert times(result) == [(0, 10), (0, round(16 / 6, 6))]
    assert places(result, 0) == [(0, {0: 2}), (round(16 / 6, 6), {0: 8})]


def test_without_gain_from_parallelism_shares_are_equal():
    result = play(HeSrpt(0.0), jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8)), two_nodes())
    assert sum(places(result, 0)[0][1].values()) == 4
    assert [sum(gpus.values()) for _, gpus in places(result, 1)] == [4]


def test_the_exponent_is_estimated_from_the_curves():
    """Linear scaling: all GPUs for the shortest. Square root: 3/4 and 1/4 of 240."""
    steep = play(HeSrpt(), jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8)), two_nodes())
    assert times(steep) == [(2, 10), (0, 2)]
    rows = jobs((0, 4, 16), (0, 4, 4), elastic=(1, 240))
    flat = play(HeSrpt(), rows, LARGE, performance=Root())
    assert [sum(gpus.values()) for _, gpus in places(flat, 1)] == [180]
    assert [sum(gpus.values()) for _, gpus in places(flat, 0)] == [60, 240]


def test_rigid_jobs_go_shortest_first():
    """A: 8 GPUs for 3 s. B: 2 for 10 s. A 0-3, B 3-13."""
    assert times(play(HeSrpt(), jobs((0, 8, 3), (0, 2, 10)), two_nodes())) == [(0, 3), (3, 13)]


@pytest.mark.parametrize("other", [HeSrpt(0.0), HeSrpt(0.9), HeSrpt(0.3), Srtf()])
def test_it_is_optimal_where_the_law_holds(other):
    """Five jobs at once with square-root scaling: no other exponent and no rigid order has a smaller mean."""
    rows = jobs(*((0.0, 240, seconds) for seconds in (1.0, 2.0, 5.0, 9.0, 20.0)), elastic=(1, 240))
    best = play(HeSrpt(0.5), rows, LARGE, performance=Root())
    worse = play(other, rows, LARGE, performance=Root())
    assert best.records["finish_time"].mean() < worse.records["finish_time"].mean()
