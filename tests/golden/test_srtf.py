"""Shortest remaining time first on schedules worked by hand."""

from baselines import Srtf
from envs.metrics import times_to_start, waits
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, restarts, times, two_nodes


def test_preemption_and_restart_of_a_gang_over_two_nodes():
    """t=0: A on both nodes, 10 s to go. t=4: B needs 3 s, A still 6: B takes A's GPUs until 7. A restarts at 7,
    processes again from 9 on (restart delay 2), and ends 6 s later. So A waits from 4 to 7, and not while it restarts.
    """
    result = play(Srtf(), jobs((0, 8, 10), (4, 4, 3)), two_nodes(), restart_delay=2)
    assert times(result) == [(0, 15), (4, 7)]
    assert places(result, 0) == [(0, {0: 4, 1: 4}), (7, {0: 4, 1: 4})]
    assert [record.num_preemptions for record in result] == [1, 0]
    assert restarts(result) == [1, 0]
    assert waits(result).tolist() == [3, 0]
    assert times_to_start(result.records).tolist() == [0, 0]


def test_longer_jobs_do_not_preempt():
    """t=4: A has 6 s to go, B 7: B waits until 10."""
    result = play(Srtf(), jobs((0, 8, 10), (4, 4, 7)), two_nodes())
    assert times(result) == [(0, 10), (10, 17)]


def test_time_and_gpu_time_order_differently():
    """A: 3 s on 8 GPUs, 24 GPU-s. B: 10 s on 2 GPUs, 20 GPU-s. By time A goes first, by GPU-time B."""
    pair = jobs((0, 8, 3), (0, 2, 10))
    assert times(play(Srtf(), pair, two_nodes())) == [(0, 3), (3, 13)]
    assert times(play(Srtf(by="gpu_time"), pair, two_nodes())) == [(10, 13), (0, 10)]


def test_a_job_that_does_not_fit_is_skipped():
    """t=0: B (2 s) on node 0; A (3 s, 8 GPUs) does not fit and C (5 s) starts on node 1. t=2: A, now 3 s, is shorter
    than C, which still needs 3: a tie, and A came first. A 2-5, then C's last 3 s.
    """
    result = play(Srtf(), jobs((0, 8, 3), (0, 4, 2), (0, 4, 5)), two_nodes())
    assert times(result) == [(2, 5), (0, 2), (0, 8)]


def test_sticky_does_not_move_jobs_and_planning_anew_does():
    """t=0: B (4 s) on node 0, A (10 s) on node 1. t=4: B is done. Sticky: A ends at 10. Anew: A goes to the first node
    with room, node 0, and pays 2 s for it: 12.
    """
    pair = jobs((0, 4, 10), (0, 4, 4))
    sticky = play(Srtf(), pair, two_nodes(), restart_delay=2)
    anew = play(Srtf(sticky=False), pair, two_nodes(), restart_delay=2)
    assert (times(sticky), restarts(sticky)) == ([(0, 10), (0, 4)], [0, 0])
    assert (times(anew), restarts(anew)) == ([(0, 12), (0, 4)], [1, 0])
    assert places(anew, 0) == [(0, {1: 4}), (4, {0: 4})]


def test_planning_anew_gives_larger_jobs_wholly_free_nodes():
    """A (1 GPU, 1 s) sits on node 0, so B (8 GPUs, 2 s) waits and C (4 GPUs, 9 s) takes node 1. t=1: B on both until
    3.
    """
    result = play(Srtf(sticky=False), jobs((0, 1, 1), (0, 8, 2), (0, 4, 9)), two_nodes())
    assert times(result) == [(0, 1), (1, 3), (0, 11)]
    assert places(result, 1) == [(1, {0: 4, 1: 4})]


def test_only_a_job_in_the_way_is_displaced():
    """t=0: A (9 s) on node 0, B (20 s) on node 1. t=1: C (5 s, 4 GPUs) displaces B, the longest; A is not interrupted.
    t=6: B returns to node 1, with 19 s to go and 1 s of restart: 26.
    """
    result = play(Srtf(), jobs((0, 4, 9), (0, 4, 20), (1, 4, 5)), two_nodes(), restart_delay=1)
    assert times(result) == [(0, 9), (0, 26), (1, 6)]
    assert restarts(result) == [0, 1, 0]


def test_moving_to_a_faster_type_when_that_pays():
    """40 and 160 samples. t=0: A on the fast node until 5, B on the slow one. t=5: B has 140 samples left: 35 s where
    it is, 17.5 s on the fast node plus 2 s of restart: it moves and ends at 24.5. With a restart of 20 s it stays:
    40.
    """
    pair = jobs((0, 4, 10), (0, 4, 40))
    moved = play(Srtf(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=2)
    assert times(moved) == [(0, 5), (0, 24.5)]
    assert places(moved, 1) == [(0, {0: 4}), (5, {1: 4})]
    stayed = play(Srtf(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=20)
    assert times(stayed) == [(0, 5), (0, 40)]


def test_a_move_leaves_room_for_waiting_jobs():
    """As above, with C of 80 samples from 4 on. t=4: C (10 s on fast GPUs) is shorter than B (144 samples, 18 s) and
    takes the slow node from it. t=5: A is done; C, 76 samples left, moves to the fast node (2 + 9.5 s) and B returns to
    the slow one, working again from 7. t=16.5: C is done; B, 144 - 38 samples left, moves to the fast node: 2 + 13.25
    s.
    """
    result = play(
        Srtf(), jobs((0, 4, 10), (0, 4, 40), (4, 4, 20)), fast_and_slow(), performance=TwoThroughputs(), restart_delay=2
    )
    assert times(result) == [(0, 5), (0, 31.75), (4, 16.5)]
    assert places(result, 1) == [(0, {0: 4}), (5, {0: 4}), (16.5, {1: 4})]
