"""Gavel on schedules worked by hand."""

import pytest

from baselines import Gavel
from envs.simulation import Rounds, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, restarts, times, two_nodes
from tests.unit.simulation.test_sharing import Together

EVERY_TEN = Rounds(on_events=False, interval=10.0)


def gavel(objective="max_min", **options):
    return Gavel(objective, round_length=10.0, reset_interval=1000.0, **options)


def test_equals_take_turns_on_the_fast_node():
    """Two jobs of 4 GPUs, 120 samples each, 8/s on the fast node and 4/s on the slow one: half of each for both.

    0-10: A, the first of two equals, on fast, B on slow. Then A has had 15 of 20 s on fast (5 each as a head start), B
    5: B's priority there is 0.5 / 0.25, A's 0.5 / 0.75: they swap. Both have 80 + 40 samples at 20.
    """
    pair = jobs((0, 4, 30), (0, 4, 30))
    result = play(gavel(), pair, fast_and_slow(), rounds=EVERY_TEN, performance=TwoThroughputs())
    assert times(result) == [(0, 20), (0, 20)]
    assert places(result, 0) == [(0, {1: 4}), (10, {0: 4})]
    assert places(result, 1) == [(0, {0: 4}), (10, {1: 4})]


def test_makespan_is_minimised():
    """A has 80 samples, B 160; together they need 20 s at 8 + 4 samples/s, if B has the fast node all the time."""
    pair = jobs((0, 4, 20), (0, 4, 40))
    result = play(gavel("makespan"), pair, fast_and_slow(), rounds=EVERY_TEN, performance=TwoThroughputs())
    assert times(result) == [(0, 20), (0, 20)]
    assert places(result, 1) == [(0, {1: 4})]
    assert restarts(result) == [0, 0]


def test_a_small_gang_gets_time_in_proportion():
    """A wants all 8 GPUs, B 1: max-min per GPU gives B all of the time and A the time that is left.

    One type, so GPUs times share is equalised as far as shares allow: 1 for B, 7 / 8 for A. Both begin with 5 s: B
    has priority 1 / 0.5, A 0.875 / 0.5. B runs 0-10, A does not fit beside it. At 10 it is 1 / (15 / 20) for B and
    0.875 / (5 / 20) for A: A 10-20. At 20 both have had 15 s: B goes first again, and so on in turn.
    A (20 s) ends at 40, B (25 s) at 45.
    """
    result = play(gavel(), jobs((0, 8, 20), (0, 1, 25)), two_nodes(), rounds=EVERY_TEN)
    assert times(result) == [(10, 40), (0, 45)]


def test_equal_shares_of_finish_time():
    """Two jobs of the whole cluster, 40 s each: each gets half of the time, in turns of 10 s. A ends at 70, B at 80."""
    result = play(gavel("finish_time"), jobs((0, 8, 40), (0, 8, 40)), two_nodes(), rounds=EVERY_TEN)
    assert times(result) == [(0, 70), (10, 80)]


def test_a_job_that_runs_on_keeps_its_gpus():
    """Three jobs of 4 GPUs, 30 s each, two nodes: two thirds each. 0-10 A on node 0, B on node 1; 10-20 A, equal to B
    but before it in order, stays, C has node 1; 20-30 A has had two rounds, B and C one: C stays, B has node 0; 30-40
    all have one left, so by order: B stays, A has node 1; 40-50 C.
    """
    result = play(gavel(), jobs((0, 4, 30), (0, 4, 30), (0, 4, 30)), two_nodes(), rounds=EVERY_TEN)
    assert times(result) == [(0, 40), (0, 40), (10, 50)]
    assert places(result, 0) == [(0, {0: 4}), (30, {1: 4})]
    assert places(result, 1) == [(0, {1: 4}), (20, {0: 4})]
    assert places(result, 2) == [(10, {1: 4}), (40, {0: 4})]


def test_between_rounds_only_idle_gpus_are_given_away():
    """A runs on both nodes, 0-9. B arrives at 3; its turn would come at 10, but at 9 its GPUs are idle."""
    rounds = Rounds(on_events=True, interval=10.0)
    result = play(gavel(), jobs((0, 8, 9), (3, 4, 4)), two_nodes(), rounds=rounds)
    assert times(result) == [(0, 9), (9, 13)]


def test_a_gang_without_room_in_one_piece_moves_other_jobs():
    """Four jobs of 2 GPUs fill two nodes; at 10 A and C end, B and D hold half a node each, and E, of 4 GPUs, is to run
    beside them. The type is placed anew, largest first, and only D moves.
    """
    rows = jobs((0, 2, 10), (0, 2, 30), (0, 2, 10), (0, 2, 30), (10, 4, 10))
    result = play(gavel(), rows, two_nodes(), rounds=EVERY_TEN)
    assert times(result) == [(0, 10), (0, 30), (0, 10), (0, 30), (10, 20)]
    assert sum(restarts(result)) == 1


def test_a_gang_larger_than_any_type_takes_several_and_is_left_alone():
    """6 GPUs, 60 samples on 4 slow and 4 fast GPUs: 10 samples/s; the other job has the two slow ones that are left."""
    result = play(gavel(), jobs((0, 6, 10), (0, 2, 2)), fast_and_slow(), rounds=EVERY_TEN, performance=TwoThroughputs())
    assert times(result)[0][0] in (0, 10)
    assert result.finished.all()
    assert restarts(result)[0] == 0


def light(*rows: tuple[float, int, float]) -> tuple[Workload, Setup]:
    """Jobs (submission, GPUs, work) that keep 0.75 beside another one, and one node of four GPUs; free restarts."""
    specs = [JobSpec(i, submit, gpus, gpus * seconds, "light") for i, (submit, gpus, seconds) in enumerate(rows)]
    scenario = Scenario(restart_delay=0.0, rounds=EVERY_TEN, sharing="pairs")
    return Workload.of(specs), Setup(ClusterSpec((NodeSpec("V100", 4),), "one"), Together(), scenario)


def test_three_jobs_share_gpus_by_turns():
    """Three jobs of 4 GPUs, 30 s each alone. A third of the time for each of three pairs: 2/3 of 0.75 for each job.

    All pairs have priority (1/3) / (5/30), and none has a share alone: A and B 0-10. Then A and B have had 15 s, the
    other pairs 5: A and C 10-20, B and C 20-30. Each has had 20 s at 0.75. A is done after two more rounds, at 50, and
    B and C after the third, at 60. Alone in turns, the last would end at 90.
    """
    result = run_episode(gavel(pairs=True), Simulator(*light(*[(0, 4, 30)] * 3)))
    assert times(result) == [(0, 50), (0, 60), (10, 60)]


def test_a_partner_that_is_left_keeps_its_gpus():
    """A (12 s) and B (30 s) share; A ends at 16, B has 12 s done and goes on alone at once: 34, without a restart."""
    result = run_episode(gavel(pairs=True), Simulator(*light((0, 4, 12), (0, 4, 30))))
    assert times(result) == [(0, 16), (0, 34)]
    assert restarts(result) == [0, 0]


def test_jobs_that_find_gpus_of_their_own_do_not_share():
    """Two jobs of two GPUs fit beside each other, where each has its whole throughput."""
    result = run_episode(gavel(pairs=True), Simulator(*light((0, 2, 30), (0, 2, 30))))
    assert times(result) == [(0, 30), (0, 30)]


@pytest.mark.parametrize("objective", ["max_min", "makespan", "finish_time", "total_throughput", "isolated"])
@pytest.mark.parametrize("aware", [True, False])
def test_every_objective_uses_the_whole_cluster(objective, aware):
    """Eight jobs of one GPU each on 4 fast and 4 slow GPUs: no GPU idles while a job waits, so by 10 all have run."""
    cluster = ClusterSpec((NodeSpec("slow", 4), NodeSpec("fast", 4)))
    result = play(
        gavel(objective, aware=aware),
        jobs(*[(0.0, 1, 50.0)] * 8),
        cluster,
        rounds=EVERY_TEN,
        performance=TwoThroughputs(),
    )
    assert [start for start, _ in times(result)] == [0.0] * 8
