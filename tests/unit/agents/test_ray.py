"""RLlib's own `Algorithm` on Ray, with one remote runner: slow to start, so one test looks at all of it."""

from dataclasses import replace

import numpy as np
import pytest
import ray
import torch

from agents.methods.ppo.algorithm import PPOAlgorithm
from agents.networks import Blueprint
from envs.types import CheckpointError
from tests.unit.agents.worlds import PPO, network, small_world

BLUEPRINT = Blueprint(options={"width": 16, "layers": 1, "heads": 2})


def equal(one, other):
    here, there = one.state_dict(), other.state_dict()
    return all(torch.equal(here[name], there[name]) for name in there)


def module_source():
    """Run in the worker: the files from which it imports our packages."""
    import agents
    import envs

    return [agents.__file__, envs.__file__]


@pytest.fixture
def started():
    """Ray with one worker's CPU and a small object store."""
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
    yield
    ray.shutdown()


@pytest.mark.slow
def test_groups_are_compared_where_they_are_sampled(started, tmp_path):
    """Whole episodes and the column of their advantages come from a remote runner; the learner keeps no critic."""
    settings = replace(PPO, advantage="group", group_size=2, num_env_runners=1, critic_warmup=3)
    world = small_world(num_jobs=5)
    algorithm = PPOAlgorithm(world, BLUEPRINT, settings, seed=0)
    given = network(world.spec, seed=9)
    algorithm.set_network(given)
    figures = algorithm.train()
    assert figures["train/env_steps"] >= settings.train_batch_size
    assert figures["train/group_explained_variance"] <= 1.0
    assert "learner/value_loss" not in figures
    trained = algorithm.network()
    moved = {name for name, weight in trained.state_dict().items() if not torch.equal(weight, given.state_dict()[name])}
    assert moved
    assert not any(name.startswith("critic.") for name in moved)
    algorithm.save(tmp_path / "rllib")
    algorithm.set_network(given)
    algorithm.restore(tmp_path / "rllib")
    assert equal(algorithm.network(), trained)
    algorithm.train()
    assert not equal(algorithm.network(), trained)
    algorithm.stop()


@pytest.mark.slow
def test_one_iteration_on_ray_and_back_from_its_checkpoint(started, tmp_path):
    world = small_world(num_jobs=6)
    algorithm = PPOAlgorithm(world, BLUEPRINT, replace(PPO, num_env_runners=1), seed=0)
    given = network(world.spec, seed=9)
    algorithm.set_network(given)
    assert equal(algorithm.network(), given)
    played = algorithm._algorithm.env_runner_group.foreach_env_runner(
        lambda runner: runner.module.unwrapped().network.state_dict()["nothing.bias"].tolist()
    )
    assert played == [given.nothing.bias.tolist()] * len(played)

    figures = algorithm.train()
    assert figures["train/env_steps"] >= PPO.train_batch_size
    losses = {tag: value for tag, value in figures.items() if tag.startswith("learner/")}
    assert {"learner/policy_loss", "learner/value_loss", "learner/entropy", "learner/kl"} <= set(losses)
    assert np.isfinite(list(losses.values())).all()
    trained = algorithm.network()
    assert not equal(trained, given)

    algorithm.save(tmp_path / "rllib")
    algorithm.set_network(given)
    algorithm.restore(tmp_path / "rllib")
    assert equal(algorithm.network(), trained)
    with pytest.raises(CheckpointError, match="nowhere cannot be restored") as error:
        algorithm.restore(tmp_path / "nowhere")
    assert "\n" not in str(error.value)

    files = ray.get(ray.remote(module_source).remote())
    assert files == module_source()
    algorithm.stop()
    assert ray.is_initialized()  # it was not started here, so it is not stopped here
