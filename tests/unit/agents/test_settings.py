"""Settings of training: what makes no sense is refused by name, in one line; what does, reaches RLlib."""

import itertools
from dataclasses import replace

import pytest

from agents.methods.ppo import PPOSettings, TrainingSetup
from agents.methods.ppo.config import algorithm_config
from agents.methods.ppo.group_runner import GroupRunner
from agents.methods.ppo.learner import NodePPOLearner
from agents.methods.ppo.runner import BatchedEnvRunner
from agents.networks import Blueprint
from agents.seeding import Phase, derive_seed
from agents.training import TrainingSettings
from envs.gpu_cluster import EnvSpec
from envs.types import MurmurationError
from tests.unit.agents.worlds import PPO, small_world


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0.0},
        {"critic_lr": 0.0},
        {"train_batch_size": 0},
        {"minibatch_size": -1},
        {"num_epochs": 0},
        {"clip_param": 0.0},
        {"num_envs": 0},
        {"group_size": 0},
        {"entropy_coeff": -0.1},
        {"critic_warmup": -1},
        {"num_env_runners": -1},
        {"gae_lambda": 1.1},
        {"minibatch_size": 16, "train_batch_size": 8},
        {"discount_time": 0.0},
        {"reward_scale": 0.0},
        {"reward_scale": float("inf")},
        {"lr": float("nan")},
        {"advantage": "mc"},
        {"group_size": 4},  # nobody is compared
        {"group_size": 1, "advantage": "group"},
        {"num_envs": 12, "group_size": 8, "advantage": "group"},
    ],
)
def test_ppo_settings_that_make_no_sense(wrong):
    with pytest.raises(MurmurationError, match=f"ppo.*{next(iter(wrong))}") as error:
        PPOSettings(**wrong)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "wrong", [{"iterations": -1}, {"validate_every": 0}, {"num_validation": 0}, {"num_threads": 0}]
)
def test_training_settings_that_make_no_sense(wrong):
    with pytest.raises(MurmurationError, match=next(iter(wrong))):
        TrainingSettings(PPOSettings(), **wrong)


def test_endless_patience_is_allowed():
    assert PPOSettings(discount_time=float("inf")).discount_time == float("inf")


def test_settings_reach_rllib():
    config = algorithm_config(small_world(), Blueprint(), replace(PPO, lr=0.5, gae_lambda=0.3, clip_param=0.1), seed=9)
    assert (config.lr, config.lambda_, config.clip_param) == (0.5, 0.3, 0.1)
    assert config.seed == derive_seed(9, Phase.LEARNING)
    assert config.train_batch_size_per_learner == PPO.train_batch_size
    assert config.learner_class is NodePPOLearner
    assert config.env_runner_cls is BatchedEnvRunner
    assert config.learner_config_dict == {
        "advantage": "gae",
        "time_constant": PPO.discount_time,
        "critic_lr": PPO.critic_lr,
        "critic_warmup": 0,
    }
    assert config.use_kl_loss is False


def test_group_advantages_reach_rllib():
    settings = replace(PPO, advantage="group", group_size=2, discount_time=77.0)
    config = algorithm_config(small_world(), Blueprint(), settings, seed=0)
    assert config.env_runner_cls is GroupRunner
    assert config.env_config["group_size"] == 2
    assert (config.learner_config_dict["advantage"], config.learner_config_dict["time_constant"]) == ("group", 77.0)


def test_the_warm_up_is_counted_in_updates():
    config = algorithm_config(small_world(), Blueprint(), replace(PPO, critic_warmup=3), seed=0)
    assert config.learner_config_dict["critic_warmup"] == 3


def test_no_two_places_of_runs_have_one_seed():
    """Consecutive seeds, phases, iterations and workers; all within RLlib's 32 bits with workers added."""
    places = list(itertools.product(range(4), Phase, range(4), range(4)))
    seeds = [derive_seed(*place) for place in places]
    assert len(set(seeds)) == len(places)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds == [derive_seed(*place) for place in places]


def test_a_world_knows_its_sizes_and_makes_episodes_in_groups():
    world = small_world(num_nodes=2)
    assert world.spec == EnvSpec.of(world.setup.cluster, world.rules)
    env = world.vector_env(4, seed=1, group_size=2)
    env.reset()
    submitted = [workload.jobs["work"].tolist() for workload in env.batch.workloads if workload]
    assert submitted[0] == submitted[1]
    assert submitted[2] == submitted[3]
    assert submitted[0] != submitted[2]
    with pytest.raises(MurmurationError, match="multiple of group_size"):
        world.vector_env(3, group_size=2)
    assert isinstance(world, TrainingSetup)
