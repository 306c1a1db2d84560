"""The compiled engine and the reference engine produce event logs that are equal to the bit."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from baselines import Fifo, Las, Optimus, Random, Srtf, Tiresias
from baselines.parts.linear_gaussian import LinearGaussian
from envs.metrics import waits
from envs.performance import EFFICIENCY_SETTINGS, BatchSizes, DrawnModel, TableModel, default_model, name_of_draw
from envs.performance.contention import MODES
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import EventLog, Information, PooledHistory, RunResult, Setup, SimulatedEpisode, Simulator
from envs.simulation.mean_curve import MeanCurve
from envs.simulation.reference import ReferenceSimulator
from envs.types import (
    NUM_OUTCOMES,
    Allocation,
    AllocationError,
    ClusterSpec,
    Configuration,
    JobFacts,
    JobId,
    PerformanceError,
)
from tests.conformance.audit import check_waits
from tests.conformance.plain_defaults import PlainMeanCurve, PlainPooledHistory
from tests.conformance.random_worlds import LINKS, RandomWorld, Whims, Workshop, random_world

CHUNK = 24  # worlds a test
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
NO_TEXT = np.array([""] * 5)
RUN_TIMES = np.array([3.0, 7.0, 7.0, 15.0, 80.0])
PAST = [JobFacts(np.zeros(5), np.ones(5, np.int64), NO_TEXT, NO_TEXT, NO_TEXT, NO_TEXT, RUN_TIMES)]


@dataclass(frozen=True)
class Demanding(Workshop):
    """vgg16 gains from up to 400 GB for each GPU; swift GPUs need more cores; gpt2 does not fit beside resnet50."""

    counts_links: bool = False

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        memory = configuration.memory_per_gpu
        few = 1.0 if memory is None or model != "vgg16" else 0.5 + min(memory, 400.0) / 800.0
        return few * super().throughput(model, configuration)

    def cpu_scale(self, model: str, gpu_type: str) -> float:
        """Cores for one of another type."""
        return 1.5 if gpu_type == "swift" else 1.0

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        """What a model keeps; one of two that do not fit says nothing of it."""
        return 0.0 if (model, other) == ("resnet50", "gpt2") else super().pair_factor(model, other, gpu_type)


class Hasty(Whims):
    """Asks for the next decision a few microseconds later."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Return a random allocation."""
        allocation = super().schedule(view)
        allocation.next_decision = view.time + float(self.rng.exponential(3e-6)) + 1e-9
        return allocation


def play_both(world: RandomWorld) -> tuple[RunResult, RunResult]:
    """Run both engines round by round; they show the same views and refuse the same allocations."""
    setups = world.setup, with_plain_defaults(world.setup)
    engines: list[SimulatedEpisode | ReferenceSimulator] = [
        Simulator(world.workload, setups[0], world.seed),
        ReferenceSimulator(world.workload, setups[1], world.seed),
    ]
    schedulers = [world.scheduler() for _ in engines]
    for scheduler, engine in zip(schedulers, engines, strict=True):
        scheduler.reset(world.setup.cluster, engine.rng)
    told = -1
    while same(world, "decides", *(engine.advance() for engine in engines)):
        views = [engine.view for engine in engines]
        compare_views(world, *views)
        if same(world, "number of beliefs", *(view.num_beliefs for view in views)) != told:
            told = views[0].num_beliefs
            compare_throughputs(world, *views)
        allocations = [scheduler.schedule(view) for scheduler, view in zip(schedulers, views, strict=True)]
        same(world, "allocation", *(allocation.changes for allocation in allocations))
        if same(world, "refuses", *(refused(*pair) for pair in zip(engines, allocations, strict=True))):
            compare_views(world, *views)
            for engine, view in zip(engines, views, strict=True):
                engine.apply(view.allocation(keep_running=True))
    first, second = (engine.result("whims") for engine in engines)
    return first, second


def with_plain_defaults(setup: Setup) -> Setup:
    """The same setup, with the default estimator and predictor in plain Python; both predictors have the same past."""
    estimator, predictor = setup.estimator, setup.predictor
    plain = replace(
        setup,
        estimator=PlainMeanCurve() if isinstance(estimator, MeanCurve) else estimator,
        predictor=PlainPooledHistory() if isinstance(predictor, PooledHistory) else predictor,
    )
    for each in (setup, plain):
        each.predictor.train(PAST)
    return plain


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


def alike(world: RandomWorld, what: str, one: Any, other: Any) -> None:
    """Assert that two arrays are equal to the bit; where they follow from beliefs, but for rounding."""
    if np.array_equal(one, other, equal_nan=True):
        return
    rounding = 1e-9 if world.setup.scenario.information.hides_throughput else 0.0
    np.testing.assert_allclose(one, other, rtol=rounding, atol=0.0, err_msg=f"{world.name}: {what}")


def compare_views(world: RandomWorld, one: ClusterView, other: ClusterView) -> None:
    """Assert that two views show the same of the cluster and of jobs."""
    for name in ("time", "queued", "running", "free_gpus", "capacity", "shares", "num_gpus"):
        same(world, name, *(np.asarray(getattr(view, name)).tolist() for view in (one, other)))
    jobs = np.arange(len(one.num_gpus))
    for name in ("attained_service", "remaining_work", "remaining_time", "likely_work"):
        alike(world, name, getattr(one, name)(jobs), getattr(other, name)(jobs))
    same(world, "pairs", one.pairs, other.pairs)
    for job in one.running.tolist():
        same(world, f"placement of {job}", one.placement(job), other.placement(job))
        _compare_batch_sizes(world, one, other, job)


def compare_throughputs(world: RandomWorld, one: ClusterView, other: ClusterView) -> None:
    """Assert that two views show the same throughputs, by a job of each model, and the same of shared resources."""
    alike(world, "pair_factors", one.pair_factors, other.pair_factors)
    same(world, "models", one.models, other.models)
    shared = [view.shared_resources for view in (one, other)]
    same(world, "shared resources", shared[0][:3], shared[1][:3])
    for name in ("min_gpus", "max_gpus", "submit_time", "start_delay", "restart_delay", "tenant", "guaranteed"):
        same(world, name, *(getattr(view, name).tolist() for view in (one, other)))
    for name in ("quotas", "model"):
        same(world, name, *(getattr(view, name).tolist() for view in (one, other)))
    for name, table, its_table in zip(shared[0].tables._fields, *(each.tables for each in shared), strict=True):
        np.testing.assert_array_equal(table, its_table, f"{world.name}: {name}")
    for job in {int(model): job for job, model in enumerate(one.model)}.values():
        alike(world, "throughputs", one.throughputs(job), other.throughputs(job))
        same(world, "most nodes", *(view.most_nodes(job).tolist() for view in (one, other)))
        for gpu_type, gpus, nodes in itertools.product(one.cluster.gpu_types, (1, 3, 9), (1, 2, 3)):
            if nodes <= gpus:
                beliefs = [view.belief(job, Configuration(gpu_type, gpus, nodes)) for view in (one, other)]
                alike(world, "belief", *beliefs)


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
            alike(world, name, *(asked(view, name, job, configuration) for view in (one, other)))


def asked(view: ClusterView, name: str, job: JobId, configuration: Configuration) -> float:
    """Ask a view for one of its figures of a configuration; -1 if it raises a PerformanceError."""
    try:
        return float(getattr(view, name)(job, configuration))
    except PerformanceError:
        return -1.0


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
    np.testing.assert_array_equal(waits(one), waits(other), f"{world.name}: wait")
    check_waits(one)
    for result in (one, other):
        assert result.limited is not None
    same(world, "what limits jobs", repr(one.limited), repr(other.limited))  # as text, since NaN differs from itself
    same(world, "end", (one.end_time, one.num_rounds), (other.end_time, other.num_rounds))
    same(world, "reason", *((run.end_reason, run.progress_time, run.why_cut_short) for run in (one, other)))


@pytest.mark.parametrize("chunk", range(2))
def test_with_gpus_alone(chunk):
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world = random_world(seed, plain=True, pairs=seed % 3 == 0)
        compare_results(world, *play_both(world))


@cache
def world_of_all_rules(seed: int) -> RandomWorld:
    """A random world; every third one lets two jobs share GPUs."""
    return random_world(seed, pairs=seed % 3 == 0)


@cache
def played_with_all_rules(seed: int) -> tuple[RunResult, RunResult]:
    """What both engines make of a random world."""
    return play_both(world_of_all_rules(seed))


@pytest.mark.parametrize("chunk", range(3))
def test_with_all_rules(chunk):
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        compare_results(world_of_all_rules(seed), *played_with_all_rules(seed))


def odd_world(seed: int) -> RandomWorld:
    """Gangs over all types, more than eight nodes, hungry models, and a performance model that counts links."""
    world = random_world(seed, pairs=seed % 3 == 0)
    nodes, jobs = world.setup.cluster.nodes, world.workload.jobs.copy()
    if seed % 2:
        nodes = tuple(
            replace(node, num_gpus=1, cpu_cores=node.cpu_cores / node.num_gpus, memory=node.memory / node.num_gpus)
            for node in nodes
            for _ in range(node.num_gpus)
        )
    wide = np.arange(len(jobs)) % 3 == 0
    jobs["num_gpus"][wide] = np.maximum(jobs["min_gpus"][wide], sum(node.num_gpus for node in nodes) - seed % 2)
    jobs["max_gpus"] = np.maximum(jobs["max_gpus"], jobs["num_gpus"])
    performance = Demanding((0.8, 1.0)[seed // 2 % 2], counts_links=seed % 4 == 0)
    setup = replace(world.setup, cluster=ClusterSpec(nodes, "odd"), performance=performance)
    return replace(world, setup=setup, workload=replace(world.workload, jobs=jobs))


@pytest.mark.parametrize("seed", range(3000, 3012))
def test_with_jobs_and_clusters_that_are_out_of_the_ordinary(seed):
    compare_results(odd_world(seed), *play_both(odd_world(seed)))


def hidden_world(seed: int) -> RandomWorld:
    """Throughputs are observed or profiled, by two estimators, and work is known, estimated or predicted."""
    world = random_world(seed, plain=seed % 2 == 0, pairs=seed % 4 > 0)
    information = Information(
        ("exact", "estimate", "predicted")[seed % 3],
        throughput=("observed", "profiled", "observed", "exact")[seed // 3 % 4],
        sample_error=0.0 if seed % 5 == 0 else 0.1,
        profiles=1 + seed % 5,
    )
    scenario = replace(world.setup.scenario, batch_sizes="usual", information=information)
    # Rounding may rule out an amount that a job has just done, so predictions follow from the same beliefs to the bit.
    plain = seed % 3 < 2 and seed // 2 % 2
    setup = replace(world.setup, scenario=scenario, estimator=MeanCurve() if plain else LinearGaussian())
    return replace(world, setup=setup, scheduler=lambda: Whims(names=0.0, disturb=0.4))


@pytest.mark.parametrize("seed", range(4000, 4024))
def test_with_what_must_be_found_out(seed):
    compare_results(hidden_world(seed), *play_both(hidden_world(seed)))


@pytest.mark.parametrize("seed", range(5001, 5030, 4))
def test_with_a_clock_that_hardly_moves(seed):
    """A run ends if less than a microsecond for each round has passed; the scheduler asks at about this interval."""
    world = replace(random_world(seed), scheduler=Hasty)
    compare_results(world, *play_both(world))


@pytest.mark.parametrize("name", PUBLISHED)
def test_under_published_schedulers(name):
    for seed in range(1000, 1004):
        world = random_world(seed)
        told_all = replace(world.setup.scenario, information=Information("exact"))
        setup = replace(world.setup, scenario=told_all)
        world = replace(world, name=f"{name}, {world.name}", setup=setup, scheduler=PUBLISHED[name])
        compare_results(world, *play_both(world))


def measured(world: RandomWorld, gpus: dict[str, str], performance: TableModel) -> RandomWorld:
    """A world with GPU types and throughputs of the project's tables."""
    nodes = tuple(replace(node, gpu_type=gpus[node.gpu_type]) for node in world.setup.cluster.nodes)
    jobs = world.workload.jobs.copy()
    jobs["work"] *= 10
    setup = replace(world.setup, cluster=ClusterSpec(nodes, "measured"), performance=performance)
    return replace(world, workload=replace(world.workload, jobs=jobs), setup=setup)


@pytest.mark.parametrize(("gpus", "seeds"), [(GPUS, range(2000, 2004)), (SLICES, range(2006, 2008))])
def test_with_measured_throughputs(gpus, seeds):
    """The default performance model, with Synergy's table of cores and memory; whole GPUs and slices."""
    for seed in seeds:
        world = measured(random_world(seed), gpus, default_model())
        compare_results(world, *play_both(world))


@pytest.mark.parametrize("seed", [2001, 2004])
def test_with_drawn_throughputs(seed):
    """Each model has curves of its own around the measured ones, which are found out."""
    world = measured(random_world(seed, pairs=True), GPUS, DrawnModel())
    drawn = tuple(name_of_draw(name, 7) for name in world.workload.models)
    information = Information(throughput="profiled")
    scenario = replace(world.setup.scenario, batch_sizes="usual", information=information)
    world = replace(
        world, workload=replace(world.workload, models=drawn), setup=replace(world.setup, scenario=scenario)
    )
    compare_results(world, *play_both(replace(world, scheduler=lambda: Whims(names=0.0))))


def test_a_difference_is_detected():
    """The comparison fails if one engine has other rules."""
    world = random_world(0, plain=True)
    scenario = replace(world.setup.scenario, start_delay=world.setup.scenario.start_delay + 0.5)
    other = replace(world, setup=replace(world.setup, scenario=scenario))
    one, same_again, changed = play_both(world)[0], play_both(world)[1], play_both(other)[1]
    compare_results(world, one, same_again)
    with pytest.raises(AssertionError, match="world 0: event"):
        compare_results(world, one, changed)


LEVELS = (np.arange(NUM_OUTCOMES) + 0.25) / NUM_OUTCOMES
WRONG: dict[str, tuple[object, Callable[[int], RandomWorld], int]] = {
    "envs.simulation.world.throughput.level_nodes": (lambda level: level + 2, odd_world, 3000),
    "envs.simulation.world.throughput.MEMORY_STEP": (100.0, odd_world, 3006),
    "envs.simulation.world.throughput.cpu_scale": (lambda performance, model, gpu_type: 1.25, odd_world, 3001),
    "envs.simulation.world.exact._per_gpu": (lambda amounts, gpus: None, odd_world, 3003),
    "envs.simulation.world.ideal._gang_throughput": (lambda exact, model, num_gpus: 1.0, odd_world, 3001),
    "envs.simulation.world.link_limit.LinkLimit.throughput": (lambda *args: math.inf, odd_world, 3001),
    "envs.simulation.known.beliefs._draw": (lambda key: 0.5, hidden_world, 4001),
    "envs.simulation.known.pair_beliefs.LEAST_KEPT": (0.6, hidden_world, 4011),
    "envs.simulation.known.pair_beliefs._within": (lambda off, fits, axis: 0.1, hidden_world, 4003),
    "envs.simulation.mean_curve.LEAST_VARIANCE": (1e-3, hidden_world, 4003),
    "envs.simulation.known.predictions.SHORTEST_RUN": (10.0, hidden_world, 4001),
    "envs.simulation.known.predictions.believed_throughput": (lambda table, rows, gpus: 1.0 + gpus, hidden_world, 4004),
    "envs.simulation.pooled_history.LEVELS": (LEVELS, hidden_world, 4001),
}  # what the engine gets wrong, and a world in which that shows


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_of_the_engine_is_detected(name, monkeypatch):
    """The reference engine does not share it."""
    wrong, make, seed = WRONG[name]
    monkeypatch.setattr(name, wrong)
    world = make(seed)
    with pytest.raises(AssertionError, match=world.name):
        compare_results(world, *play_both(world))


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
    worlds = [world_of_all_rules(seed) for seed in range(3 * CHUNK)]
    scenarios = [world.setup.scenario for world in worlds]
    assert {scenario.contention.mode for scenario in scenarios} == set(MODES)
    links = {node.inter_node_bandwidth for world in worlds for node in world.setup.cluster.nodes}
    assert links == set(LINKS)
    assert sum(scenario.failures is not None for scenario in scenarios) > 30
    assert sum(scenario.cpu_memory == "shared" for scenario in scenarios) > 30
    assert {len(world.setup.cluster.gpu_types) for world in worlds} == {1, 2, 3}
    assert {scenario.statistical_efficiency for scenario in scenarios} == set(EFFICIENCY_SETTINGS)
    event_kinds, named, priced, paired = np.zeros(8, dtype=np.int64), 0, 0, 0
    for seed, world in enumerate(worlds[:CHUNK]):
        log = played_with_all_rules(seed)[1].log
        priced += num_priced(world, log)
        event_kinds += np.bincount(log.events["kind"], minlength=8)
        named += int((log.events["plan"] >= 0).sum())
        paired += int((log.events["beside"] >= 0).sum())
    assert (event_kinds > 100).all(), event_kinds
    assert named > 100
    assert priced > 50
    assert paired > 40
