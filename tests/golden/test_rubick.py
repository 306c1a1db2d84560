"""Rubick on schedules worked by hand.

Throughputs in samples/s by number of GPUs. linear: one per GPU. flat: 2, 2.5, 2.75, 2.875. gang: 1 on two GPUs, 2 on
four. whole: 8 on eight. Under the users' plans all are half as fast.
"""

import pytest

from baselines import Rubick
from envs.types import ExecutionPlan
from tests.golden.playground import places, restarts, times
from tests.unit.baselines.rubick_worlds import Names, Told, job, nodes, play


def sizes(result, number):
    """(time, GPUs) of every start and change of a job."""
    return [(time, sum(gpus.values())) for time, gpus in places(result, number)]


def test_a_new_job_takes_gpus_where_the_loss_is_least():
    """t=0: A, linear, grows from 1 to all 4 GPUs at once. t=1: B, flat, gains 2 / 2.875 = 0.70 of its throughput by its
    first GPU, A loses 1 / 4 by its fourth: A 3, B 1. B's second GPU gains 0.17 only. t=11: B has done its 20. A has 40
    - 4 - 30 left, takes its GPU back and ends at 12.5.
    """
    result = play(Rubick(), [job(0, "linear", 4, 40), job(1, "flat", 4, 20)], nodes(4))
    assert times(result) == [(0, 12.5), (1, 11)]
    assert sizes(result, 0) == [(0, 4), (1, 3), (11, 4)]
    assert sizes(result, 1) == [(1, 1)]


def test_a_job_keeps_a_gpu_that_it_would_lose_as_much_by_as_the_other_gains():
    """A, linear, loses 1/4 a GPU; B, gang of 2 or 4, gains 1 / 2 / 2 = 1/4 a GPU: it waits until A ends at 10."""
    result = play(Rubick(), [job(0, "linear", 4, 40), job(1, "gang", 4, 20)], nodes(4))
    assert times(result) == [(0, 10), (10, 20)]
    assert sizes(result, 1) == [(10, 4)]


def test_the_job_with_the_steepest_slope_starts_first():
    """Three at once on 2 GPUs. A requests 2, so a GPU is half of its throughput; B and C request 1 and start. They end
    at 5; A has both GPUs for its 4 samples, 5-7.
    """
    trio = [job(0, "linear", 2, 4), job(0, "linear", 1, 5, most=1), job(0, "linear", 1, 5, most=1)]
    assert times(play(Rubick(), trio, nodes(2))) == [(5, 7), (0, 5), (0, 5)]


def test_equal_slopes_share_evenly():
    """A and B gain the same by every GPU, and get four of eight each: 20 samples in 5 s."""
    result = play(Rubick(), [job(0, "linear", 4, 20), job(0, "linear", 4, 20)], nodes(4, 4))
    assert times(result) == [(0, 5), (0, 5)]


def test_the_gate_opens_after_ten_restarts_of_work():
    """A restart costs 10 s. B comes at 1 and waits: A may be changed once (T - 10) / T >= 0.9, at 100. A: 400 of 1000
    done by then; 10 s of restart; 270 more by 200, when B has done its 200 at 2 a second. 100 s after its change A may
    grow if 4/3 (100 - 10) >= 100: it does, and has 330 left from 210 on: 292.5.
    """
    pair = [job(0, "linear", 4, 1000), job(1, "flat", 4, 200)]
    result = play(Rubick(gate=0.9), pair, nodes(4), restart=10, interval=50)
    assert times(result) == [(0, 292.5), (100, 200)]
    assert sizes(result, 0) == [(0, 4), (100, 3), (200, 4)]
    assert restarts(result) == [2, 0]


def test_a_stricter_gate_opens_later():
    """At 0.95 it takes 200 s: B starts then."""
    pair = [job(0, "linear", 4, 2000), job(1, "flat", 4, 200)]
    assert times(play(Rubick(gate=0.95), pair, nodes(4), restart=10, interval=50))[1] == (200, 300)


def test_a_guaranteed_job_needs_only_what_its_best_plan_needs():
    """B requests 2 GPUs with a plan of half the throughput: its guarantee is 1 sample/s, which its best plan has on 1
    GPU. It does not wait for the gate: A gives up one of 4 at once, pauses from 1 to 11 and has 396 left. When B ends
    at 11, growing does not pay: 11 + 396 / 3.
    """
    guaranteed = job(1, "linear", 2, 10, plan=ExecutionPlan(data=2), guaranteed=True)
    result = play(Rubick(), [job(0, "linear", 4, 400), guaranteed], nodes(4), restart=10)
    assert times(result) == [(0, 143), (1, 11)]
    assert sizes(result, 1) == [(1, 1)]


def test_a_guaranteed_job_stops_best_effort_ones_and_is_not_stopped():
    """A, best effort, holds all 4 GPUs, which are guaranteed to B: A stops at 1 with 36 left, B runs 1-6, A 6-15. C,
    best effort and steeper, arrives at 2, when B is at its minimum: it starts with A at 6 and gets one GPU of four.
    """
    trio = [job(0, "linear", 4, 40), job(1, "linear", 4, 20, guaranteed=True), job(2, "flat", 4, 4)]
    result = play(Rubick(), trio, nodes(4))
    assert times(result)[1] == (1, 6)
    assert sizes(result, 1) == [(1, 4)]
    assert times(result)[2] == (6, 8)
    assert sizes(result, 0) == [(0, 4), (6, 3), (8, 4)]
    assert times(result)[0] == (0, 8 + (36 - 6) / 4)


def test_slack_lets_guaranteed_jobs_run_slower():
    """Guaranteed 4 samples/s with a slack of 2: 2 GPUs suffice, and A keeps the other two."""
    pair = [job(0, "linear", 4, 40), job(1, "linear", 4, 20, guaranteed=True)]
    result = play(Rubick(slack=2.0), pair, nodes(4))
    assert sizes(result, 0)[:2] == [(0, 4), (1, 2)]
    assert sizes(result, 1) == [(1, 2)]


@pytest.mark.parametrize(("quota", "start"), [(4, 1.0), (3, 10.0)])
def test_a_guarantee_beyond_the_quota_takes_no_gpus(quota, start):
    """A, best effort, holds the node until 10. B, guaranteed 4 GPUs, gets them at once with a quota of 4. With a
    quota of 3 it competes like a best-effort job, and its slope of 1/4 takes no GPU from A.
    """
    guaranteed = job(1, "linear", 4, 20, guaranteed=True, tenant="ours")
    result = play(Rubick(), [job(0, "linear", 4, 40), guaranteed], nodes(4), quotas={"ours": quota})
    assert times(result)[1][0] == start


def test_starving_jobs_go_first():
    """Restarts are free. A holds the node; B, gang, is not steep enough to take GPUs from it. After waiting for
    5 s it starves, at the round of 6: A gives up two GPUs (it loses 1/4 by each) and continues with two.
    """
    pair = [job(0, "linear", 4, 40), job(1, "gang", 4, 4)]
    result = play(Rubick(patience=5), pair, nodes(4), interval=1)
    assert sizes(result, 1) == [(6, 2)]
    assert sizes(result, 0)[:2] == [(0, 4), (6, 2)]


@pytest.mark.parametrize(("patience", "start"), [(1800, 10.0), (5, 6.0)])
def test_only_starving_jobs_stop_others(patience, start):
    """A runs on both nodes or not at all. B, flat, would gain 0.70 of its throughput by one GPU, A loses all of its
    own: B waits until A ends at 10, or until its patience is over, at the round of 6.
    """
    pair = [job(0, "whole", 8, 80), job(1, "flat", 4, 4)]
    result = play(Rubick(patience=patience), pair, nodes(4, 4), interval=1)
    assert times(result)[1][0] == start
    assert len(places(result, 0)) == (1 if start == 10.0 else 2)


def test_a_starving_guaranteed_job_takes_its_turn():
    """All 4 GPUs are guaranteed to both. B waits from 1 on; at 6 it starves and stops A, which has 16 left. B ends at
    11, before A starves; A: 11-15.
    """
    pair = [job(0, "linear", 4, 40, guaranteed=True), job(1, "linear", 4, 20, guaranteed=True)]
    result = play(Rubick(patience=5), pair, nodes(4), interval=1)
    assert times(result) == [(0, 15), (6, 11)]
    assert sizes(result, 0) == [(0, 4), (11, 4)]


def test_a_stopped_job_looks_for_another_place():
    """Nodes of 4 and 2 GPUs, no job over both. A has the small node, B and C share the large one. A and C end at 1,
    when D arrives, guaranteed 4 GPUs: B, with 8 left, stops for it and continues at once on the small node, 1-5.
    """
    four = [
        job(0, "gang", 2, 1, most=2),
        job(0, "linear", 2, 10, most=2),
        job(0, "linear", 2, 2, most=2),
        job(1, "linear", 4, 400, most=4, guaranteed=True),
    ]
    result = play(Rubick(), four, nodes(4, 2), world=Told(apart=0.1))
    assert places(result, 1) == [(0, {0: 2}), (1, {1: 2})]
    assert times(result)[1] == (0, 5)
    assert places(result, 3) == [(1, {0: 4})]


def test_a_gang_takes_whole_nodes():
    """C requests 8 GPUs and runs on no fewer: 1 / 8 of its throughput per GPU is less than A and B lose. It starts at
    10.
    """
    trio = [job(0, "linear", 4, 40, most=4), job(0, "linear", 4, 40, most=4), job(1, "whole", 8, 80)]
    result = play(Rubick(), trio, nodes(4, 4))
    assert times(result) == [(0, 10), (0, 10), (10, 20)]
    assert places(result, 2) == [(10, {0: 4, 1: 4})]


def test_a_growing_job_moves_where_there_is_room():
    """A, linear, and B, rigid, share a node of 2 GPUs; C, rigid, has the other of 4 until 4. A restart takes 1 s: at
    4, A moves there, since 4 (4 - 1) >= 4. It has done 4 of 24, and ends at 4 + 1 + 20 / 4. On two nodes it is slow.
    """
    trio = [job(0, "linear", 1, 24, most=4), job(0, "linear", 1, 100, most=1), job(0, "gang", 4, 8, least=4, most=4)]
    result = play(Rubick(), trio, nodes(2, 4), restart=1, world=Told(apart=0.1))
    assert places(result, 0) == [(0, {0: 1}), (4, {1: 4})]
    assert times(result)[0] == (0, 10)


def test_plans_are_named_by_the_planner():
    """The planner knows linear: its plan is in the log with its size. It does not know gang, which is left to the
    world.
    """
    result = play(Rubick(Names(("linear",))), [job(0, "linear", 4, 8), job(2, "gang", 4, 8)], nodes(4))
    log = result.log
    named = [log.placement(row).plan for row in range(len(log.events)) if log.events["num_shares"][row]]
    assert named == [ExecutionPlan(data=4, checkpointing=True), None]
    assert times(result) == [(0, 2), (2, 6)]


def test_without_plan_choice_jobs_keep_the_users_plans():
    """Half as fast, on any number of GPUs: 4 GPUs do 2 samples/s, and its plan follows its size."""
    own = job(0, "linear", 2, 20, most=4, plan=ExecutionPlan(data=2))
    result = play(Rubick(Names(), plans=False), [own], nodes(4))
    assert times(result) == [(0, 10)]
    assert result.log.placement(1).plan == ExecutionPlan(data=4)


def test_without_resource_choice_jobs_have_their_requested_gpus():
    """The best plan on 2 GPUs: 2 samples/s."""
    own = job(0, "linear", 2, 20, most=4, plan=ExecutionPlan(data=2))
    result = play(Rubick(Names(), resources=False), [own], nodes(4))
    assert times(result) == [(0, 10)]
    assert sizes(result, 0) == [(0, 2)]


def test_without_both_choices_jobs_run_as_requested():
    """The user's plan on the 2 GPUs requested: 1 sample/s."""
    own = job(0, "linear", 2, 20, most=4, plan=ExecutionPlan(data=2))
    result = play(Rubick(Names(), plans=False, resources=False), [own], nodes(4))
    assert times(result) == [(0, 20)]
    assert result.log.placement(1).plan == ExecutionPlan(data=2)
