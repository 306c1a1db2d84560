"""The event log of both engines: equality and access."""

from dataclasses import replace

import numpy as np
import pytest

from envs.simulation import EventKind, EventLog, Rounds, Scenario
from envs.types import ConservationError, JobRecord
from tests.unit.simulation.plays import Play, burst_run, cluster_of, jobs_of


def test_logs_are_equal_exactly_if_runs_are(engine):
    first, again, other = burst_run(engine), burst_run(engine), burst_run(engine, seed=2)
    assert first.log == again.log
    assert first.records.tobytes() == again.records.tobytes()
    assert first.log != other.log
    assert first.log != "a log"


@pytest.mark.parametrize("what", ["time", "kind", "job"])
def test_one_differing_event_makes_logs_differ(engine, what):
    log = burst_run(engine).log
    events = log.events.copy()
    events[what][7] += 1
    assert EventLog(events, log.shares) != log
    shares = log.shares.copy()
    shares["gpus"][3] += 1
    assert EventLog(log.events, shares) != log


def test_events_without_a_placement_have_no_shares(engine):
    log = burst_run(engine).log
    placed = np.isin(log.events["kind"], (EventKind.START, EventKind.RESIZE))
    assert (log.events["num_shares"][~placed] == 0).all()
    assert (log.events["num_shares"][placed] > 0).all()
    assert log.events["num_shares"].sum() == len(log.shares)
    assert len(log) == len(log.events)
    assert log.placement(0).gpus == {}


def test_iterating_a_result_yields_job_records(engine):
    result = Play(
        engine,
        {0.0: {0: {0: 4}}, 5.0: {0: None}},
        jobs_of((0, 4, 40), (5, 8, 1)),
        cluster_of(4, 4),
        Scenario(restart_delay=0.0, rounds=Rounds(max_stalls=0)),
    ).result
    first, second = result
    assert first == JobRecord(result.workload.spec(0), 0.0, first.finish_time, 20.0, 0, 1)
    assert not first.finished
    assert np.isnan(second.start_time)
    assert result.num_unfinished == 2


def test_lost_jobs_are_detected(engine):
    result = burst_run(engine)
    result.check_conservation()
    events = result.log.events

    def without(removed):
        return replace(
            result, log=EventLog(np.delete(events, np.flatnonzero(events["kind"] == removed)[3]), result.log.shares)
        )

    with pytest.raises(ConservationError, match="40 jobs arrive in the event log and 39 end; the records have 40"):
        without(EventKind.FINISH).check_conservation()
    with pytest.raises(ConservationError, match="39 jobs arrive in the event log and 40 end"):
        without(EventKind.ARRIVE).check_conservation()
    with pytest.raises(ConservationError, match="the records have 39"):
        replace(result, records=result.records[1:]).check_conservation()
    twice = result.records.copy()
    twice["job"][1] = 0
    with pytest.raises(ConservationError, match="39 distinct"):
        replace(result, records=twice).check_conservation()
