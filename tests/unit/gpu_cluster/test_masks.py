"""Every action that a mask allows takes effect: random negotiations on drawn workloads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.gpu_cluster import DecisionRules, GpuClusterBatch
from envs.gpu_cluster.kernels import decide_episode
from envs.simulation import EventKind, Information, Rounds, Scenario
from envs.simulation.kernels import RUNNING
from envs.types import JobSpec
from envs.workloads import Workload
from tests.conformance.worlds import CLUSTERS, Curved, workloads
from tests.unit.gpu_cluster.players import chance, jobs_like, plan, table_top
from tests.unit.simulation.plays import pool_size, tenants_of

rules = st.builds(
    DecisionRules,
    num_candidates=st.sampled_from([1, 3, 16]),
    queue_order=st.sampled_from(["shortest", "fifo", "least_service"]),
    max_decisions=st.sampled_from([1, 4, 16]),
    preemptive=st.booleans(),
    elastic=st.booleans(),
)
scenarios = st.builds(
    Scenario,
    restart_delay=st.sampled_from([0.0, 0.5]),
    rounds=st.builds(Rounds, on_events=st.just(True), interval=st.sampled_from([None, 5.0])),
    information=st.builds(Information, work=st.sampled_from(["exact", "estimate", "none"])),
)
every_cluster = st.sampled_from(sorted(CLUSTERS))
MOST_STEPS = 150


def drawn(data: st.DataObject, given_rules: DecisionRules, scenario: Scenario) -> GpuClusterBatch:
    """One logged episode."""
    cluster = CLUSTERS[data.draw(every_cluster)]
    return table_top(cluster, data.draw(workloads(cluster)), given_rules, scenario, Curved())


@settings(max_examples=60)
@given(data=st.data(), given_rules=rules, scenario=scenarios, seed=st.integers(0, 999), passing=st.floats(0, 1))
def test_any_legal_play_keeps_the_plan_sound(data, given_rules, scenario, seed, passing):
    """No node beyond its GPUs, no job outside its range when a round ends, no record lost, a choice at every stop."""
    batch = drawn(data, given_rules, scenario)
    rng = np.random.default_rng(seed)
    for _ in range(MOST_STEPS):
        if batch.ended[0]:
            break
        mask = batch.observation["mask"]
        assert (mask.sum(axis=-1) >= 1).all(), "a node without any action"
        assert mask[0, :, 1:].any(), "asked although nobody has a choice"
        rewards, seconds, _ = batch.step(chance(mask, rng, passing))
        assert rewards[0] <= 0
        assert seconds[0] >= 0
        check_plan(batch, between_rounds=bool(seconds[0] > 0))


def check_plan(batch: GpuClusterBatch, between_rounds: bool) -> None:
    """Check the present plan along its linked lists."""
    state = batch.state
    here = plan(batch)
    for node, record in enumerate(state.nodes[0]):
        tenants = tenants_of(state, node)
        assert tenants == {job: gpus[node] for job, gpus in here.items() if node in gpus}
        assert record.free == record.num_gpus - sum(tenants.values()) >= 0
    used = sum(len(gpus) for gpus in here.values())
    touched = state.touched[0, : state.episode[0, 0].num_touched]
    remembered = sum(int(state.jobs[0, job].before_shares) for job in touched)
    assert pool_size(state) == state.shares.shape[1] - used - remembered
    if between_rounds:
        assert used == 0 or len(touched) == 0
        for job, gpus in here.items():
            record = state.jobs[0, job]
            assert record.status == RUNNING
            assert record.throughput > 0
            assert record.min_gpus <= sum(gpus.values()) <= record.max_gpus
            assert batch.rules.elastic or sum(gpus.values()) == record.num_gpus


@settings(max_examples=60)
@given(data=st.data(), given_rules=rules, scenario=scenarios, seed=st.integers(0, 999))
def test_a_choice_of_one_node_alone_is_never_refused(data, given_rules, scenario, seed):
    """While the others pass, whatever the mask allows takes effect exactly."""
    batch = drawn(data, given_rules, scenario)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        if batch.ended[0]:
            break
        mask = batch.observation["mask"][0]
        node = int(rng.choice(np.flatnonzero(mask[:, 1:].any(axis=1))))
        actions = np.zeros((1, len(mask)), np.int64)
        actions[0, node] = 1 + rng.choice(np.flatnonzero(mask[node, 1:]))
        choice, gpus = batch.spec.decode(actions[0])
        job = named(batch, node, int(choice[node]))
        before = batch.counters()["conflicts"]
        batch.negotiation.set_actions(actions)
        decide_episode(batch.negotiation.arrays, 0)
        assert plan(batch).get(job, {}).get(node, 0) == gpus[node]
        assert batch.counters()["conflicts"] == before
        batch.step(np.zeros_like(actions))  # everybody passes: the round ends


def named(batch: GpuClusterBatch, node: int, choice: int) -> int:
    """The job behind a choice."""
    if choice < batch.spec.num_candidates:
        return int(batch.negotiation.arrays.heads[0, choice])
    return list(tenants_of(batch.state, node))[choice - batch.spec.num_candidates]


@settings(max_examples=40)
@given(data=st.data(), given_rules=rules, scenario=scenarios, seed=st.integers(0, 999))
def test_the_log_keeps_the_rules(data, given_rules, scenario, seed):
    """Without preemption no job stops; without elasticity every job runs on the requested GPUs."""
    batch = drawn(data, given_rules, scenario)
    rng = np.random.default_rng(seed)
    for _ in range(MOST_STEPS):
        if batch.ended[0]:
            break
        batch.step(chance(batch.observation["mask"], rng))
    log = batch.state.log(0)
    if not given_rules.preemptive:
        assert not (log.events["kind"] == EventKind.STOP).any()
    for row in np.flatnonzero(log.events["num_shares"]):
        record = batch.state.jobs[0, int(log.events["job"][row])]
        gpus = log.placement(int(row)).num_gpus
        assert record.min_gpus <= gpus <= record.max_gpus
        assert given_rules.elastic or gpus == record.num_gpus


@pytest.mark.parametrize("cluster", sorted(CLUSTERS))
def test_every_job_of_every_workload_can_be_started_by_some_node(cluster):
    """Alone on an empty cluster, each size of each model has a claim; together the nodes can complete it."""
    for model in ("any", "large"):
        most = 12 if cluster == "homogeneous" else 12 if model == "large" else 14
        for gpus in range(1, most + 1):
            workload = Workload.of([JobSpec(0, 0, gpus, 10, model)])
            batch = table_top(CLUSTERS[cluster], workload, None, Scenario(horizon=1e6), Curved())
            for node in range(batch.spec.num_nodes):
                legal = np.flatnonzero(batch.observation["mask"][0, node, 1:]) + 1
                legal = legal[legal < 1 + batch.spec.num_candidates * (batch.spec.node_gpus + 1)]
                actions = np.zeros((1, batch.spec.num_nodes), np.int64)
                if legal.size and not batch.ended[0]:
                    actions[0, node] = legal[-1]
                    batch.step(actions)
            assert sum(plan(batch).get(0, {}).values()) == gpus, f"{model} on {gpus} GPUs"


def test_legal_says_which_of_a_joint_action():
    batch = table_top(CLUSTERS["homogeneous"], jobs_like((0, 2, 10)), None, Scenario(), Curved())
    best = int(np.argmax(batch.observation["mask"][0, 0]))
    assert batch.legal([best, best, 0]).tolist() == [True, True, False]
    assert batch.legal([-1, best, batch.spec.num_actions]).tolist() == [False, True, False]
