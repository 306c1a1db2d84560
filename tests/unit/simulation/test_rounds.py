"""Times of rounds on both engines: at events, at intervals, at both; stalls; the end of the episode."""

import numpy as np
import pytest

from envs.simulation import Rounds, Scenario
from envs.types import AllocationError
from envs.workloads import Workload
from tests.unit.simulation.plays import Acts, Build, Play, cluster_of, jobs_of

TICKS = Rounds(on_events=False, interval=10.0)
BOTH = Rounds(on_events=True, interval=10.0)


def run(engine: Build, acts: Acts, workload: Workload, rounds: Rounds, horizon: float = float("inf")) -> Play:
    """One run on two nodes of 4 GPUs, without delays."""
    scenario = Scenario(restart_delay=0.0, rounds=rounds, horizon=horizon)
    return Play(engine, acts, workload, cluster_of(4, 4), scenario)


def test_fixed_interval_rounds_wait_for_the_tick(engine):
    """Jobs arrive at 3 and 12 and start at 10 and 20. B ends at 25 without a round; the round at 30 shows only A."""
    play = run(engine, {10.0: {0: {0: 4}}, 20.0: {1: {1: 4}}}, jobs_of((3, 4, 100), (12, 4, 20)), TICKS)
    assert play.asked == [10.0, 20.0, 30.0]
    assert play.records["start_time"].tolist() == [10.0, 20.0]
    assert play.finish == [35.0, 25.0]


def test_a_tick_and_an_event_at_one_instant_are_one_round(engine):
    play = run(engine, {0.0: {0: {0: 4}}, 10.0: {1: {0: 4}}}, jobs_of((0, 4, 40), (10, 4, 40)), BOTH)
    assert play.asked == [0.0, 10.0]
    assert play.told[2:5] == [(10, "FINISH", 0), (10, "ARRIVE", 1), (10, "START", 1)]


def test_rounds_on_events_and_at_intervals(engine):
    play = run(engine, {3.0: {0: {0: 4}}, 12.0: {1: {1: 4}}}, jobs_of((3, 4, 60), (12, 4, 20)), BOTH)
    assert play.asked == [3.0, 10.0, 12.0, 17.0]  # A ends at 18, with no jobs left


def test_ticks_stay_multiples_of_the_interval_after_an_idle_time(engine):
    """No job is in the system between 14 and 47, so there is no round; the next tick is at 50."""
    play = run(engine, {10.0: {0: {0: 4}}, 50.0: {1: {0: 4}}}, jobs_of((3, 4, 16), (47, 4, 16)), TICKS)
    assert play.asked == [10.0, 50.0]


def test_ticks_stay_multiples_with_rounds_on_events_too(engine):
    """A runs from 3 to 7. No job is in the system until 47; the next tick is at 50."""
    play = run(engine, {3.0: {0: {0: 4}}, 50.0: {1: {0: 4}}}, jobs_of((3, 4, 16), (47, 4, 16)), BOTH)
    assert play.asked == [3.0, 47.0, 50.0]


@pytest.mark.parametrize(
    ("rounds", "asked"),
    [
        (Rounds(stall_interval=7.0, max_stalls=3), [5.0, 12.0, 19.0, 26.0]),
        (Rounds(on_events=False, interval=10.0, max_stalls=2), [10.0, 20.0, 30.0]),
        (Rounds(on_events=True, interval=10.0, max_stalls=2), [5.0, 10.0, 20.0]),
    ],
)
def test_a_stalled_system_asks_again_and_then_gives_up(engine, rounds, asked):
    """No job runs or will arrive: another round every 7 s, or at every tick, up to `max_stalls` times in a row."""
    play = run(engine, {}, jobs_of((5, 4, 40)), rounds)
    assert play.asked == asked
    assert play.result.end_time == asked[-1]
    assert play.result.num_unfinished == 1
    assert np.isnan(play.finish).all()
    assert not play.engine.advance()


def test_a_late_start_ends_the_stall(engine):
    play = run(engine, {12.0: {0: {0: 4}}}, jobs_of((5, 4, 40)), Rounds(stall_interval=7.0, max_stalls=1))
    assert play.finish == [22.0]


def test_only_stalls_in_a_row_count(engine):
    """Two stalls before A and two before B; both are within the limit of two, since A runs in between."""
    rounds = Rounds(stall_interval=7.0, max_stalls=2)
    play = run(engine, {14.0: {0: {0: 4}}, 38.0: {1: {0: 4}}}, jobs_of((0, 4, 40), (0, 4, 40)), rounds)
    assert play.asked == [0.0, 7.0, 14.0, 24.0, 31.0, 38.0]
    assert play.result.finished.all()


def test_a_start_ends_a_row_of_stalls(engine):
    """Two stalls before A and two after it is stopped at 40; both are within the limit of two."""
    acts: Acts = {20.0: {0: {0: 4}}, 40.0: {0: None}, 60.0: {0: {0: 4}}}
    play = run(engine, acts, jobs_of((0, 4, 400)), Rounds(on_events=False, interval=10.0, max_stalls=2))
    assert play.asked[:7] == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    assert play.finish == [60 + (400 - 80) / 4]


def test_waiting_for_an_arrival_is_no_stall(engine):
    acts: Acts = {1000.0: {0: {0: 4}, 1: {1: 4}}}
    play = run(engine, acts, jobs_of((0, 4, 40), (1000, 4, 40)), Rounds(max_stalls=0))
    assert play.asked == [0.0, 1000.0]
    assert play.result.finished.all()


def test_the_horizon_cuts_off_running_and_waiting_jobs(engine):
    """A runs from 0, B waits from 2; C would arrive after the end, so it is not in the records."""
    workload = jobs_of((0, 4, 400), (2, 4, 4), (60, 4, 4))
    play = run(engine, {0.0: {0: {0: 4}}}, workload, Rounds(), horizon=50.0)
    assert play.result.end_time == 50.0
    assert len(play.records) == 2
    assert np.isnan(play.finish).all()
    assert play.records["attained_service"].tolist() == [200.0, 0.0]


def test_events_at_the_horizon_still_happen(engine):
    assert run(engine, {0.0: {0: {0: 4}}}, jobs_of((0, 4, 200)), Rounds(), horizon=50.0).finish == [50.0]


def test_after_too_many_stalls_time_counts_up_to_the_horizon(engine):
    """Leaving jobs undone must not be cheaper than doing them late."""
    assert run(engine, {}, jobs_of((5, 4, 40)), Rounds(max_stalls=2), horizon=500.0).result.end_time == 500.0


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
def test_invalid_rules_are_refused_in_one_line(build, names):
    with pytest.raises(ValueError, match=".") as error:
        build()
    assert "\n" not in str(error.value)
    assert all(name in str(error.value) for name in names)


def decide(engine: Build, decisions: dict[float, float], rounds: Rounds | None = None) -> Play:
    """Job 0 runs from 0 to 10 on node 0; job 1 comes at 30 and never starts. Each round may name the next decision."""
    scenario = Scenario(restart_delay=0.0, rounds=rounds or Rounds(max_stalls=0))
    workload = jobs_of((0, 4, 40), (30, 4, 40))
    return Play(engine, {0.0: {0: {0: 4}}}, workload, cluster_of(4, 4), scenario, decisions=decisions)


def test_a_scheduler_names_its_next_decision(engine):
    assert decide(engine, {}).asked == [0.0, 30.0]
    assert decide(engine, {0.0: 4.0}).asked == [0.0, 4.0, 30.0]
    assert decide(engine, {0.0: 4.0, 4.0: 5.5, 5.5: 7.0}).asked == [0.0, 4.0, 5.5, 7.0, 30.0]


def test_any_round_cancels_the_next_decision(engine):
    """The tick at 4 comes before the decision named for 7. No job is in the system at 12, so no decision is due."""
    assert decide(engine, {0.0: 7.0}, Rounds(interval=4.0, max_stalls=0)).asked[:4] == [0.0, 4.0, 8.0, 30.0]
    assert decide(engine, {0.0: 12.0}).asked == [0.0, 30.0]


def test_a_named_decision_does_not_prolong_a_stall(engine):
    """At 30 job 1 waits, nothing runs and nothing will arrive: the stall ends the run after 60 s."""
    play = decide(engine, {30.0: 31.0}, Rounds(max_stalls=1))
    assert play.asked == [0.0, 30.0, 90.0]


@pytest.mark.parametrize("instant", [0.0, -1.0, float("nan")])
def test_the_next_decision_lies_in_the_future(engine, instant):
    with pytest.raises(AllocationError, match="next decision"):
        decide(engine, {0.0: instant})
