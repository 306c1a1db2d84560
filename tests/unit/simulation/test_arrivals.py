"""Jobs that might come, on a snapshot; `tests/conformance/test_snapshot.py` compares them with the reference."""

from dataclasses import replace

import pytest

from envs.performance import IdealModel
from envs.simulation import Setup, Simulator, Snapshot
from envs.simulation.seen.snapshot import LEAST_ROWS
from envs.types import JobSpec, MurmurationError
from envs.workloads import Workload
from tests.unit.simulation.plays import cluster_of

SETUP = Setup(cluster_of(4, 4), IdealModel(("resnet50", "vgg16")))
JOBS = [
    JobSpec(0, 0.0, 4, 40.0, "resnet50", tenant="a"),
    JobSpec(1, 5.0, 2, 40.0, "vgg16", tenant="b"),
    JobSpec(2, 60.0, 2, 40.0, "vgg16", tenant="b"),
]
LIKELY = JobSpec(0, 7.0, 4, 20.0, "vgg16", tenant="a")


def engine_at_five() -> Simulator:
    """Job 0 holds node 0, job 1 has just been submitted, job 2 has not."""
    simulator = Simulator(Workload.of(JOBS), SETUP)
    assert simulator.advance()
    allocation = simulator.view.allocation()
    allocation.place(0, {0: 4})
    simulator.apply(allocation)
    assert simulator.advance()
    return simulator


def test_it_arrives_at_its_time_and_runs():
    """At 7 it takes node 1, with 4 samples/s, and ends at 12; job 1 waits."""
    snapshot = engine_at_five().view.snapshot()
    snapshot.add_arrivals([LIKELY])
    assert len(snapshot.view.num_gpus) == 2
    snapshot.apply(snapshot.view.allocation(keep_running=True))
    assert snapshot.advance()
    view = snapshot.view
    assert view.time == 7.0
    assert view.queued.tolist() == [1, 2]
    assert view.job(2) == replace(LIKELY, id=2)
    allocation = view.allocation(keep_running=True)
    allocation.place(2, {1: 4})
    snapshot.apply(allocation)
    while snapshot.advance():
        snapshot.apply(snapshot.view.allocation(keep_running=True))
    assert snapshot.result("").records["finish_time"][2] == pytest.approx(12.0)


def test_the_engine_and_later_copies_know_nothing_of_it():
    simulator = engine_at_five()
    snapshot = simulator.view.snapshot()
    snapshot.add_arrivals([LIKELY] * 3)
    assert len(snapshot.workload) == 5
    simulator.view.snapshot(into=snapshot)
    assert len(snapshot.workload) == 2
    simulator.apply(simulator.view.allocation(keep_running=True))
    while simulator.advance() and len(simulator.view.num_gpus) < 3:
        simulator.apply(simulator.view.allocation(keep_running=True))
    simulator.view.snapshot(into=snapshot)
    assert snapshot.view.job(2) == simulator.view.job(2)
    assert snapshot.view.submit_time.tolist() == [0.0, 5.0, 60.0]


def test_a_copy_of_the_snapshot_has_it_too_and_the_next_one_has_not():
    simulator = engine_at_five()
    snapshot, trial = simulator.view.snapshot(), Snapshot(SETUP, simulator.table)
    snapshot.add_arrivals([LIKELY])
    trial.copy_from(snapshot)
    simulator.view.snapshot(into=snapshot)
    trial.apply(trial.view.allocation(keep_running=True))
    assert trial.advance()
    assert trial.view.job(2) == replace(LIKELY, id=2)
    trial.copy_from(snapshot)
    assert len(trial.workload) == 2


def test_there_is_room_for_many():
    """More than the first arrays hold; all jobs that are there stay as they are."""
    simulator = engine_at_five()
    snapshot = simulator.view.snapshot()
    before = repr(snapshot.state.jobs[0, :2].tolist())
    many = [replace(LIKELY, submit_time=7.0 + i) for i in range(2 * LEAST_ROWS)]
    snapshot.add_arrivals(many[:3])
    snapshot.add_arrivals(many[3:])
    assert repr(snapshot.state.jobs[0, :2].tolist()) == before
    while snapshot.advance():
        snapshot.apply(snapshot.view.allocation(keep_running=True))
    assert snapshot.view.submit_time[2:].tolist() == [job.submit_time for job in many]
    assert snapshot.view.time >= 7.0 + 2 * LEAST_ROWS - 1


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([replace(LIKELY, submit_time=4.0)], "arrival 0 is submitted at t = 4 s; it must be finite and at least 5 s"),
        ([LIKELY, replace(LIKELY, submit_time=6.0)], "arrival 1 is submitted at t = 6 s; .* at least 7 s"),
        ([replace(LIKELY, model="bert")], "arrival 0 has the model 'bert'; known: resnet50, vgg16"),
        ([replace(LIKELY, tenant="c")], "arrival 0 has the tenant 'c'; known: a, b"),
        ([replace(LIKELY, work=float("nan"))], "arrival 0 has nan samples"),
        ([replace(LIKELY, max_gpus=999)], "at most 999 GPUs; its work must be a number, and jobs have at most"),
    ],
)
def test_what_it_refuses(jobs, message):
    snapshot = engine_at_five().view.snapshot()
    with pytest.raises(MurmurationError, match=message):
        snapshot.add_arrivals(jobs)
    assert len(snapshot.workload) == 2


def test_later_arrivals_follow_earlier_ones():
    snapshot = engine_at_five().view.snapshot()
    snapshot.add_arrivals([LIKELY])
    with pytest.raises(MurmurationError, match="at least 7 s"):
        snapshot.add_arrivals([replace(LIKELY, submit_time=6.0)])


def test_it_is_refused_in_the_middle_of_a_round():
    snapshot = engine_at_five().view.snapshot()
    snapshot.state.episode["num_touched"] = 1
    with pytest.raises(MurmurationError, match="changed already in this round"):
        snapshot.add_arrivals([LIKELY])
