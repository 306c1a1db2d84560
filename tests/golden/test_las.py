"""Least attained service on schedules worked by hand."""

from baselines import Las
from envs.types import ClusterSpec, NodeSpec
from tests.golden.playground import (
    EVERY_SECOND,
    TwoThroughputs,
    fast_and_slow,
    jobs,
    places,
    play,
    restarts,
    times,
    two_nodes,
)


def test_a_new_job_preempts_and_keeps_its_gpus_until_the_next_event():
    """t=2: A has 16 GPU-s, B none: B runs until its end at 6, as no event comes before. A waits 2-6, ends at 14."""
    result = play(Las(), jobs((0, 8, 10), (2, 8, 4)), two_nodes())
    assert times(result) == [(0, 14), (2, 6)]
    assert [record.num_preemptions for record in result] == [1, 0]


def test_equals_take_turns_every_second():
    """B runs 2-4 (16 GPU-s each: a tie, A came first), A 4-5, B 5-6, A 6-7, B 7-8 and is done; A has 6 s left: 14."""
    result = play(Las(), jobs((0, 8, 10), (2, 8, 4)), two_nodes(), rounds=EVERY_SECOND)
    assert times(result) == [(0, 14), (2, 8)]
    assert [record.num_preemptions for record in result] == [3, 2]


def test_service_counts_gpus_or_only_time():
    """A: 2 GPUs, 20 s. B: 8 GPUs, 3 s, from 1. In GPU-s, B's first second (8) weighs as much as four of A's: B 1-2, A
    2-6 (10), B 6-7 (16), A 7-11 (18), B 11-12. By time they alternate: B 1-2, 3-4, 5-6.
    """
    pair = jobs((0, 2, 20), (1, 8, 3))
    assert times(play(Las(), pair, two_nodes(), rounds=EVERY_SECOND)) == [(0, 23), (1, 12)]
    assert times(play(Las(by="time"), pair, two_nodes(), rounds=EVERY_SECOND)) == [(0, 23), (1, 6)]


def test_the_most_served_job_is_displaced():
    """t=0: A and B on a node each. t=1: C needs a node: A and B are equal, so B, the later one, is displaced. t=3: C is
    done; B runs its last 4 s after a restart of 1 s.
    """
    result = play(Las(), jobs((0, 4, 5), (0, 4, 5), (1, 4, 2)), two_nodes(), restart_delay=1)
    assert times(result) == [(0, 5), (0, 8), (1, 3)]
    assert restarts(result) == [0, 1, 0]


def test_a_job_moves_to_a_faster_type_if_as_long_again_would_pay():
    """t=0: A on the fast node until 5; B on the slow one, 160 samples. t=5: B has run 5 s; 5 s more would become
    2.5 s on the fast node: worth a restart of 2 s (B ends at 5 + 2 + 140 / 8 = 24.5), not one of 3 s (40).
    """
    pair = jobs((0, 4, 10), (0, 4, 40))
    moved = play(Las(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=2)
    assert times(moved) == [(0, 5), (0, 24.5)]
    assert places(moved, 1) == [(0, {0: 4}), (5, {1: 4})]
    assert times(play(Las(), pair, fast_and_slow(), performance=TwoThroughputs(), restart_delay=3)) == [(0, 5), (0, 40)]


def test_restarts_longer_than_a_round_do_not_stop_all_progress():
    """A and B need the node, rounds are 1 s apart, a restart takes 3 s. A runs 0-1 and B 1-2, as B has less service.
    t=2: equal, A came first; it restarts until 5 and is protected until 8, so it works 5-8 (4 s in all). t=8: A has 28
    GPU-s, B 4. B restarts until 11 and ends its last 3 s at 14, when its protection ends too. t=14: A restarts until
    17 and works its last 6 s until 23.
    """
    pair = jobs((0, 4, 10), (1, 4, 4))
    result = play(Las(), pair, ClusterSpec((NodeSpec("plain", 4),)), rounds=EVERY_SECOND, restart_delay=3)
    assert times(result) == [(0, 23), (1, 14)]
    assert restarts(result) == [2, 1]
