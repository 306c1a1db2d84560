"""A trained policy as a scheduler: sound runs, the same run as through the environment, refusals in one line."""

import numpy as np
import pytest

from agents.policies.scheduler import PolicyScheduler, choose_actions
from envs.gpu_cluster import GpuClusterEnv
from envs.scheduling import Scheduler
from envs.simulation import Simulator, run_episode
from envs.types import CheckpointError, ClusterSpec, NodeSpec
from tests.conformance.audit import check_run
from tests.unit.agents.worlds import network, small_world

MIXED = ClusterSpec((NodeSpec("V100", 4), NodeSpec("P100", 4), NodeSpec("K80", 2), NodeSpec("V100", 2)), "mixed")


def simulator(world, workload, seed=0):
    return Simulator(workload, world.setup, seed)


def test_it_is_a_scheduler_whose_runs_are_sound():
    world = small_world()
    scheduler = PolicyScheduler(network(world.spec, seed=1), world.spec, world.rules, world.setup.cluster.gpu_types)
    assert isinstance(scheduler, Scheduler)
    for workload in world.source.evaluation("validation"):
        result = run_episode(scheduler, simulator(world, workload))
        check_run(result, world.setup.performance, world.setup.scenario)
        assert result.finished.all()
        assert result.counters["decisions"] > 0
        assert result.counters["conflicts"] <= result.counters["claims"]


@pytest.mark.parametrize("sampled", [True, False])
def test_the_same_seed_gives_the_same_run_and_another_scheduler_object_too(sampled):
    world = small_world()
    workload = world.source.evaluation("validation")[0]
    schedulers = [
        PolicyScheduler(network(world.spec), world.spec, world.rules, world.setup.cluster.gpu_types, sampled=sampled)
        for _ in range(2)
    ]
    logs = [run_episode(one, simulator(world, workload, 4)).log for one in (*schedulers, schedulers[0])]
    assert logs[0] == logs[1] == logs[2]
    other = run_episode(schedulers[0], simulator(world, workload, 5)).log
    assert (other == logs[0]) is not sampled


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_both_faces_leave_the_same_log(sampled, seed):
    """The PettingZoo environment and the scheduler's own round, with equal generators."""
    world = small_world(num_jobs=10)
    net = network(world.spec, seed=seed)
    workload = world.source.episode(np.random.default_rng(seed))
    alone = simulator(world, workload, seed)
    rng = alone.rng if sampled else None
    result = run_episode(
        PolicyScheduler(net, world.spec, world.rules, world.setup.cluster.gpu_types, sampled=sampled), alone
    )
    env = GpuClusterEnv(world.setup, world.source, world.rules, world.reward)
    env.reset(seed=0, options={"workload": workload})
    while env.agents:
        actions = choose_actions(net, env.batch.observation, rng)[0]
        env.step(dict(zip(env.agents, actions.tolist(), strict=True)))
    assert env.log == result.log


@pytest.mark.parametrize("num_nodes", [1, 5])
def test_it_plays_on_clusters_of_other_sizes(num_nodes):
    trained, other = small_world(num_nodes=3), small_world(num_nodes=num_nodes)
    scheduler = PolicyScheduler(network(trained.spec), trained.spec, trained.rules, trained.setup.cluster.gpu_types)
    result = run_episode(scheduler, simulator(other, other.source.evaluation("validation")[0]))
    check_run(result, other.setup.performance, other.setup.scenario)
    assert result.finished.all()


@pytest.mark.parametrize("cluster", [MIXED, ClusterSpec((NodeSpec("V100", 8),), "large_nodes")])
def test_a_cluster_of_another_sort_is_refused_in_one_line(cluster):
    world = small_world()
    scheduler = PolicyScheduler(network(world.spec), world.spec, world.rules, world.setup.cluster.gpu_types)
    with pytest.raises(CheckpointError) as error:
        scheduler.reset(cluster, np.random.default_rng(0))
    message = str(error.value)
    assert "\n" not in message
    assert cluster.name in message
    assert "same GPU types and the same largest node" in message
