"""GPU types are identified by name: a policy acts the same in whatever order a cluster lists them."""

from dataclasses import replace

import numpy as np
import pytest

from agents.policies.gpu_types import TypeOrder, check_types
from agents.policies.scheduler import PolicyScheduler
from envs.gpu_cluster import EnvSpec, GpuClusterBatch
from envs.gpu_cluster.columns import JOB_THROUGHPUT, NODE_POSITION, NODE_TYPE
from envs.simulation import Simulator, run_episode
from envs.types import CheckpointError, ClusterSpec, NodeSpec
from envs.workloads import SyntheticSource
from tests.unit.agents.worlds import SPEC, network, small_world

ORDERS = [("K80", "V100", "P100"), ("P100", "K80", "V100"), ("V100", "P100", "K80")]
LISTED = ("V100", "P100", "K80")


def cluster_of(types, name="mixed"):
    """Two nodes of each type, of four GPUs."""
    return ClusterSpec(tuple(NodeSpec(gpu_type, 4) for gpu_type in types for _ in range(2)), name)


def world_of(types):
    """The same jobs for each order."""
    base = small_world()
    cluster = cluster_of(types)
    source = SyntheticSource(cluster_of(LISTED), base.setup.performance, num_jobs=12, load=1.2, max_gpus=4)
    return replace(base, setup=replace(base.setup, cluster=cluster), source=source)


def batch_of(types):
    """One episode, with the types in this order, some steps after its begin."""
    world = world_of(types)
    batch = GpuClusterBatch(world.setup, world.source.models, 12, 1, world.rules)
    batch.load(0, world.source.episode(np.random.default_rng(1)), np.random.default_rng(2))
    return world, batch


@pytest.mark.parametrize("types", ORDERS)
def test_what_is_seen_is_the_same(types):
    """The nodes of one order and of another, each observed after the first job was put on the same node."""
    _, known = batch_of(LISTED)
    _, other = batch_of(types)
    node_of = [
        2 * types.index(gpu_type) + i for gpu_type in LISTED for i in range(2)
    ]  # each known node, in the other cluster
    action = known.spec.action(0, 1)
    for batch, node in ((known, 3), (other, node_of[3])):
        actions = np.zeros((1, 6), np.int64)
        actions[0, node] = action
        batch.step(actions)
    seen, expected = TypeOrder(cluster_of(types), LISTED).apply(other.observation), known.observation
    for name in ("queue", "cluster"):
        assert np.allclose(seen[name], expected[name], rtol=1e-6, atol=0)
    for name in ("nodes", "slots"):
        assert np.allclose(seen[name][:, node_of], expected[name], rtol=1e-6, atol=0)
    assert expected["slots"].any()
    assert np.array_equal(seen["mask"][:, node_of], expected["mask"])


class ByType:
    """A network that wants nodes of its second type and, of the jobs, those that its third type runs slowest."""

    def __init__(self, spec):
        self.spec = spec

    def logits(self, observation):
        """[B, nodes, actions]: only what types say."""
        queue = observation["queue"]
        job = 5.0 * (queue[..., JOB_THROUGHPUT] - queue[..., JOB_THROUGHPUT + 2])  # [B, candidates]
        node = 10.0 * observation["nodes"][..., NODE_TYPE + 1]  # [B, nodes]
        logits = observation["mask"].float() * 1e-3
        for choice in range(self.spec.num_candidates):
            action = self.spec.action(choice, 1)
            logits[..., action] = node + job[:, choice, None] + 0.01 * (self.spec.num_candidates - choice)
        return logits.masked_fill(observation["mask"] == 0, -1e9)

    def value(self, observation):
        """float[B]: never asked for."""
        return observation["mask"].float().sum((-1, -2))


@pytest.mark.parametrize("types", ORDERS)
def test_a_policy_does_the_same_in_whatever_order_types_are_listed(types):
    """Jobs start on GPUs of the same type, at the same time; unnamed, the second type would be another."""

    def jcts(here):
        world = world_of(here)
        spec = EnvSpec.of(world.setup.cluster, world.rules)
        scheduler = PolicyScheduler(ByType(spec), spec, world.rules, LISTED, sampled=False)
        workload = world.source.episode(np.random.default_rng(3))
        result = run_episode(scheduler, Simulator(workload, world.setup))
        return result.records["finish_time"] - result.records["submit_time"]

    np.testing.assert_allclose(jcts(types), jcts(LISTED), rtol=1e-9)


@pytest.mark.parametrize("types", [("V100", "P100"), ("V100", "P100", "K80", "T4"), ("V100", "P100", "T4")])
def test_other_types_are_refused_by_name(types):
    world = world_of(LISTED)
    scheduler = PolicyScheduler(network(world.spec), world.spec, world.rules, LISTED)
    with pytest.raises(CheckpointError) as error:
        scheduler.reset(cluster_of(types, "elsewhere"), np.random.default_rng(0))
    message = str(error.value)
    assert "\n" not in message
    assert "policy was built for V100, P100, K80 with up to 4 GPUs a node; cluster elsewhere has" in message
    assert f"{', '.join(types)} with up to 4" in message


@pytest.mark.parametrize("types", [(), ("V100",), ("V100", "V100"), ("V100", "P100", "K80")])
def test_names_that_do_not_fit_the_network(types):
    with pytest.raises(CheckpointError, match="they must be 2 different names"):
        check_types(types, SPEC)
    check_types(("K80", "V100"), SPEC)


def test_what_is_shown_is_fresh_and_of_the_same_types():
    _, batch = batch_of(ORDERS[0])
    before = {name: array.copy() for name, array in batch.observation.items()}
    shown = TypeOrder(cluster_of(ORDERS[0]), LISTED).apply(batch.observation)
    for name, array in batch.observation.items():
        assert shown[name].dtype == array.dtype
        assert np.array_equal(array, before[name])
        assert shown[name].flags.c_contiguous
    assert np.array_equal(TypeOrder(cluster_of(LISTED), LISTED).apply(before)["nodes"], before["nodes"])


def test_interleaved_nodes_are_placed_by_type():
    """K80, V100, K80, V100, for a network that knows V100 before K80."""
    cluster = ClusterSpec(tuple(NodeSpec(gpu_type, 4) for gpu_type in ("K80", "V100") * 2), "interleaved")
    world = small_world()
    batch = GpuClusterBatch(replace(world.setup, cluster=cluster), world.source.models, 12, 1, world.rules)
    batch.load(0, world.source.episode(np.random.default_rng(1)), np.random.default_rng(2))
    nodes = TypeOrder(cluster, ("V100", "K80")).apply(batch.observation)["nodes"][0]
    assert nodes[:, NODE_POSITION].tolist() == [0.5, 0.0, 0.75, 0.25]
    assert nodes[:, NODE_TYPE:].tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]
