"""Hard limits of queues in both engines: what they count, what is refused, and that they are never exceeded."""

from dataclasses import replace

import numpy as np
import pytest

from baselines import Fifo, Kueue, Srtf, Starling
from baselines.kueue import QueueSettings
from baselines.within_limits import WithinLimits
from envs.evaluation.audit import check_queue_limits
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import (
    AllocationError,
    ClusterError,
    ClusterSpec,
    ImpossibleResultError,
    JobSpec,
    MurmurationError,
    NodeSpec,
)
from envs.workloads import Workload
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.conformance.test_reference import compare_results, play_both

ENGINES = pytest.mark.parametrize("engine", [Simulator, ReferenceSimulator])
TYPES = ClusterSpec((NodeSpec("A100:batch", 4), NodeSpec("A100", 4), NodeSpec("V100", 4)), "two types")
LIMITS = {"research": {"all": 6}, "research/vision": {"A100": 4}, "ops": {"V100": 2, "A100": 1}}


def of_tenants(*rows: tuple[float, int, float, str]) -> Workload:
    """Jobs from (submit time, GPUs, seconds on these, tenant)."""
    specs = [JobSpec(i, at, n, n * long, "any", tenant=name) for i, (at, n, long, name) in enumerate(rows)]
    return Workload.of(specs)


def limited(limits=LIMITS, cluster=TYPES) -> Setup:
    return Setup(cluster, IdealModel(), Scenario(restart_delay=0.0, queue_limits=limits))


@ENGINES
def test_what_exceeds_a_limit_is_refused_with_the_queue_named(engine):
    """vision may hold 4 A100s, with pools or without, and with speech, which has no limit of its own, 6 GPUs."""
    rows = of_tenants(
        (0, 3, 9, "vision"), (0, 2, 9, "vision"), (0, 3, 9, "speech"), (0, 2, 9, "ops"), (0, 8, 9, "else")
    )
    limits = LIMITS | {"research/speech": {"all": 12}}
    simulator = engine(rows, limited(limits), 0)
    assert simulator.advance()
    for wrong, words in (
        ({0: {0: 3}, 1: {1: 2}}, "queue research/vision.* 5 GPUs"),
        ({0: {0: 3}, 1: {2: 2}, 2: {1: 3}}, "queue research[: ].* 8 GPUs"),
        ({3: {0: 2}}, "queue ops.* 2 GPUs"),
    ):
        allocation = simulator.view.allocation()
        for job, gpus in wrong.items():
            allocation.place(job, gpus)
        with pytest.raises(AllocationError, match=words):
            simulator.apply(allocation)
        assert simulator.view.running.tolist() == []
    allocation = simulator.view.allocation()
    for job, gpus in {0: {0: 3}, 2: {1: 3}, 3: {2: 2}}.items():
        allocation.place(job, gpus)
    simulator.apply(allocation)
    more = simulator.view.allocation(keep_running=True)
    more.place(1, {2: 2})
    with pytest.raises(AllocationError, match="queue research[: ].* 8 GPUs"):
        simulator.apply(more)
    other = simulator.view.allocation(keep_running=True)
    other.stop(0)
    other.place(1, {0: 2})
    simulator.apply(other)
    assert simulator.view.running.tolist() == [1, 2, 3]
    assert dict(simulator.view.queue_limits) == limits


def test_bad_limits_are_one_line():
    for limits, words in (
        ({"a": {"all": -1}}, "queue_limits.a.all is -1; it must be a whole number above 0"),
        ({"a": {"all": 0}}, "no job can ever pass"),
        ({"a/": {"all": 1}}, "'a/' needs names"),
        ({"a": {}}, "needs names"),
        ({"x/a": {"all": 1}, "y/a": {"all": 1}}, "x/a and y/a are both the queue of tenant a"),
    ):
        with pytest.raises(MurmurationError, match=words):
            Scenario(queue_limits=limits)
    with pytest.raises(ClusterError, match="H100 is no GPU type of two types; there are A100, V100, and all"):
        Simulator(of_tenants((0, 1, 1, "a")), limited({"a": {"H100": 1}}), 0)
    with pytest.raises(ClusterError, match="job 0 needs 4 GPUs, and queue ops may have 3; raise"):
        Simulator(of_tenants((0, 4, 1, "ops")), limited(), 0)
    Simulator(of_tenants((0, 3, 1, "ops")), limited(), 0)


@pytest.mark.parametrize("inner", [Fifo, Srtf, Starling])
def test_schedulers_stay_within_limits_behind_a_layer(inner):
    """Alone, each starts all jobs of vision at once."""
    rows = of_tenants(*[(float(i), 2, 20.0, ("vision", "ops", "else")[i % 3]) for i in range(18)])
    setup = limited({"research": {"all": 6}, "research/vision": {"A100": 2, "all": 4}, "ops": {"all": 2}})
    with pytest.raises(AllocationError, match="queue research/vision"):
        run_episode(inner(), Simulator(rows, setup, 0))
    result = run_episode(WithinLimits(inner()), Simulator(rows, setup, 0))
    assert result.num_unfinished == 0
    check_queue_limits(result, setup.scenario)
    free = run_episode(inner(), Simulator(rows, limited({}), 0))
    with pytest.raises(ImpossibleResultError, match="queue research/vision holds"):
        check_queue_limits(free, setup.scenario)


def test_kueue_admits_what_hard_limits_allow():
    """Its quotas and borrowing limits are those of the world, so that nothing is refused, and no layer has to help."""
    names = "vision", "speech"
    limits = {"all": {"all": 8}, **{f"all/{name}": {"all": 6} for name in names}}
    rows = of_tenants(*[(float(i), 1 + i % 3, 15.0, names[i % 2]) for i in range(20)])
    queues = [QueueSettings("all"), *(QueueSettings(name, "all", 4, borrowing_limit=2) for name in names)]
    setup = limited(limits)
    result = run_episode(Kueue(Fifo("skip"), queues), Simulator(rows, setup, 0))
    assert result.num_unfinished == 0
    check_queue_limits(result, setup.scenario)


def limited_world(seed: int) -> RandomWorld:
    """A random world whose tenants have limits by type, under one above them, as small as their jobs allow."""
    world = random_world(seed, plain=seed % 2 == 0, pairs=seed % 3 == 0)
    rng, jobs = np.random.default_rng(seed), world.workload.jobs
    limits: dict[str, dict[str, int]] = {"top": {"all": int(rng.integers(10, 16))}}
    for tenant, name in enumerate(world.workload.tenants):
        least = int(jobs["min_gpus"][jobs["tenant"] == tenant].max(initial=1))
        types = {each: least + int(rng.integers(3)) for each in world.setup.cluster.gpu_types if rng.random() < 0.5}
        if name:
            limits[f"top/{name}"] = types or {"all": least}
    scenario = replace(world.setup.scenario, queue_limits=limits)
    return replace(world, setup=replace(world.setup, scenario=scenario))


@pytest.mark.parametrize("chunk", range(4))
def test_both_engines_refuse_and_log_the_same(chunk):
    """A random scheduler asks for anything; no queue ever holds more than it may."""
    for seed in range(7000 + 25 * chunk, 7025 + 25 * chunk):
        world = limited_world(seed)
        one, other = play_both(world)
        compare_results(world, one, other)
        check_queue_limits(one, world.setup.scenario)


def test_random_worlds_do_exceed_the_limits_without_them():
    """So that the test above can fail."""
    exceeded = 0
    for seed in range(7000, 7020):
        world = limited_world(seed)
        free = replace(world.setup, scenario=replace(world.setup.scenario, queue_limits={}))
        try:
            check_queue_limits(run_without_limits(replace(world, setup=free)), world.setup.scenario)
        except ImpossibleResultError:
            exceeded += 1
    assert exceeded > 5


def run_without_limits(world: RandomWorld):
    return play_both(world)[0]
