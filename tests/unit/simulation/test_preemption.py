"""Where scenario.preemption is never, a running job keeps what it has, and both engines refuse anything else."""

from dataclasses import replace
from typing import Any

import pytest

from baselines import Fifo, Srtf
from envs.evaluation import compare_schedulers
from envs.simulation import Scenario, Setup, run_episode
from envs.types import ExecutionPlan, JobSpec, MurmurationError, PreemptionError
from envs.workloads import Workload
from tests.unit.simulation.bench import Bench
from tests.unit.simulation.plays import cluster_of
from tests.unit.simulation.snapshots import snapshot

NEVER = Scenario(restart_delay=0.0, preemption="never")
SETUP = Setup(cluster_of(4), Bench(), NEVER)
JOBS = Workload.of(
    [JobSpec(0, 0, 2, 40, "any", min_gpus=1, max_gpus=4), JobSpec(1, 5, 2, 2, "any"), JobSpec(2, 6, 2, 4, "any")]
)


def at_five(engine):
    """Job 0 runs on two of four GPUs, and job 1 has come."""
    simulator = engine(JOBS, SETUP)
    rounds = simulator.rounds()
    allocation = next(rounds).allocation()
    allocation.place(0, {0: 2})
    simulator.apply(allocation)
    assert next(rounds).time == 5
    return simulator


@pytest.mark.parametrize("change", ["stop", "leave out", "resize", "plan"])
def test_a_running_job_keeps_what_it_has(engine, change):
    simulator = at_five(engine)
    before, allocation = snapshot(simulator), simulator.view.allocation(keep_running=change != "leave out")
    match change:
        case "stop":
            allocation.stop(0)
        case "leave out":
            allocation.place(1, {0: 2})
        case "resize":
            allocation.changes[0] = replace(simulator.view.placement(0), gpus={0: 3})
        case _:
            allocation.changes[0] = replace(simulator.view.placement(0), plan=ExecutionPlan(tensor=2))
    with pytest.raises(PreemptionError, match="job 0"):
        simulator.apply(allocation)
    assert snapshot(simulator) == before


def test_what_it_has_may_be_said_again(engine):
    simulator = at_five(engine)
    allocation = simulator.view.allocation()
    allocation.place(0, {0: 2})
    allocation.place(1, {0: 2})
    simulator.apply(allocation)
    assert simulator.view.running.tolist() == [0, 1]


def test_a_scheduler_that_preempts_has_a_reason_in_place_of_a_row():
    """Job 2 would stop job 0 if it could; compiled play does not go around the rule either."""
    jobs = [JobSpec(0, 0, 4, 400, "any"), JobSpec(1, 5, 4, 4, "any")]
    schedulers: dict[str, Any] = {"fifo": Fifo(), "srtf": Srtf()}
    found = compare_schedulers(schedulers, [Workload.of(jobs)], SETUP, optional=schedulers)
    assert list(found.runs) == ["fifo"]
    assert "scenario.preemption is never" in found.inapplicable["srtf"]
    with pytest.raises(PreemptionError, match="scheduler srtf at t = 5 s: job 0"):
        compare_schedulers({"srtf": Srtf()}, [Workload.of(jobs)], SETUP)


def test_another_word_is_refused():
    with pytest.raises(MurmurationError, match=r"scenario\.preemption is 'no'; it must be allowed or never"):
        Scenario(preemption="no")  # type: ignore[arg-type]


def test_both_engines_play_the_same(engine):
    result = run_episode(Fifo(backfill="skip"), engine(JOBS, SETUP))
    assert result.records["finish_time"].tolist() == [20.0, 6.0, 8.0]
    assert result.records["num_preemptions"].sum() == 0
