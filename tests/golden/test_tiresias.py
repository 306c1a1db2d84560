"""Tiresias' queues on schedules worked by hand."""

import pytest

from baselines import Las, Tiresias
from tests.golden.playground import EVERY_SECOND, jobs, places, play, times, two_nodes


def test_demotion_and_first_come_first_served_within_a_queue():
    """One limit, 16 GPU-s; all jobs take both nodes.

    t=0: A. t=1: B comes; A (8 GPU-s) is in the first queue too and started first: A goes on. t=2: A reaches 16 and
    falls; B 2-3, then A again. t=3: B is done, C comes in the first queue: C 3-5, where it falls too. Now A and C are
    in the second queue and A started first: A 5-7 (its last 2 s), C 7-8.
    """
    result = play(Tiresias(limits=(16,)), jobs((0, 8, 4), (1, 8, 1), (3, 8, 3)), two_nodes(), rounds=EVERY_SECOND)
    assert times(result) == [(0, 7), (2, 3), (3, 8)]


def test_it_is_not_plain_least_attained_service():
    """On the same jobs LAS lets B preempt A as soon as it comes: B 1-2."""
    result = play(Las(), jobs((0, 8, 4), (1, 8, 1), (3, 8, 3)), two_nodes(), rounds=EVERY_SECOND)
    assert times(result)[1] == (1, 2)


def test_limits_count_gpus_times_time():
    """Limit 4 GPU-s. A (2 GPUs) falls at t=2, B (4 GPUs) at t=1. C (8 GPUs, from 1) waits while any of the first queue
    holds GPUs it needs: at t=1 A is still in the first queue and started first, so C runs 2-3.
    """
    result = play(Tiresias(limits=(4,)), jobs((0, 2, 4), (0, 4, 4), (1, 8, 1)), two_nodes(), rounds=EVERY_SECOND)
    assert times(result) == [(0, 5), (0, 5), (2, 3)]


def test_within_a_queue_the_job_that_started_first_goes_first():
    """t=0: A (6 GPUs, 2 s) runs; B (8 GPUs) does not fit, C (2 GPUs, 4 s) does. t=2: B came before C, but C started
    before B: it is not preempted. B 4-8.
    """
    result = play(Tiresias(limits=(100,)), jobs((0, 6, 2), (0, 8, 4), (0, 2, 4)), two_nodes())
    assert times(result) == [(0, 2), (4, 8), (0, 4)]


def test_by_entry_a_job_stops_those_of_its_queue_that_came_after_it():
    """The same jobs: at t=2 B takes all GPUs, 2-6, and C goes on for its last 2 s, 6-8."""
    scheduler = Tiresias(limits=(100,), order="entry")
    assert times(play(scheduler, jobs((0, 6, 2), (0, 8, 4), (0, 2, 4)), two_nodes())) == [(0, 2), (2, 6), (0, 8)]


@pytest.mark.parametrize(("order", "ends"), [("first_start", [6, 8, 6]), ("entry", [8, 6, 6])])
def test_a_fallen_job_is_behind_those_that_fell_before_it(order, ends):
    """Limit 8 GPU-s. A (2 GPUs) falls at 4, B (6 GPUs) at 2. C (2 GPUs, from 4, first queue) takes the GPUs of A, which
    started with B and fell after it: A ends at 8. By first start A is ahead of B, which ends at 8.
    """
    result = play(
        Tiresias(limits=(8,), order=order), jobs((0, 2, 6), (0, 6, 6), (4, 2, 2)), two_nodes(), rounds=EVERY_SECOND
    )
    assert [end for _, end in times(result)] == ends


def test_spread_counts_free_gpus_and_takes_them_from_the_nodes_that_have_most():
    """Nodes of 4. A (2 GPUs) and B (2 GPUs) take a node each, so C (4 GPUs, from 1) gets 2 of each at once; it would
    have a node to itself if they were consolidated.
    """
    spread = play(Tiresias(placement="spread"), jobs((0, 2, 4), (0, 2, 4), (1, 4, 1)), two_nodes())
    assert [places(spread, job) for job in range(3)] == [[(0, {0: 2})], [(0, {1: 2})], [(1, {0: 2, 1: 2})]]


def test_three_queues():
    """Limits 8 and 24 GPU-s: A falls at t=1 and again at t=3. B comes at 1: first queue, 1-2, falls; A is ahead of it
    in the second queue (started first) and runs 2-4 until it falls to the third; B 4-6 is done (24 GPU-s), A 6-7.
    """
    result = play(Tiresias(limits=(8, 24)), jobs((0, 8, 4), (1, 8, 3)), two_nodes(), rounds=EVERY_SECOND)
    assert times(result) == [(0, 7), (1, 6)]


def test_starving_jobs_are_promoted():
    """Limit 8 GPU-s, knob 1: a job that waited as long as it ran is promoted. A falls at 1, B 1-2. t=2: A ran 1 s and
    waited 1 s: back in the first queue, ahead of C, which never started; A 2-3, falls again. C 3-4. t=4: promoted
    again, A 4-5 and done. D 5-6.
    """
    rows = ((0, 8, 3), (1, 8, 1), (2, 8, 1), (3, 8, 1))
    promoted = play(Tiresias(limits=(8,), promote_knob=1), jobs(*rows), two_nodes(), rounds=EVERY_SECOND)
    assert times(promoted) == [(0, 5), (1, 2), (3, 4), (5, 6)]


def test_without_promotion_demoted_jobs_wait():
    """The same jobs: B, C and D pass A in turn; A has 2 s left and ends at 6."""
    rows = ((0, 8, 3), (1, 8, 1), (2, 8, 1), (3, 8, 1))
    starved = play(Tiresias(limits=(8,)), jobs(*rows), two_nodes(), rounds=EVERY_SECOND)
    assert times(starved) == [(0, 6), (1, 2), (2, 3), (3, 4)]


def test_limits_take_effect_at_rounds_only():
    """Without an interval of rounds A passes its limit at t=2 without effect and ends at 4; B follows."""
    result = play(Tiresias(limits=(16,)), jobs((0, 8, 4), (1, 8, 1)), two_nodes())
    assert times(result) == [(0, 4), (4, 5)]
