"""Starling on schedules worked by hand, with plain parameters instead of the tuned ones."""

from dataclasses import replace

import pytest

from baselines.starling.scheduler import Starling, StarlingParameters, Variant
from envs.performance import IdealModel
from envs.simulation import Information, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, NodeSpec
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, places, play, restarts, times, two_nodes

PLAIN = StarlingParameters(
    knee=0.3, gang=1.0, urgency=1.0, floor=1.0, horizon=1e6, stickiness=0.0, tolerance=0.0, hysteresis=0.0,
    prior=10.0, spread=0.0, residual=1.0,
)  # fmt: skip
LOOK_AHEADS = [0, 12]


def plain(look_ahead: int = 12) -> Starling:
    """Starling with plain parameters for known and for hidden work."""
    return Starling(PLAIN, PLAIN, look_ahead, hidden_look_ahead=look_ahead)


@pytest.mark.parametrize("look_ahead", LOOK_AHEADS)
def test_the_shortest_job_takes_all_gpus_first(look_ahead):
    """A: 64 GPU-s, B: 16, both 1 to 8 GPUs with linear scaling, so that every GPU pays: B 0-2, then A 2-10."""
    result = play(plain(look_ahead), jobs((0, 4, 16), (0, 4, 4), elastic=(1, 8)), two_nodes())
    assert times(result) == [(2, 10), (0, 2)]


@pytest.mark.parametrize("look_ahead", LOOK_AHEADS)
def test_a_shorter_new_job_displaces_a_longer_one(look_ahead):
    """t=0: A (80 GPU-s) on all 8. t=5: 40 left, B comes with 8: it runs 5-6, A again 6-11."""
    result = play(plain(look_ahead), jobs((0, 8, 10), (5, 8, 1), elastic=(1, 8)), two_nodes())
    assert times(result) == [(0, 11), (5, 6)]


@pytest.mark.parametrize(("restart", "ends"), [(5, [(0, 16), (1, 2)]), (20, [(0, 10), (10, 11)])])
def test_a_displacement_must_gain_more_than_it_costs(restart, ends):
    """A: 8 GPUs for 10 s. t=1: B comes, 4 GPUs for 1 s. Kept, they end 9 and 10 s later.

    Displaced for a restart of 5 s: 1 and 1 + 5 + 9 s, a gain of 3. For one of 20 s: 1 and 30 s, a loss of 12.
    """
    result = play(plain(), jobs((0, 8, 10), (1, 4, 1)), two_nodes(), restart_delay=restart)
    assert times(result) == ends
    assert restarts(result)[0] == (1 if restart == 5 else 0)


def test_a_restart_weight_counts_restarts_more_than_they_take():
    """The first case above, with restarts of 5 s counted as 20 s: the displacement no longer pays."""
    heavy = replace(PLAIN, restart_weight=4.0)
    result = play(Starling(heavy, heavy), jobs((0, 8, 10), (1, 4, 1)), two_nodes(), restart_delay=5)
    assert times(result) == [(0, 10), (10, 11)]


def test_growth_waits_for_the_restart_to_pay():
    """Two elastic jobs of up to 4 GPUs, a node each: A 16 GPU-s, B 32. At 4 A ends; B, on 4 of 4, cannot gain.

    With up to 8 GPUs and B of 160 GPU-s, B has 144 left at 4: 36 s more, or a restart of 10 s and 18 s: 4 + 28 = 32.
    """
    small = play(plain(), jobs((0, 4, 4), (0, 4, 8), elastic=(1, 4)), two_nodes(), restart_delay=10)
    assert (times(small), restarts(small)) == ([(0, 4), (0, 8)], [0, 0])
    rows = jobs((0, 4, 4), (0, 4, 40), elastic=(4, 8))
    large = play(
        Starling(StarlingParameters(1.0, 1.0, 1.0, 1.0, 1e6, 0.0, 0.0, 0.0)), rows, two_nodes(), restart_delay=10
    )
    assert times(large)[0] == (0, 2)  # linear scaling: all sizes are equally efficient, so the largest is used
    assert times(large)[1] == (2, 2 + 20)


def test_rigid_jobs_go_by_gpu_time():
    """A: 24 GPU-s on 8 GPUs. B: 20 GPU-s on 2. With exponent 1 B goes first: 0-10; A 10-13. With 0, A: 0-3, B 3-13.

    This is the order of the candidate; look-ahead would find that the second is better (3 + 13 < 10 + 13).
    """
    pair = jobs((0, 8, 3), (0, 2, 10))
    assert times(play(plain(0), pair, two_nodes())) == [(10, 13), (0, 10)]
    by_time = StarlingParameters(0.3, 0.0, 1.0, 1.0, 1e6, 0.0, 0.0, 0.0)
    assert times(play(Starling(by_time, look_ahead=0), pair, two_nodes())) == [(0, 3), (3, 13)]


def test_the_shorter_job_gets_the_faster_type():
    """A (40 GPU-s) and B (20) want 4 GPUs. B on the fast node, 0-2.5; A slow till then. Its other 30 fast: 3.75 s."""
    result = play(plain(), jobs((0, 4, 10), (0, 4, 5)), fast_and_slow(), performance=TwoThroughputs())
    assert times(result) == [(0, 6.25), (0, 2.5)]
    assert places(result, 0) == [(0, {0: 4}), (2.5, {1: 4})]


def test_a_gang_over_several_types_starts_and_stays():
    """No one type has eight GPUs: A runs on both nodes, 0-5 at the mean throughput, and B, shorter, waits for it."""
    result = play(plain(), jobs((0, 8, 7.5), (1, 2, 1)), fast_and_slow(), performance=TwoThroughputs())
    assert times(result) == [(0, 5), (5, 5.5)]


@pytest.mark.parametrize(("prior", "ends"), [(10.0, [(0, 10), (10, 12)]), (3.0, [(0, 12), (4, 6)])])
def test_hidden_work_is_guessed_from_run_times(prior, ends):
    """A: 8 GPUs, 10 s. t=4: A has run 4 s; B comes, 2 s. The prior is one run time.

    If it is 10 s, A is assumed to need 6 s and B 10 or more. If it is 3 s, A has run longer and is assumed to need as
    long again; of 9 jobs that ran for 3 s, 8 ended, so an end of B is assumed to need 3 * 9 / 8 s: B goes first.
    """
    parameters = replace(PLAIN, prior=prior)
    scenario = Scenario(restart_delay=0.0, information=Information("none"))
    simulator = Simulator(jobs((0, 8, 10), (4, 8, 2)), Setup(two_nodes(), IdealModel(), scenario))
    assert times(run_episode(Starling(parameters, parameters), simulator)) == ends


def test_the_end_of_the_queue_starts_where_there_is_room():
    """One node of 2 GPUs. 20 rigid jobs of 2 GPUs are more than is planned for; a job of 1 GPU that comes last in order
    starts beside the one that runs alone at 1 GPU.
    """
    rows = [(0.0, 1, 1.0)] + [(0.0, 2, 5.0)] * 20 + [(0.0, 1, 100.0)]
    result = play(plain(), jobs(*rows), ClusterSpec((NodeSpec("plain", 2),)))
    assert times(result)[0] == (0, 1)
    assert times(result)[-1][0] == 0


def test_another_order_is_applied_if_it_ends_sooner():
    """A: 8 GPUs for 3 s, B: 2 for 10 s. By GPU-time B would be first: 0-10 and 10-13, in sum 23.

    By time A is first: 0-3, then B 3-13, in sum 16. With one variant it does not find that; with two variants it does.
    """
    pair = jobs((0, 8, 3), (0, 2, 10))
    alone = play(Starling(PLAIN, PLAIN, variants=()), pair, two_nodes())
    assert times(alone) == [(10, 13), (0, 10)]
    both = play(Starling(PLAIN, PLAIN, variants=[Variant(gang=0.0, knee=0.3)]), pair, two_nodes())
    assert times(both) == [(0, 3), (3, 13)]
