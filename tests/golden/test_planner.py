"""The rollout planner and the oracle on schedules worked by hand."""

from dataclasses import replace

import pytest

from baselines.planner import OraclePlanner, RolloutPlanner
from baselines.starling.scheduler import Starling
from envs.performance import IdealModel
from envs.simulation import Information, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, MurmurationError, NodeSpec
from tests.golden.playground import jobs, play, restarts, times, two_nodes
from tests.golden.test_starling import PLAIN

WIDE_LAST = replace(PLAIN, gang=5.0)  # a job's GPUs count so much that wide jobs come last
BASE = Starling(WIDE_LAST, WIDE_LAST, look_ahead=0, variants=())
LONG_AND_WIDE = jobs((0, 1, 100), (0, 4, 1))
ONE_NODE = ClusterSpec((NodeSpec("plain", 4),), "one node")


def test_the_base_alone_runs_the_wide_job_last():
    """A: 1 GPU for 100 s. B: 4 GPUs for 1 s, and 1 x 4^5 > 100: B waits until A ends."""
    assert times(play(BASE, LONG_AND_WIDE, ONE_NODE)) == [(0, 100), (100, 101)]
    for nothing in (0, 1):
        assert times(play(RolloutPlanner(BASE, nothing), LONG_AND_WIDE, ONE_NODE)) == [(0, 100), (100, 101)]


@pytest.mark.parametrize("proposers", [None, []], ids=["proposals", "local changes alone"])
@pytest.mark.parametrize("rounds", [1, 3, None])
def test_it_finds_the_better_order(proposers, rounds):
    """B first ends at 1 and A at 101: 102 s of JCT in place of 201."""
    planner = RolloutPlanner(BASE, rounds=rounds, proposers=proposers)
    assert times(play(planner, LONG_AND_WIDE, ONE_NODE)) == [(1, 101), (0, 1)]
    counters = planner.counters
    assert counters["chosen_local_changes" if proposers == [] else "chosen_proposals"] >= 1
    assert counters["rollouts"] > 1


@pytest.mark.parametrize(("restart", "ends"), [(5, [(0, 106), (10, 11)]), (200, [(0, 100), (100, 101)])])
def test_it_interrupts_a_job_if_that_pays_for_the_restart(restart, ends):
    """A runs 10 s when B comes. Waiting costs B 90 s; interrupting costs A 1 s and the restart."""
    later = jobs((0, 1, 100), (10, 4, 1))
    result = play(RolloutPlanner(BASE), later, ONE_NODE, restart_delay=restart)
    assert times(result) == ends
    assert restarts(result)[0] == (1 if restart == 5 else 0)


def test_milliseconds_bound_it_too():
    """No time at all is the base; a minute is more than enough for the few candidates that there are."""
    none, minute = RolloutPlanner(BASE, milliseconds=0.0), RolloutPlanner(BASE, milliseconds=60_000.0)
    assert times(play(none, LONG_AND_WIDE, ONE_NODE)) == [(0, 100), (100, 101)]
    assert times(play(minute, LONG_AND_WIDE, ONE_NODE)) == [(1, 101), (0, 1)]


def hidden(scheduler) -> list[tuple[float, float]]:
    """Two jobs for the whole cluster, 100 and 1 s long, where nobody knows it."""
    setup = Setup(two_nodes(), IdealModel(), Scenario(information=Information("none"), restart_delay=0.0))
    return times(run_episode(scheduler, Simulator(jobs((0, 8, 100), (0, 8, 1)), setup)))


def test_the_oracle_knows_hidden_work():
    """The planner assumes equal work and keeps the order of submission; the oracle runs the short job first."""
    assert hidden(RolloutPlanner()) == [(0, 100), (100, 101)]
    assert hidden(OraclePlanner()) == [(1, 101), (0, 1)]


def test_with_hidden_work_it_plans_only_if_its_base_forecasts():
    setup = Setup(two_nodes(), IdealModel(), Scenario(information=Information("none"), restart_delay=2.0))
    workload = jobs((0, 4, 16), (0, 4, 4), (3, 2, 9), (4, 8, 2), elastic=(1, 8))
    played = [RolloutPlanner(), RolloutPlanner(Starling(hidden_look_ahead=4))]
    logs = [run_episode(scheduler, Simulator(workload, setup)).log for scheduler in (Starling(), played[0])]
    assert logs[0] == logs[1]
    run_episode(played[1], Simulator(workload, setup))
    assert [scheduler.counters["rollouts"] > 0 for scheduler in played] == [False, True]


def test_the_oracle_without_a_budget_is_starling():
    workload = jobs((0, 4, 16), (0, 4, 4), (3, 2, 9), (4, 8, 2), elastic=(1, 8))
    expected = play(Starling(), workload, two_nodes(), restart_delay=2.0)
    assert play(OraclePlanner(RolloutPlanner(rollouts=0)), workload, two_nodes(), restart_delay=2.0).log == expected.log


def test_the_oracle_does_not_decide_from_a_view():
    simulator = Simulator(LONG_AND_WIDE, Setup(ONE_NODE, IdealModel()))
    assert simulator.advance()
    oracle = OraclePlanner()
    oracle.reset(ONE_NODE, simulator.rng)
    with pytest.raises(MurmurationError, match="which no view shows; compare it with scripts/compare.py"):
        oracle.schedule(simulator.view)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RolloutPlanner(rollouts=-1), "the budget is -1 rollouts"),
        (lambda: RolloutPlanner(milliseconds=-1.0), "-1.0 ms; neither may be negative"),
        (lambda: RolloutPlanner(rounds=0), "rounds is 0; it must be at least 1, or null"),
        (lambda: RolloutPlanner(restart_weight=0.0), "restart_weight is 0.0; it must be positive and finite"),
        (lambda: RolloutPlanner(share=1.5), "share is 1.5; it must be between 0 and 1"),
    ],
)
def test_what_they_refuse(build, message):
    with pytest.raises(MurmurationError, match=message):
        build()
