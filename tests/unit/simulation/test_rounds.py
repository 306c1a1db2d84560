"""When decisions are due: at events, at intervals, both; when nothing moves; where it ends."""

import pytest

from envs.performance import IdealModel
from envs.simulation import Rounds, RunResult, Scenario, Simulator, run_episode
from envs.workloads import Workload
from tests.unit.simulation.plays import Act, Script, cluster_of, jobs_of, told

INTERVAL = Rounds(on_events=False, interval=10.0)


def run(acts: dict[float, Act], workload: Workload, rounds: Rounds, horizon: float = float("inf")) -> RunResult:
    """One run without costs; its rounds end up in `counters` by their times."""
    script = Script(acts)
    scenario = Scenario(restart_delay=0.0, rounds=rounds, horizon=horizon)
    result = run_episode(script, Simulator(workload, cluster_of(4, 4), IdealModel(), scenario))
    result.counters.update({str(time): i for i, time in enumerate(script.rounds)})
    return result


def asked(result: RunResult) -> list[float]:
    """When the scheduler was asked."""
    return [float(time) for time in result.counters]


def test_fixed_interval_rounds_wait_for_the_tick():
    """Jobs come at 3 and 12; they start at 10 and 20. At 25 B ends unnoticed; the round at 30 sees only A."""
    workload = jobs_of((3, 4, 100), (12, 4, 20))
    result = run({10.0: {0: {0: 4}}, 20.0: {1: {1: 4}}}, workload, INTERVAL)
    assert asked(result) == [10.0, 20.0, 30.0]
    assert result.records["start_time"].tolist() == [10.0, 20.0]
    assert result.records["finish_time"].tolist() == [35.0, 25.0]


def test_a_tick_and_an_event_at_one_instant_are_one_round():
    workload = jobs_of((0, 4, 40), (10, 4, 40))
    result = run({0.0: {0: {0: 4}}, 10.0: {1: {0: 4}}}, workload, Rounds(on_events=True, interval=10.0))
    assert asked(result) == [0.0, 10.0]
    assert told(result)[2:5] == [(10, "FINISH", 0), (10, "ARRIVE", 1), (10, "START", 1)]


def test_both_kinds_of_round():
    workload = jobs_of((3, 4, 60), (12, 4, 20))
    result = run({3.0: {0: {0: 4}}, 12.0: {1: {1: 4}}}, workload, Rounds(on_events=True, interval=10.0))
    assert asked(result) == [3.0, 10.0, 12.0, 17.0]  # A ends at 18, with nobody left to decide on


def test_ticks_stay_multiples_of_the_interval_after_an_idle_time():
    """Nobody is in the system between 14 and 47: no rounds there, the next tick is at 50."""
    workload = jobs_of((3, 4, 16), (47, 4, 16))
    result = run({10.0: {0: {0: 4}}, 50.0: {1: {0: 4}}}, workload, INTERVAL)
    assert asked(result) == [10.0, 50.0]


def test_a_stalled_system_asks_again_and_then_gives_up():
    """Nothing runs and nothing will come: every 7 s again, three times in a row."""
    result = run({}, jobs_of((5, 4, 40)), Rounds(stall_interval=7.0, max_stalls=3))
    assert asked(result) == [5.0, 12.0, 19.0, 26.0]
    assert result.num_unfinished == 1
    assert result.end_time == 26.0


def test_a_late_answer_ends_the_stall():
    result = run({12.0: {0: {0: 4}}}, jobs_of((5, 4, 40)), Rounds(stall_interval=7.0, max_stalls=1))
    assert result.records["finish_time"].tolist() == [22.0]


def test_stalls_count_in_a_row_only():
    """Two stalls before A and two before B (both within the two allowed), since A's run lies between."""
    rounds = Rounds(stall_interval=7.0, max_stalls=2)
    result = run({14.0: {0: {0: 4}}, 38.0: {1: {0: 4}}}, jobs_of((0, 4, 40), (0, 4, 40)), rounds)
    assert asked(result) == [0.0, 7.0, 14.0, 24.0, 31.0, 38.0]
    assert result.finished.all()


def test_a_stall_under_fixed_intervals_goes_by_ticks():
    result = run({}, jobs_of((5, 4, 40)), Rounds(on_events=False, interval=10.0, max_stalls=2))
    assert asked(result) == [10.0, 20.0, 30.0]
    assert result.num_unfinished == 1


def test_waiting_for_an_arrival_is_no_stall():
    result = run({1000.0: {0: {0: 4}, 1: {1: 4}}}, jobs_of((0, 4, 40), (1000, 4, 40)), Rounds(max_stalls=0))
    assert asked(result) == [0.0, 1000.0]
    assert result.finished.all()


def test_the_horizon_cuts_off_what_runs_and_what_waits():
    """A runs from 0, B waits from 2, C would come after the end: it is not in the records."""
    workload = jobs_of((0, 4, 400), (2, 4, 4), (60, 4, 4))
    result = run({0.0: {0: {0: 4}}}, workload, Rounds(), horizon=50.0)
    assert result.end_time == 50.0
    assert len(result.records) == 2
    assert result.finished.tolist() == [False, False]
    assert result.records["attained_service"].tolist() == [200.0, 0.0]


def test_what_happens_at_the_horizon_still_happens():
    result = run({0.0: {0: {0: 4}}}, jobs_of((0, 4, 200)), Rounds(), horizon=50.0)
    assert result.records["finish_time"].tolist() == [50.0]


def test_giving_up_is_charged_up_to_the_horizon():
    """Leaving jobs undone must not be cheaper than doing them late."""
    workload = jobs_of((5, 4, 40))
    scenario = Scenario(horizon=500.0, rounds=Rounds(max_stalls=2))
    simulator = Simulator(workload, cluster_of(4, 4), IdealModel(), scenario)
    result = run_episode(Script({}), simulator)
    assert result.end_time == 500.0
    assert simulator.state.episode[0, 0].job_seconds == 495.0


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (lambda: Rounds(on_events=False), ("on_events", "interval")),
        (lambda: Rounds(interval=0.0), ("rounds.interval", "0.0")),
        (lambda: Rounds(interval=float("inf")), ("rounds.interval", "inf")),
        (lambda: Rounds(stall_interval=0.0), ("stall_interval", "0.0")),
        (lambda: Scenario(start_delay=-1.0), ("start_delay", "-1.0")),
        (lambda: Scenario(restart_delay=float("nan")), ("restart_delay", "nan")),
        (lambda: Scenario(horizon=0.0), ("horizon", "0.0")),
        (lambda: Scenario(worker_shares="fair"), ("worker_shares", "fair", "proportional")),  # type: ignore[arg-type]
    ],
)
def test_impossible_rules_are_refused_in_one_line(build, names):
    with pytest.raises(ValueError, match=".") as error:
        build()
    assert "\n" not in str(error.value)
    assert all(name in str(error.value) for name in names)
