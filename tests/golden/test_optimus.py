"""Optimus on schedules worked by hand."""

from baselines import Optimus
from envs.types import ClusterSpec, NodeSpec
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, restarts, times, two_nodes


def test_marginal_gain_as_in_the_paper():
    """A: 64 GPU-s, B: 16, both 1 to 8 GPUs. The (n+1)-th GPU saves A 64 / n(n+1) and B 16 / n(n+1) seconds.

    After one each, the six others go: A 32, A 10.67, B 8, A 5.33, A 3.2, B 2.67: A has 5, B 3. B ends at 16 / 3. A,
    with 64 - 80 / 3 left, takes all 8 and ends at 16 / 3 + 14 / 3 = 10: no GPU was ever idle.
    """
    result = play(Optimus(shortness=0), jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 10), (0, round(16 / 3, 6))]
    assert [sum(gpus.values()) for _, gpus in places(result, 0)] == [5, 8]
    assert [sum(gpus.values()) for _, gpus in places(result, 1)] == [3]


def test_weighted_gain_splits_evenly():
    """The same, gains divided by the remaining time on 4 GPUs (16 and 4 s): 4 / n(n+1) for both, so 4 GPUs each. B
    ends at 4; A has 48 left and takes 8 GPUs: 10.
    """
    result = play(Optimus(shortness=1), jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 10), (0, 4)]
    assert places(result, 0) == [(0, {1: 4}), (4, {0: 4, 1: 4})]


def test_a_resize_must_pay_for_its_restart():
    """At 4, A has 48 left: 12 s on its 4 GPUs, 6 s on 8. A restart of 5 s pays (4 + 5 + 6 = 15), one of 10 s does not
    (16).
    """
    pair = jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8))
    paid = play(Optimus(), pair, two_nodes(), restart_delay=5)
    assert (times(paid), restarts(paid)) == ([(0, 15), (0, 4)], [1, 0])
    kept = play(Optimus(), pair, two_nodes(), restart_delay=10)
    assert (times(kept), restarts(kept)) == ([(0, 16), (0, 4)], [0, 0])


def test_the_restart_cost_may_be_given():
    """With a given cost of 0 where restarts take 10 s, it resizes and pays: 4 + 10 + 6 = 20."""
    pair = jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8))
    assert times(play(Optimus(restart_cost=0), pair, two_nodes(), restart_delay=10)) == [(0, 20), (0, 4)]


def test_all_jobs_get_their_least_size_first():
    """Nine jobs of 1 to 8 GPUs on 8 GPUs: the eight shortest get one each, the longest (2 s on 8: 16 GPU-s) waits
    until they end together at 8, then takes all.
    """
    rows = [(0.0, 8, 2.0)] + [(0.0, 8, 1.0)] * 8
    result = play(Optimus(), jobs(*rows, elastic=(1, 8)), two_nodes())
    assert times(result) == [(8, 10)] + [(0, 8)] * 8


def test_a_job_shrinks_for_a_new_job():
    """t=0: A (1 to 8 GPUs, 80 GPU-s) on all 8. t=5: 40 left, B arrives with 40: 4 each, until both end at 15."""
    result = play(Optimus(), jobs((0, 8, 10), (5, 8, 5), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 15), (5, 15)]
    assert [sum(gpus.values()) for _, gpus in places(result, 0)] == [8, 4]


def test_rigid_jobs_go_by_gpu_time():
    """A: 24 GPU-s on 8 GPUs. B: 20 GPU-s on 2. B goes first: 0-10; A does not fit beside it: 10-13."""
    result = play(Optimus(), jobs((0, 8, 3), (0, 2, 10)), two_nodes())
    assert times(result) == [(10, 13), (0, 10)]


def test_moving_to_a_faster_type_when_that_pays():
    """40 and 160 samples on 4 GPUs. t=0: A on the fast node (5 s), B on the slow one. t=5: B moves to the fast node and
    ends at 5 + 2 + 17.5; with a restart of 20 s it stays until 40.
    """
    pair = jobs((0, 4, 10), (0, 4, 40))
    moved = play(Optimus(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=2)
    assert times(moved) == [(0, 5), (0, 24.5)]
    assert places(moved, 1) == [(0, {0: 4}), (5, {1: 4})]
    stayed = play(Optimus(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=20)
    assert times(stayed) == [(0, 5), (0, 40)]


def test_jobs_move_to_idle_types():
    """Two jobs of 1 to 6 GPUs, 16 samples each, on 6 slow and 4 fast GPUs. Sharing the fast ones takes both 4 s; so
    one moves to the slow ones (16 / 6 s) and the other has all the fast ones (2 s). At 2 the first has 2 / 3 s left:
    no move pays.
    """
    cluster = ClusterSpec((NodeSpec("slow", 6), NodeSpec("fast", 4)))
    pair = jobs((0, 4, 4), (0, 4, 4), elastic=(1, 6))
    result = play(Optimus(), pair, cluster, performance=TwoThroughputs(), restart_delay=1)
    assert sorted(times(result)) == [(0, 2), (0, round(16 / 6, 6))]


def test_a_gang_over_two_nodes_waits_for_whole_nodes():
    """A (4 GPUs, 8 GPU-s) and B (8 GPUs, 16 GPU-s, rigid): A first, 0-2 on node 0; B on both nodes, 2-4."""
    result = play(Optimus(), jobs((0, 4, 2), (0, 8, 2)), two_nodes())
    assert times(result) == [(0, 2), (2, 4)]
    assert places(result, 1) == [(2, {0: 4, 1: 4})]


def test_a_gang_larger_than_any_type_takes_several():
    """6 GPUs, 60 samples, on 4 slow and 4 fast GPUs: 10 samples/s. A later job runs on the 2 slow GPUs that are left
    and does not interrupt it.
    """
    result = play(Optimus(), jobs((0, 6, 10), (1, 2, 2)), fast_and_slow(), performance=TwoThroughputs())
    assert times(result) == [(0, 6), (1, 3)]
    assert restarts(result) == [0, 0]
