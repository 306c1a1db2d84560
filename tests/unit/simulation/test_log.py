"""The event log: complete across its growth, equal where runs are equal."""

from dataclasses import replace

import numpy as np
import pytest

from envs.performance import IdealModel
from envs.simulation import EventKind, EventLog, Rounds, RunResult, Scenario, Simulator, State, run_episode
from envs.simulation import state as state_module
from envs.simulation.clock import advance
from envs.simulation.kernels import LOG_FULL
from envs.types import ConservationError, JobRecord
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.simulation.plays import Chance, cluster_of, jobs_of, play

BURSTS = jobs_of(*((float(i // 5), 1 + i % 3, 20.0 + i) for i in range(40)), elastic=(1, 6))


def burst_run(rounds: Rounds | None = None, seed: int = 1) -> RunResult:
    """Forty jobs, five at a time, pushed around at random."""
    scenario = Scenario(restart_delay=0.5, rounds=rounds or Rounds())
    return run_episode(Chance(), Simulator(BURSTS, HETEROGENEOUS, Curved(), scenario, seed))


def grow_by_one(rows: np.ndarray) -> np.ndarray:
    """In place of doubling: the log is full at every single event."""
    grown = np.zeros((rows.shape[0], rows.shape[1] + 1), rows.dtype)
    grown[:, :-1] = rows
    return grown


@pytest.mark.parametrize("rounds", [Rounds(), Rounds(on_events=False, interval=2.0), Rounds(interval=0.5)])
def test_a_log_that_is_always_full_tells_the_same(monkeypatch, rounds):
    """Several events fall on one instant, so time is interrupted within instants too."""
    expected = burst_run(rounds)
    monkeypatch.setattr(state_module, "_doubled", grow_by_one)
    assert burst_run(rounds).log == expected.log


def test_time_stops_within_an_instant_when_the_log_is_full():
    """Three jobs come at 0 and there is room for two events: the third comes after the log has grown, at 0 still."""
    simulator = Simulator(jobs_of((0, 1, 5), (0, 1, 5), (0, 1, 5)), cluster_of(4), IdealModel())
    state = simulator.state
    state.events = state.events[:, :2].copy()
    assert advance(simulator.world) == LOG_FULL
    assert state.episode[0, 0].log_events == state.episode[0, 0].num_active == 2
    assert simulator.advance()
    assert simulator.view.queued.tolist() == [0, 1, 2]
    assert simulator.view.time == 0.0
    assert simulator.state.episode[0, 0].num_rounds == 1


def test_growth_keeps_what_was_written():
    state = State.allocate(cluster_of(4), 3)
    state.grow_log()
    assert state.events.shape == (1, 1024)
    state.events["job"][0] = np.arange(1024)
    state.grow_log()
    assert state.events.shape == state.log_shares.shape == (1, 2048)
    assert state.events["job"][0, :1024].tolist() == list(range(1024))
    assert not state.events["job"][0, 1024:].any()


def test_runs_are_equal_to_the_bit_or_they_are_not():
    first, again, other = burst_run(), burst_run(), burst_run(seed=2)
    assert first.log == again.log
    assert first.records.tobytes() == again.records.tobytes()
    assert first.log != other.log
    assert first.log != "a log"


@pytest.mark.parametrize("what", ["time", "kind", "job"])
def test_one_differing_event_makes_logs_differ(what):
    log = burst_run().log
    events = log.events.copy()
    events[what][7] += 1
    assert EventLog(events, log.shares) != log
    shares = log.shares.copy()
    shares["gpus"][3] += 1
    assert EventLog(log.events, shares) != log


def test_events_without_a_placement_have_no_shares():
    log = burst_run().log
    placed = np.isin(log.events["kind"], (EventKind.START, EventKind.RESIZE))
    assert (log.events["num_shares"][~placed] == 0).all()
    assert (log.events["num_shares"][placed] > 0).all()
    assert log.events["num_shares"].sum() == len(log.shares)
    assert len(log) == len(log.events)
    assert log.placement(0).gpus == {}


def test_results_read_as_job_records():
    result = play(
        {0.0: {0: {0: 4}}, 5.0: {0: None}},
        jobs_of((0, 4, 40), (5, 8, 1)),
        cluster_of(4, 4),
        Scenario(restart_delay=0.0, rounds=Rounds(max_stalls=0)),
    )
    first, second = result
    assert first == JobRecord(result.workload.spec(0), 0.0, first.finish_time, 20.0, 0, 1)
    assert not first.finished
    assert np.isnan(second.start_time)
    assert result.num_unfinished == 2


def test_lost_jobs_are_noticed():
    result = burst_run()
    result.check_conservation(40)
    with pytest.raises(ConservationError, match="41 jobs submitted, 40 finished and 0 unfinished"):
        result.check_conservation(41)
    twice = result.records.copy()
    twice["job"][1] = 0
    with pytest.raises(ConservationError, match="39 distinct"):
        replace(result, records=twice).check_conservation(40)
