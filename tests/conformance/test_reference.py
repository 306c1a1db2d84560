"""The compiled engine and the reference engine produce event logs that are equal to the bit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from baselines import Fifo, Las, Optimus, Random, Srtf, Tiresias
from baselines.parts.linear_gaussian import LinearGaussian
from envs.performance import EFFICIENCY_SETTINGS, BatchSizes, default_model
from envs.performance.contention import MODES
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import EventLog, Information, RunResult, SimulatedEpisode, Simulator
from envs.simulation.reference import ReferenceSimulator
from envs.types import Allocation, AllocationError, ClusterSpec, Configuration, JobId, PerformanceError
from tests.conformance.random_worlds import LINKS, RandomWorld, random_world

CHUNK = 25  # worlds a test
PUBLISHED: dict[str, Callable[[], Scheduler]] = {
    "fifo": Fifo,
    "las": Las,
    "optimus": Optimus,
    "random": Random,
    "srtf": Srtf,
    "tiresias": Tiresias,
}
GPUS = {"swift": "A100", "plain": "V100", "small": "T4"}  # types in the default performance model
SLICES = {"swift": "A100", "plain": "A100/2", "small": "A100/4"}


def play_both(world: RandomWorld) -> tuple[RunResult, RunResult]:
    """Run both engines round by round; they show the same views and refuse the same allocations."""
    engines = [make(world.workload, world.setup, world.seed) for make in (Simulator, ReferenceSimulator)]
    schedulers = [world.scheduler() for _ in engines]
    for scheduler, engine in zip(schedulers, engines, strict=True):
        scheduler.reset(world.setup.cluster, engine.rng)
    while same(world, "decides", *(engine.advance() for engine in engines)):
        views = [engine.view for engine in engines]
        compare_views(world, *views)
        allocations = [scheduler.schedule(view) for scheduler, view in zip(schedulers, views, strict=True)]
        same(world, "allocation", *(allocation.changes for allocation in allocations))
        if same(world, "refuses", *(refused(*pair) for pair in zip(engines, allocations, strict=True))):
            compare_views(world, *views)
            for engine, view in zip(engines, views, strict=True):
                engine.apply(view.allocation(keep_running=True))
    first, second = (engine.result("whims") for engine in engines)
    return first, second


def refused(engine: SimulatedEpisode | ReferenceSimulator, allocation: Allocation) -> bool:
    """Apply an allocation; return True if the engine refuses it."""
    try:
        engine.apply(allocation)
    except AllocationError:
        return True
    return False


def same(world: RandomWorld, what: str, one: Any, other: Any) -> Any:
    """Assert that both engines give the same value, and return it."""
    assert one == other, f"{world.name}: {what}: {one} against {other} of the reference"
    return one


def compare_views(world: RandomWorld, one: ClusterView, other: ClusterView) -> None:
    """Assert that two views show the same."""
    for name in ("time", "queued", "running", "free_gpus", "capacity", "shares", "num_gpus", "min_gpus", "max_gpus"):
        same(world, name, *(np.asarray(getattr(view, name)).tolist() for view in (one, other)))
    for name in ("submit_time", "start_delay", "restart_delay", "tenant", "guaranteed", "quotas"):
        same(world, name, *(np.asarray(getattr(view, name)).tolist() for view in (one, other)))
    jobs = np.arange(len(one.num_gpus))
    for name in ("attained_service", "remaining_work", "remaining_time"):
        np.testing.assert_array_equal(getattr(one, name)(jobs), getattr(other, name)(jobs), f"{world.name}: {name}")
    same(world, "pairs", one.pairs, other.pairs)
    np.testing.assert_array_equal(one.pair_factors, other.pair_factors, f"{world.name}: pair_factors")
    for job in jobs.tolist():
        np.testing.assert_array_equal(one.throughputs(job), other.throughputs(job), f"{world.name}: throughputs")
    for job in one.running.tolist():
        same(world, f"placement of {job}", one.placement(job), other.placement(job))
        _compare_batch_sizes(world, one, other, job)


def _compare_batch_sizes(world: RandomWorld, one: ClusterView, other: ClusterView, job: JobId) -> None:
    """Assert that two views show the same batch sizes, efficiency and goodput of a running job."""
    placement = one.placement(job)
    gpu_type = one.cluster.nodes[min(placement.gpus)].gpu_type
    offered = same(
        world, "batch range", *(view.batch_range(job, gpu_type, placement.num_gpus) for view in (one, other))
    )
    for size in {None, placement.batch_size, *(offered or ())}:
        configuration = Configuration(gpu_type, placement.num_gpus, len(placement.gpus), batch_size=size)
        for name in ("efficiency", "goodput", "throughput"):
            same(world, name, *(asked(view, name, job, configuration) for view in (one, other)))


def asked(view: ClusterView, name: str, job: JobId, configuration: Configuration) -> float | str:
    """Ask a view for one of its figures of a configuration; "refused" if it raises a PerformanceError."""
    try:
        return float(getattr(view, name)(job, configuration))
    except PerformanceError:
        return "refused"


def told(log: EventLog, row: int) -> str:
    """Describe one event."""
    event = log.events[row]
    return f"{dict(zip(event.dtype.names, event.tolist(), strict=True))}" + (
        f" {log.placement(row)}" if event["num_shares"] else ""
    )


def compare_results(world: RandomWorld, one: RunResult, other: RunResult) -> None:
    """Assert that two runs are equal to the bit."""
    if one.log != other.log:
        for row in range(min(len(one.log), len(other.log))):
            same(world, f"event {row}", told(one.log, row), told(other.log, row))
        same(world, "number of events", len(one.log), len(other.log))
        pytest.fail(f"{world.name}: logs differ beyond their events")
    for name in one.records.dtype.names or ():
        np.testing.assert_array_equal(one.records[name], other.records[name], f"{world.name}: {name}")
    for result in (one, other):
        assert result.limited is not None
    same(world, "what limits jobs", repr(one.limited), repr(other.limited))  # as text, since NaN differs from itself
    same(world, "end", (one.end_time, one.num_rounds), (other.end_time, other.num_rounds))
    same(world, "reason", *((run.end_reason, run.progress_time, run.why_cut_short) for run in (one, other)))


@pytest.mark.parametrize("chunk", range(4))
def test_with_gpus_alone(chunk):
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world = random_world(seed, plain=True, pairs=seed % 3 == 0)
        compare_results(world, *play_both(world))


@pytest.mark.parametrize("chunk", range(4))
def test_with_throughputs_and_pairs_that_must_be_found_out(chunk):
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world = random_world(seed, plain=True, pairs=seed % 4 > 0)
        information = replace(world.setup.scenario.information, throughput="observed", sample_error=0.1)
        scenario = replace(world.setup.scenario, batch_sizes="usual", information=information)
        world = replace(world, setup=replace(world.setup, scenario=scenario, estimator=LinearGaussian()))
        compare_results(world, *play_both(world))


@pytest.mark.parametrize("chunk", range(10))
def test_with_all_rules(chunk):
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world = random_world(seed, pairs=seed % 3 == 0)
        compare_results(world, *play_both(world))


@pytest.mark.parametrize("name", PUBLISHED)
def test_under_published_schedulers(name):
    for seed in range(1000, 1010):
        world = random_world(seed)
        told_all = replace(world.setup.scenario, information=Information("exact"))
        setup = replace(world.setup, scenario=told_all)
        world = replace(world, name=f"{name}, {world.name}", setup=setup, scheduler=PUBLISHED[name])
        compare_results(world, *play_both(world))


@pytest.mark.parametrize(("gpus", "seeds"), [(GPUS, range(2000, 2006)), (SLICES, range(2006, 2009))])
def test_with_measured_throughputs(gpus, seeds):
    """The default performance model, with Synergy's table of cores and memory; whole GPUs and slices."""
    for seed in seeds:
        world = random_world(seed)
        nodes = tuple(replace(node, gpu_type=gpus[node.gpu_type]) for node in world.setup.cluster.nodes)
        jobs = world.workload.jobs.copy()
        jobs["work"] *= 10
        workload = replace(world.workload, jobs=jobs)
        setup = replace(world.setup, cluster=ClusterSpec(nodes, "measured"), performance=default_model())
        world = replace(world, workload=workload, setup=setup)
        compare_results(world, *play_both(world))


def test_a_difference_is_detected():
    """The comparison fails if one engine has other rules."""
    world = random_world(0, plain=True)
    scenario = replace(world.setup.scenario, start_delay=world.setup.scenario.start_delay + 0.5)
    other = replace(world, setup=replace(world.setup, scenario=scenario))
    one, same_again, changed = play_both(world)[0], play_both(world)[1], play_both(other)[1]
    compare_results(world, one, same_again)
    with pytest.raises(AssertionError, match="world 0: event"):
        compare_results(world, one, changed)


def num_priced(world: RandomWorld, log: EventLog) -> int:
    """Number of starts and changes at batch sizes whose efficiency is not 1."""
    batches = BatchSizes(world.setup.performance, world.setup.scenario.statistical_efficiency)
    rows = np.flatnonzero(log.events["batch_size"] > 0).tolist()
    jobs = [world.workload.spec(int(log.events["job"][row])) for row in rows]
    placements = [log.placement(row) for row in rows]
    return sum(
        batches.efficiency(job.model, placement.num_gpus, placement.batch_size) != 1.0
        for job, placement in zip(jobs, placements, strict=True)
    )


def test_the_worlds_cover_all_rules():
    """Many worlds have each rule, and every kind of event happens often."""
    worlds = [random_world(seed, pairs=seed % 3 == 0) for seed in range(10 * CHUNK)]
    scenarios = [world.setup.scenario for world in worlds]
    assert {scenario.contention.mode for scenario in scenarios} == set(MODES)
    links = {node.inter_node_bandwidth for world in worlds for node in world.setup.cluster.nodes}
    assert links == set(LINKS)
    assert sum(scenario.failures is not None for scenario in scenarios) > 100
    assert sum(scenario.cpu_memory == "shared" for scenario in scenarios) > 100
    assert {len(world.setup.cluster.gpu_types) for world in worlds} == {1, 2, 3}
    assert {scenario.statistical_efficiency for scenario in scenarios} == set(EFFICIENCY_SETTINGS)
    event_kinds, named, priced, paired = np.zeros(8, dtype=np.int64), 0, 0, 0
    for world in worlds[:30]:
        log = play_both(world)[1].log
        priced += num_priced(world, log)
        event_kinds += np.bincount(log.events["kind"], minlength=8)
        named += int((log.events["plan"] >= 0).sum())
        paired += int((log.events["beside"] >= 0).sum())
    assert (event_kinds > 100).all(), event_kinds
    assert named > 100
    assert priced > 50
    assert paired > 50
