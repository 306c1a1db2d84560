"""The compiled environment against its reference implementation: equal observations, masks and job histories."""

from dataclasses import replace

import numpy as np
import pytest

from envs.gpu_cluster import DecisionRules, GpuClusterBatch
from envs.gpu_cluster.columns import effect_columns
from envs.gpu_cluster.reference import ReferenceEnvironment
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup
from envs.simulation.reference import JobStatus, reference_at
from envs.simulation.state import State
from envs.types import ClusterSpec, IntArray, MurmurationError, NodeSpec
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.unit.gpu_cluster.players import chance, jobs_like

CHUNK = 8
MOST_STEPS = 80  # of one world; what is equal so long stays equal


def random_rules(rng: np.random.Generator) -> DecisionRules:
    """Any mix of rules."""
    return DecisionRules(
        num_candidates=int(rng.integers(1, 9)),
        queue_order=("shortest", "fifo", "least_service")[int(rng.integers(3))],
        max_decisions=int(rng.integers(1, 9)),
        preemptive=bool(rng.random() < 0.8),
        elastic=bool(rng.random() < 0.8),
        effects=bool(rng.random() < 0.6),
    )


def begun(world: RandomWorld, rules: DecisionRules) -> tuple[GpuClusterBatch, ReferenceEnvironment]:
    """Both at the first decision; the reference has come there by itself from t = 0."""
    batch = GpuClusterBatch(world.setup, world.workload.models, len(world.workload), rules=rules, logging=True)
    batch.load(0, world.workload, np.random.default_rng(world.seed))
    start = State.allocate(world.setup.cluster, len(world.workload), scenario=world.setup.scenario)
    horizon = float(batch.state.episode["horizon"][0, 0])
    start.load(
        0,
        world.workload,
        replace(world.setup.scenario, horizon=horizon),
        batch.table,
        np.random.default_rng(world.seed),
    )
    reference = reference_of(start, world, rules)
    reference.proceed()
    return batch, reference


def reference_of(state: State, world: RandomWorld, rules: DecisionRules) -> ReferenceEnvironment:
    """The reference of an episode between rounds."""
    return ReferenceEnvironment(reference_at(state, 0, world.workload, world.setup), rules)


def compare(name: str, batch: GpuClusterBatch, reference: ReferenceEnvironment) -> None:
    """Assert that both show the same, to the last bit of float32, and count the same."""
    for key, array in batch.observation.items():
        other = reference.observation[key]
        assert (array[0].dtype, array[0].shape) == (other.dtype, other.shape), f"{name}: {key}"
        differs = np.argwhere(array[0] != other)
        assert not len(differs), (
            f"{name}: {key}{differs[0]}: {array[0][tuple(differs[0])]}, reference {other[tuple(differs[0])]}"
        )
    heads = batch.negotiation.arrays.heads[0]
    assert heads[heads >= 0].tolist() == reference.heads, name
    assert batch.counters() == reference.counters, name
    assert (float(batch.time[0]), bool(batch.ended[0])) == (reference.simulator.time, reference.ended), name


def play(
    name: str, batch: GpuClusterBatch, reference: ReferenceEnvironment, rng: np.random.Generator, steps: int
) -> int:
    """Chance decides for both; return how many decisions that took."""
    compare(name, batch, reference)
    for step in range(steps):
        if batch.ended[0]:
            return step
        actions: IntArray = chance(batch.observation["mask"], rng, passing=0.6)
        if rng.random() < 0.1:  # what the mask forbids is refused alike
            actions[0, int(rng.integers(actions.shape[1]))] = int(rng.integers(batch.spec.num_actions))
        batch.step(actions)
        reference.step(actions[0].tolist())
        compare(f"{name}, step {step}", batch, reference)
    return steps


def compare_jobs(batch: GpuClusterBatch, reference: ReferenceEnvironment) -> None:
    """Assert that jobs and log are where they are in the reference."""
    jobs = batch.state.jobs[0]
    for job in reference.simulator.jobs:
        record = jobs[job.id]
        finish = record.finish if job.status is not JobStatus.PENDING else np.inf
        np.testing.assert_array_equal((job.start, job.finish), (record.start, finish))
        counts = (record.num_restarts, record.num_preemptions, record.num_interruptions)
        assert (job.num_restarts, job.num_preemptions, job.num_interruptions) == counts


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("chunk", range(4))
def test_both_see_and_do_the_same(chunk, plain):
    """From the first decision of random worlds under random rules."""
    steps = 0
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        world = random_world(seed, plain=plain)
        rng = np.random.default_rng(seed)
        rules = random_rules(rng)
        told = f"{world.name} {rules}"
        batch, reference = begun(world, rules)
        steps += play(told, batch, reference, rng, MOST_STEPS)
        compare_jobs(batch, reference)
        assert batch.state.log(0) == reference.simulator.log, told
    assert steps > 20 * CHUNK


def test_every_effect_takes_several_values():
    seen: dict[str, set[float]] = {name: set() for name in effect_columns()}
    for seed in range(40):
        world, rng = random_world(seed), np.random.default_rng(seed)
        if world.setup.scenario.cpu_memory != "shared":
            continue
        batch, reference = begun(world, DecisionRules(num_candidates=8, max_decisions=3, effects=True))
        for _ in range(30):
            if batch.ended[0]:
                break
            actions = chance(batch.observation["mask"], rng, passing=0.3)
            batch.step(actions)
            reference.step(actions[0].tolist())
            compare(world.name, batch, reference)
            for name, values in zip(effect_columns(), np.moveaxis(batch.observation["effects"], -1, 0), strict=True):
                seen[name] |= set(np.unique(values).tolist())
    assert {name for name, values in seen.items() if len(values) < 3} <= {"present"}


@pytest.mark.parametrize("seed", range(12))
def test_a_reference_made_in_the_middle_continues_alike(seed):
    """The reference engine begun at a loaded instant instead of at t = 0."""
    world = random_world(seed)
    rng = np.random.default_rng(seed)
    rules = random_rules(rng)
    batch, reference = begun(world, rules)
    play(world.name, batch, reference, rng, 30)
    while batch.state.episode[0, 0].num_touched and not batch.ended[0]:  # on to the beginning of a round
        batch.step(np.zeros((1, batch.spec.num_nodes), np.int64))
    late = reference_of(batch.state, world, rules)
    late.ended = bool(batch.ended[0])
    late.decision = int(batch.negotiation.arrays.rules[0, 0].decision)
    late.counters = batch.counters()
    late.look()
    play(f"{world.name} from the middle", batch, late, rng, 40)
    compare_jobs(batch, late)


def test_the_worlds_hold_what_decides():
    """Random play reaches conflicts, gangs that do not come together, interruptions and preemptions."""
    found: dict[str, int] = {}
    for seed in range(15):
        rng = np.random.default_rng(seed)
        batch, reference = begun(random_world(seed), random_rules(rng))
        play("", batch, reference, rng, 60)
        for name in ("num_restarts", "num_preemptions", "num_interruptions"):
            found[name] = found.get(name, 0) + sum(getattr(job, name) for job in reference.simulator.jobs)
        for name, count in reference.counters.items():
            found[name] = found.get(name, 0) + count
    assert all(found.values()), found


def test_a_plan_under_way_is_not_copied():
    cluster = ClusterSpec((NodeSpec("V100", 4), NodeSpec("V100", 4)))
    workload = jobs_like((0, 4, 50.0), (0, 4, 50.0))
    batch = GpuClusterBatch(Setup(cluster, IdealModel()), workload.models, 2)
    batch.load(0, workload, np.random.default_rng(0))
    batch.step(np.array([[batch.spec.action(0, 4), 0]]))
    with pytest.raises(MurmurationError, match="episode 0: 1 jobs are changed already; copy it between rounds"):
        reference_at(batch.state, 0, workload, Setup(cluster, IdealModel()))


def test_worked_by_hand():
    """Two nodes of two GPUs. Both claim the only job, which wants two: the larger claim wins, the other conflicts."""
    cluster = ClusterSpec((NodeSpec("V100", 2), NodeSpec("V100", 2)))
    workload = jobs_like((0, 2, 20.0, 1, 2), (5, 1, 10.0))
    state = State.allocate(cluster, 2)
    table = GpuClusterBatch(Setup(cluster, IdealModel()), workload.models, 2).table
    state.load(0, workload, Scenario(horizon=1e4), table, np.random.default_rng(0))
    rules = DecisionRules(num_candidates=2)
    reference = ReferenceEnvironment(reference_at(state, 0, workload, Setup(cluster, IdealModel())), rules)
    reference.proceed()
    spec = reference.spec
    assert reference.heads == [0]
    assert reference.observation["mask"][:, 0].tolist() == [0, 0]  # all is idle: nobody may pass
    reference.step([spec.action(0, 1), spec.action(0, 2)])
    assert reference.plan.changed == {0: {1: 2}}
    assert reference.counters == {"decisions": 1, "claims": 2, "conflicts": 1, "incomplete": 0}
    assert reference.observation["nodes"][:, 0].tolist() == [1.0, 0.0]  # free GPUs of two
    reference.step([0, 0])
    assert (reference.simulator.time, reference.heads) == (5.0, [1])
    reference.step([spec.action(0, 1), 0])
    assert reference.plan.changed == {1: {0: 1}}
