"""A snapshot continues as the engine does, and as the reference implementation's snapshot does, to the bit."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from baselines import Fifo, Srtf
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Information, SimulatedEpisode, Simulator, Snapshot
from envs.simulation.reference import ReferenceSimulator
from envs.types import AllocationError, FloatArray, JobSpec
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.conformance.test_reference import compare_views
from tests.unit.simulation.test_reference_state import play, told

CHUNK = 10
Playable = SimulatedEpisode | ReferenceSimulator


def continue_with(engine: Playable, scheduler: Scheduler, rounds: int = 400) -> None:
    """Decide in the present round, then play on; a refused allocation becomes "no change"."""
    try:
        engine.apply(scheduler.schedule(engine.view))
    except AllocationError:
        engine.apply(engine.view.allocation(keep_running=True))
    play(engine, scheduler, rounds)


def begun(world: RandomWorld, rounds: int, *, logging: bool = True) -> tuple[Simulator, Scheduler] | None:
    """An engine in the round after some rounds under the world's scheduler; None if the episode ends before."""
    simulator = Simulator(world.workload, world.setup, world.seed, logging=logging)
    scheduler = world.scheduler()
    scheduler.reset(world.setup.cluster, simulator.rng)
    return (simulator, scheduler) if play(simulator, scheduler, rounds) and simulator.advance() else None


def after_arrivals(world: RandomWorld, rounds: int) -> tuple[Simulator, Scheduler] | None:
    """The same, and all jobs are submitted."""
    start = begun(world, rounds)
    while start and len(start[0].view.num_gpus) < len(world.workload):
        if not (play(*start, 1) and start[0].advance()):
            return None
    return start


def open_world(seed: int) -> RandomWorld:
    """A random world in which nothing is hidden: work is exact, and nodes do not fail."""
    world = random_world(seed, pairs=seed % 3 == 0)
    scenario = replace(world.setup.scenario, information=Information("exact"), failures=None)
    return replace(world, setup=replace(world.setup, scenario=scenario))


@pytest.mark.parametrize("chunk", range(2))
def test_it_continues_as_the_engine_where_nothing_is_hidden_and_nothing_arrives(chunk):
    compared = 0
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world = open_world(seed)
        start = after_arrivals(world, seed % 5)
        if start is None:
            continue
        simulator, scheduler = start
        snapshot, other = simulator.view.snapshot(logging=True), deepcopy(scheduler)
        first = len(simulator.state.log(0))
        continue_with(simulator, scheduler)
        continue_with(snapshot, other)
        rest = told(simulator.state.log(0, simulator.plans), first)
        assert told(snapshot.state.log(0, snapshot.plans)) == rest, world.name
        one, two = simulator.result("").records, snapshot.result("").records
        for name in set(one.dtype.names or ()) - {"measured"}:
            np.testing.assert_array_equal(one[name], two[name], f"{world.name}: {name}")
        compared += len(rest)
    assert compared > 5 * CHUNK


@pytest.mark.parametrize("scheduler", [Fifo(), Fifo("skip"), Srtf()], ids=["fifo", "skip", "srtf"])
def test_compiled_schedulers_play_on_a_snapshot_as_on_the_engine(scheduler):
    compared = 0
    for seed in range(16):
        world = open_world(seed)
        start = after_arrivals(world, seed % 5)
        if start is None:
            continue
        simulator = start[0]
        snapshot, first = simulator.view.snapshot(logging=True), len(simulator.state.log(0))
        scheduler.reset(world.setup.cluster, simulator.rng)
        if not scheduler.play(snapshot):
            continue
        scheduler.reset(world.setup.cluster, simulator.rng)
        assert scheduler.play(simulator)
        rest = told(simulator.state.log(0, simulator.plans), first)
        assert told(snapshot.state.log(0, snapshot.plans)) == rest, world.name
        compared += len(rest)
    assert compared > 50


def assumptions(seed: int, count: int) -> FloatArray | None:
    """None, or samples left for some of the jobs."""
    if seed % 3:
        return None
    rng = np.random.default_rng(seed)
    drawn = rng.exponential(5000.0, count)
    return np.where(rng.random(count) < 0.5, drawn, np.nan)


@pytest.mark.parametrize("chunk", range(3))
def test_it_continues_as_the_snapshot_of_the_reference(chunk):
    """With all rules, hidden and estimated work, failures before the snapshot, and arrivals that never come."""
    compared, hidden, down = 0, 0, 0
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world, rounds = random_world(seed, pairs=seed % 3 == 0), seed % 17
        start, reference = begun(world, rounds), ReferenceSimulator(world.workload, world.setup, world.seed)
        if start is None:
            continue
        simulator, scheduler = start
        whims = world.scheduler()
        whims.reset(world.setup.cluster, reference.rng)
        assert play(reference, whims, rounds)
        assert reference.advance()
        remaining = assumptions(seed, len(simulator.view.num_gpus))
        snapshot, copy = simulator.view.snapshot(remaining, logging=True), reference.view.snapshot(remaining)
        assert isinstance(copy, ReferenceSimulator)
        compare_views(world, snapshot.view, copy.view)
        for job in range(reference.num_submitted):
            assert repr(snapshot.view.job(job)) == repr(copy.view.job(job)), world.name
        continue_with(snapshot, scheduler, 60)
        continue_with(copy, whims, 60)
        assert told(snapshot.state.log(0, snapshot.plans)) == told(copy.log), world.name
        compared += len(copy.log)
        hidden += world.setup.scenario.information.work != "exact"
        down += any(not node.up for node in copy.nodes)
    assert compared > 5 * CHUNK
    assert hidden
    assert down


@pytest.mark.parametrize("chunk", range(2))
def test_a_snapshot_brought_up_to_date_is_like_a_new_one(chunk):
    """Overwritten in random rounds, after plays of its own, and copied between snapshots in either direction."""
    compared = 0
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world, rng = random_world(seed, pairs=seed % 3 == 0), np.random.default_rng(seed)
        start = begun(world, 0)
        if start is None:
            continue
        simulator, scheduler = start
        kept, trial = (Snapshot(world.setup, simulator.table) for _ in range(2))
        for _ in range(30):
            if rng.random() < 0.5:
                fresh, other, base = simulator.view.snapshot(logging=True), deepcopy(scheduler), deepcopy(scheduler)
                continue_with(fresh, other, 20)
                simulator.view.snapshot(into=kept)
                one = trial
                if rng.random() < 0.5:
                    trial.copy_from(kept, logging=True)
                    if rng.random() < 0.5:
                        continue_with(kept, deepcopy(scheduler), 5)
                else:
                    one = simulator.view.snapshot(into=kept, logging=True)
                continue_with(one, base, 20)
                assert told(one.state.log(0, one.plans)) == told(fresh.state.log(0, fresh.plans)), world.name
                compared += len(fresh.state.log(0))
            try:
                simulator.apply(scheduler.schedule(simulator.view))
            except AllocationError:
                simulator.apply(simulator.view.allocation(keep_running=True))
            if not simulator.advance():
                break
    assert compared > 5 * CHUNK


def drawn_arrivals(seed: int, view: ClusterView, models: Sequence[str]) -> list[JobSpec]:
    """Up to four jobs like submitted ones, some at one instant, the first possibly now."""
    rng, time = np.random.default_rng(seed), view.time
    jobs: list[JobSpec] = []
    for _ in range(int(rng.integers(1, 5))):
        like = view.job(int(rng.integers(len(view.num_gpus))))
        time += float(rng.choice([0.0, 1.5, 400.0]))
        jobs.append(replace(like, submit_time=time, work=float(rng.exponential(5000.0)), name="", plan=None))
    assert {job.model for job in jobs} <= set(models)
    return jobs


@pytest.mark.parametrize("chunk", range(2))
def test_jobs_that_might_come_arrive_as_on_the_snapshot_of_the_reference(chunk):
    """Also on copies of the snapshot, and the next one of the round knows nothing of them."""
    compared, grown = 0, 0
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world = random_world(seed)
        start, reference = begun(world, seed % 7), ReferenceSimulator(world.workload, world.setup, world.seed)
        if start is None:
            continue
        simulator, scheduler = start
        whims = world.scheduler()
        whims.reset(world.setup.cluster, reference.rng)
        assert play(reference, whims, seed % 7)
        assert reference.advance()
        jobs = drawn_arrivals(seed, simulator.view, world.workload.models)
        snapshot, trial = simulator.view.snapshot(logging=True), Snapshot(world.setup, simulator.table)
        snapshot.add_arrivals(jobs)
        trial.copy_from(snapshot, logging=True)
        copies = [reference.snapshot(None, jobs) for _ in range(2)]
        for one, copy in zip((snapshot, trial), copies, strict=True):
            continue_with(one, deepcopy(scheduler), 60)
            continue_with(copy, deepcopy(whims), 60)
            assert told(one.state.log(0, one.plans)) == told(copy.log), world.name
            compared += len(copy.log)
            grown += len(one.view.num_gpus) > reference.num_submitted
        fresh = simulator.view.snapshot()
        simulator.view.snapshot(into=snapshot)
        for one in (fresh, snapshot):
            continue_with(one, deepcopy(scheduler), 20)
        assert snapshot.result("").records.tobytes() == fresh.result("").records.tobytes(), world.name
        assert len(snapshot.workload) == len(fresh.workload)
    assert compared > 5 * CHUNK
    assert grown > CHUNK
