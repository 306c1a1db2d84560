"""FIFO and its backfills on schedules worked by hand."""

import pytest

from baselines import Fifo
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, restarts, times, two_nodes

# A, then a gang over both nodes, then a job that fits beside A and ends before it, then one that fits but ends after A.
FOUR = ((0, 4, 10), (1, 8, 5), (2, 2, 3), (3, 2, 20))


def test_no_job_passes_the_head():
    """t=0: A on node 0. t=1: B needs both nodes and waits; C and D wait behind it. t=10: B. t=15: C and D together."""
    result = play(Fifo(), jobs(*FOUR), two_nodes())
    assert times(result) == [(0, 10), (10, 15), (15, 18), (15, 35)]


def test_skipping_lets_all_jobs_pass_and_delays_the_gang():
    """t=2: C on node 1 until 5. t=3: D beside it until 23. Only then are both nodes free: B 23-28."""
    result = play(Fifo(backfill="skip"), jobs(*FOUR), two_nodes())
    assert times(result) == [(0, 10), (23, 28), (2, 5), (3, 23)]


def test_easy_lets_jobs_pass_that_end_before_the_reservation():
    """B is due at 10, when A ends. C would end at 5: passes. D would end at 23: waits for B, then 15-35."""
    result = play(Fifo(backfill="easy"), jobs(*FOUR), two_nodes())
    assert times(result) == [(0, 10), (10, 15), (2, 5), (15, 35)]


def test_easy_lets_a_long_job_pass_on_gpus_that_the_head_does_not_need():
    """t=0: A holds node 0 and half of node 1. t=1: B (4 GPUs) is due at 10 on node 0. C and D are long: C fits beside
    B's reservation on node 1 and starts at 2; D finds no room. t=10: B on node 0 until 15. t=15: D on node 0 until
    45.
    """
    result = play(Fifo(backfill="easy"), jobs((0, 6, 10), (1, 4, 5), (2, 2, 100), (3, 4, 30)), two_nodes())
    assert times(result) == [(0, 10), (10, 15), (2, 102), (15, 45)]
    assert places(result, 1) == [(10, {0: 4})]
    assert places(result, 2) == [(2, {1: 2})]


def test_easy_protects_only_the_head():
    """B (8 GPUs) is due at 10. C (6 GPUs, second in the queue) has no reservation: D and E pass both, since they end
    by 10.
    """
    result = play(Fifo(backfill="easy"), jobs((0, 4, 10), (1, 8, 5), (1, 6, 5), (2, 4, 4), (3, 4, 4)), two_nodes())
    assert times(result) == [(0, 10), (10, 15), (15, 20), (2, 6), (6, 10)]


def test_easy_counts_a_job_started_in_the_same_round():
    """All come at 0: A takes node 0 for 10 s and B is due when it ends. D fits on node 1 and ends at 9; E must wait
    for B.
    """
    result = play(Fifo(backfill="easy"), jobs((0, 4, 10), (0, 8, 5), (0, 4, 9), (0, 4, 11)), two_nodes())
    assert times(result) == [(0, 10), (10, 15), (0, 9), (15, 26)]


def test_easy_gives_gpus_beside_the_reservation_only_once():
    """A on node 0 until 10; B (6 GPUs) is due then on node 0 and half of node 1. Of three long jobs of one GPU two fit
    into the other half; the third waits for a GPU until B ends at 15.
    """
    rows = ((0, 4, 10), (1, 6, 5), (2, 1, 100), (2, 1, 100), (2, 1, 100))
    result = play(Fifo(backfill="easy"), jobs(*rows), two_nodes())
    assert times(result) == [(0, 10), (10, 15), (2, 102), (2, 102), (15, 115)]


def test_best_fit_or_first_fit():
    """t=0: A (2 GPUs) on node 0, B (3) on node 1. t=1: C (1 GPU) fits best beside B, first beside A; so D (2 GPUs) has
    room on node 0 at once, or only when C ends.
    """
    rows = ((0, 2, 9), (0, 3, 9), (1, 1, 2), (1, 2, 1))
    assert times(play(Fifo(), jobs(*rows), two_nodes()))[2:] == [(1, 3), (1, 2)]
    assert times(play(Fifo(placement="first_fit"), jobs(*rows), two_nodes()))[2:] == [(1, 3), (3, 4)]


@pytest.mark.parametrize("backfill", ["none", "skip", "easy"])
def test_first_fit_backfills_too(backfill):
    """The four jobs above fit in the same way, best or first."""
    best = play(Fifo(backfill=backfill), jobs(*FOUR), two_nodes())
    first = play(Fifo(backfill=backfill, placement="first_fit"), jobs(*FOUR), two_nodes())
    assert times(first) == times(best)


def test_a_gang_takes_two_nodes():
    """6 GPUs are a whole node and a remainder of 2; beside it fits a job of 2 but not one of 4."""
    result = play(Fifo(backfill="skip"), jobs((0, 6, 10), (0, 4, 1), (0, 2, 1)), two_nodes())
    assert places(result, 0) == [(0, {0: 4, 1: 2})]
    assert times(result) == [(0, 10), (10, 11), (0, 1)]


def test_a_slow_gpu_now_rather_than_a_fast_one_later():
    """40 and 160 samples. t=0: A on the fast node, 40 / 8 = 5 s; B on the slow one, 160 / 4 = 40 s: it stays there."""
    result = play(Fifo(), jobs((0, 4, 10), (0, 4, 40)), fast_and_slow(), performance=TwoThroughputs(), restart_delay=2)
    assert times(result) == [(0, 5), (0, 40)]
    assert places(result, 1) == [(0, {0: 4})]
    assert restarts(result) == [0, 0]


def test_a_gang_larger_than_any_type_takes_several():
    """6 GPUs on 4 slow and 4 fast ones: the fast node whole and two slow GPUs. Workers share the batch in proportion to
    throughput: (4 x 2 + 2 x 1) = 10 samples/s, so 60 samples take 6 s. The next job fits on the two slow GPUs left: 2
    samples at 2 per second.
    """
    result = play(Fifo(), jobs((0, 6, 10), (1, 2, 1)), fast_and_slow(), performance=TwoThroughputs())
    assert places(result, 0) == [(0, {0: 2, 1: 4})]
    assert times(result) == [(0, 6), (1, 2)]
