"""A reference engine that starts from the state of a compiled episode continues like that episode."""

from copy import deepcopy

import numpy as np
import pytest

from envs.performance import IdealModel
from envs.scheduling import Scheduler
from envs.simulation import EventLog, Setup, SimulatedEpisode, Simulator
from envs.simulation.reference import JobStatus, ReferenceSimulator, reference_at
from envs.types import AllocationError, ClusterSpec, JobSpec, MurmurationError, NodeSpec, Placement
from envs.workloads import Workload
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.conformance.test_reference import compare_views

CHUNK = 8


def play(engine: SimulatedEpisode | ReferenceSimulator, scheduler: Scheduler, rounds: int) -> bool:
    """Run some rounds; a refused allocation becomes "no change". Return False at the end of the episode."""
    for _ in range(rounds):
        if not engine.advance():
            return False
        try:
            engine.apply(scheduler.schedule(engine.view))
        except AllocationError:
            engine.apply(engine.view.allocation(keep_running=True))
    return True


def copied(world: RandomWorld, simulator: Simulator) -> ReferenceSimulator:
    """A reference engine in the state of the compiled one."""
    return reference_at(simulator.state, 0, world.workload, world.setup, simulator.plans)


def told(log: EventLog, first: int = 0) -> list[tuple[float, int, int, object]]:
    """Events from row `first` on, with placements; without indices of plans, which depend on earlier events."""
    rows: list[tuple[float, int, int, object]] = []
    for row in range(first, len(log)):
        event = log.events[row]
        placed = log.placement(row) if event["num_shares"] else None
        rows.append((float(event["time"]), int(event["kind"]), int(event["job"]), placed))
    return rows


@pytest.mark.parametrize("chunk", range(5))
def test_both_continue_alike(chunk):
    """Compare every event to the end, after a few random rounds with plans, amounts, contention and failures."""
    compared = 0
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world = random_world(seed)
        simulator = Simulator(world.workload, world.setup, seed)
        scheduler = world.scheduler()
        scheduler.reset(world.setup.cluster, simulator.rng)
        if not play(simulator, scheduler, seed % 11):
            continue
        reference, other = copied(world, simulator), deepcopy(scheduler)
        compare_views(world, simulator.view, reference.view)
        begun = len(simulator.state.log(0))
        for engine, whims in ((simulator, scheduler), (reference, other)):
            play(engine, whims, 10_000)
        rest = told(simulator.state.log(0, simulator.plans), begun)
        assert rest == told(reference.log), world.name
        one, two = simulator.result("").records, reference.result("").records
        for name in one.dtype.names or ():
            np.testing.assert_array_equal(one[name], two[name], f"{world.name}: {name}")
        compared += len(rest)
    assert compared > 20 * CHUNK


def small() -> tuple[Workload, ClusterSpec]:
    """Two jobs of four GPUs on two nodes."""
    jobs = [JobSpec(i, 0.0, 4, 200.0, "any") for i in range(2)]
    return Workload.of(jobs), ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4)))


def test_an_episode_calculated_by_hand():
    """Job 0 runs from 0 on and has 160 of 200 samples left at 10; job 1 starts there, and both end at 50 and 60."""
    workload, cluster = small()
    workload.jobs["submit_time"][1] = 10.0
    simulator = Simulator(workload, Setup(cluster, IdealModel()))
    assert simulator.advance()
    allocation = simulator.view.allocation()
    allocation.place(0, {0: 4})
    simulator.apply(allocation)
    assert simulator.advance()
    reference = reference_at(simulator.state, 0, workload, Setup(cluster, IdealModel()))
    first, second = reference.jobs
    assert (reference.time, first.status, second.status) == (10.0, JobStatus.RUNNING, JobStatus.QUEUED)
    assert first.remaining_at(10.0) == 160.0
    assert [(share.node.id, share.gpus) for share in first.shares] == [(0, 4)]
    allocation = reference.view.allocation(keep_running=True)
    allocation.place(1, Placement({1: 4}))
    reference.apply(allocation)
    assert [reference.advance(), reference.time, reference.advance()] == [True, 50.0, False]
    assert [job.finish for job in reference.jobs] == [50.0, 60.0]
    assert first.start == 0.0


def test_a_state_within_a_round_is_refused():
    workload, cluster = small()
    simulator = Simulator(workload, Setup(cluster, IdealModel()))
    assert simulator.advance()
    simulator.state.episode["num_touched"] = 2
    with pytest.raises(MurmurationError, match="episode 0: 2 jobs are changed already; copy it between rounds"):
        reference_at(simulator.state, 0, workload, Setup(cluster, IdealModel()))
