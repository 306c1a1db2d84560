"""Sampling-based matching on schedules worked by hand."""

import pytest

from baselines import SamplingMatching
from envs.types import ClusterSpec, NodeSpec
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, restarts, times, two_nodes


def test_sizes_minimise_the_mean():
    """A: 64 GPU-s, B: 16, both 1 to 8 GPUs. 64 / a + 16 / b over a + b = 8 is least at 5 and 3: 18.13 s, against 18.67
    at 6 and 2. B ends at 16 / 3; A, with 64 - 80 / 3 left, takes all 8 and ends at 16 / 3 + 14 / 3 = 10.
    """
    result = play(SamplingMatching(shortness=0), jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 10), (0, round(16 / 3, 6))]
    assert [sum(gpus.values()) for _, gpus in places(result, 0)] == [5, 8]
    assert [sum(gpus.values()) for _, gpus in places(result, 1)] == [3]


def test_one_job_on_both_types():
    """120 samples, alone: 4 x 2 + 4 x 1 = 12 samples/s on all eight GPUs, 10 s; the fast ones alone would take 15."""
    result = play(SamplingMatching(), jobs((0, 4, 30), elastic=(1, 8)), fast_and_slow(), performance=TwoThroughputs())
    assert times(result) == [(0, 10)]
    assert places(result, 0) == [(0, {0: 4, 1: 4})]


def test_the_heavy_job_gets_the_fast_gpus():
    """40 and 160 samples on 4 GPUs each. Heavy on fast: 160 / 8 + 40 / 4 = 30 s in all; light on fast: 5 + 40."""
    result = play(
        SamplingMatching(shortness=0), jobs((0, 4, 10), (0, 4, 40)), fast_and_slow(), performance=TwoThroughputs()
    )
    assert times(result) == [(0, 10), (0, 20)]
    assert places(result, 1) == [(0, {1: 4})]


def test_jobs_weighted_by_shortness_share_the_fast_gpus():
    """The same, seconds divided by the 5 and 20 s on fast GPUs. With f fast GPUs for the heavy job it is 8 / (4 + f) +
    8 / (8 - f), least at f = 2: both do 6 samples/s. The light one ends at 40 / 6; the heavy one has 120 left, moves
    to the fast GPUs and ends 15 s later.
    """
    result = play(SamplingMatching(), jobs((0, 4, 10), (0, 4, 40)), fast_and_slow(), performance=TwoThroughputs())
    assert times(result) == [(0, round(40 / 6, 6)), (0, round(40 / 6 + 15, 6))]
    assert places(result, 1) == [(0, {0: 2, 1: 2}), (round(40 / 6, 6), {1: 4})]


def test_a_resize_must_pay_for_its_restart():
    """4 GPUs each. At 4 B ends, and A has 48 left: 12 s on its 4 GPUs, 6 s on 8. A restart of 5 s pays (4 + 5 + 6 =
    15), one of 10 s does not (16).
    """
    pair = jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8))
    paid = play(SamplingMatching(), pair, two_nodes(), restart_delay=5)
    assert (times(paid), restarts(paid)) == ([(0, 15), (0, 4)], [1, 0])
    kept = play(SamplingMatching(), pair, two_nodes(), restart_delay=10)
    assert (times(kept), restarts(kept)) == ([(0, 16), (0, 4)], [0, 0])


def test_the_restart_cost_may_be_given():
    """With a given cost of 0 where restarts take 10 s, it resizes and pays: 4 + 10 + 6 = 20."""
    pair = jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8))
    result = play(SamplingMatching(restart_cost=0), pair, two_nodes(), restart_delay=10)
    assert times(result) == [(0, 20), (0, 4)]


def test_more_jobs_than_workers():
    """Nine jobs of 1 to 8 GPUs on 8 GPUs: the eight shortest get one each, the longest (16 GPU-s) waits until they end
    together at 8, then takes all.
    """
    rows = [(0.0, 8, 2.0)] + [(0.0, 8, 1.0)] * 8
    result = play(SamplingMatching(), jobs(*rows, elastic=(1, 8)), two_nodes())
    assert times(result) == [(8, 10)] + [(0, 8)] * 8


def test_a_job_shrinks_for_a_new_job():
    """t=0: A (1 to 8 GPUs, 80 GPU-s) on all 8. t=5: 40 left, B arrives with 40: 4 each, until both end at 15."""
    result = play(SamplingMatching(), jobs((0, 8, 10), (5, 8, 5), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 15), (5, 15)]
    assert [sum(gpus.values()) for _, gpus in places(result, 0)] == [8, 4]


def test_a_job_that_shrinks_pays_the_restart():
    """The same with restarts of 6 s. B needs GPUs of A, so A shrinks at 5 and works again from 11. Both are equally
    fast with 4 GPUs, so no job moves again: B ends at 15. A, with 24 left then, stays: 8 GPUs would end it at 15 + 6 +
    3.
    """
    result = play(SamplingMatching(), jobs((0, 8, 10), (5, 8, 5), elastic=(1, 8)), two_nodes(), restart_delay=6)
    assert restarts(result) == [1, 0]
    assert times(result) == [(0, 21), (5, 15)]


def test_rigid_jobs_go_by_gpu_time():
    """A: 24 GPU-s on 8 GPUs. B: 20 GPU-s on 2. B goes first: 0-10; A does not fit beside it: 10-13."""
    result = play(SamplingMatching(), jobs((0, 8, 3), (0, 2, 10)), two_nodes())
    assert times(result) == [(10, 13), (0, 10)]


def test_moving_to_a_faster_type_when_that_pays():
    """A, 4 GPUs, 40 samples, takes the fast node at 0, B, 160 samples, comes at 1. At 5 A ends. B has done 16 on the
    slow node; 144 samples take 36 s there, 18 s on the fast node: it moves for a restart of 17 s, not for one of 19.
    """
    pair = jobs((0, 4, 10), (1, 4, 40))
    moved = play(SamplingMatching(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=17)
    assert times(moved) == [(0, 5), (1, 40)]
    assert places(moved, 1) == [(1, {0: 4}), (5, {1: 4})]
    stayed = play(SamplingMatching(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=19)
    assert times(stayed) == [(0, 5), (1, 41)]


def test_a_gang_larger_than_any_type_takes_several():
    """6 GPUs, 60 samples, on 4 slow and 4 fast GPUs: 4 x 2 + 2 x 1 = 10 samples/s. A job of 2 GPUs and 4 samples comes
    at 1. Where a restart takes 10 s it has the slow GPUs that are left, until 3. Where restarts are free it is the
    shorter and gets fast ones, until 2; meanwhile the gang does 8 samples/s and ends 0.2 s later.
    """
    pair = jobs((0, 6, 10), (1, 2, 2))
    still = play(SamplingMatching(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=10)
    assert (times(still), restarts(still)) == ([(0, 6), (1, 3)], [0, 0])
    moved = play(SamplingMatching(), pair, fast_and_slow(), performance=TwoThroughputs())
    assert times(moved) == [(0, 6.2), (1, 2)]


@pytest.mark.parametrize("seed", range(3))
def test_the_seed_does_not_matter_where_the_optimum_is_clear(seed):
    """Three jobs of 30, 30 and 120 GPU-s on 12 GPUs: square roots 1 : 1 : 2, so 3, 3 and 6 GPUs, 10 + 10 + 20 s; at 10
    the last has 60 left and takes all 12.
    """
    cluster = ClusterSpec((NodeSpec("plain", 6), NodeSpec("plain", 6)))
    workload = jobs((0, 1, 30), (0, 1, 30), (0, 1, 120), elastic=(1, 12))
    result = play(SamplingMatching(shortness=0), workload, cluster, seed=seed)
    assert times(result) == [(0, 10), (0, 10), (0, 15)]
    assert [sum(gpus.values()) for _, gpus in places(result, 2)] == [6, 12]
