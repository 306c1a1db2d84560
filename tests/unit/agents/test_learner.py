"""The learner: its loss against a computation by hand, what the warm-up leaves alone, where advantages come from."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from agents.networks import Blueprint
from agents.rllib.advantage import TimeDiscountedAdvantages
from agents.rllib.algorithm import LocalAlgorithm, figures_of
from agents.rllib.config import algorithm_config
from agents.rllib.runner import BatchedEnvRunner
from tests.unit.agents.worlds import PPO, small_world

BLUEPRINT = Blueprint(options={"width": 16, "layers": 1, "heads": 2})


def parts(settings=PPO, seed=0):
    """(config, runner, learner) as `LocalAlgorithm` puts them together."""
    config = algorithm_config(small_world(), BLUEPRINT, settings, seed)
    runner = BatchedEnvRunner(config=config, worker_index=0)
    return config, runner, config.build_learner(env=runner.env)


@pytest.fixture(scope="module")
def learner_and_observation():
    config, runner, learner = parts(replace(PPO, entropy_coeff=0.01))
    env = runner._vector_env
    env.reset(seed=3)
    observation = {name: torch.from_numpy(array.copy()) for name, array in env.batch.observation.items()}
    return config, learner, observation


def batch_of(observation, actions, old, mask):
    count = len(mask)
    rng = np.random.default_rng(1)
    return {
        Columns.OBS: {name: tensor[:count] for name, tensor in observation.items()},
        Columns.ACTIONS: actions,
        Columns.ACTION_DIST_INPUTS: old.flatten(1),
        Columns.LOSS_MASK: torch.tensor(mask),
        Postprocessing.ADVANTAGES: torch.from_numpy(rng.normal(size=count).astype(np.float32)),
        Postprocessing.VALUE_TARGETS: torch.from_numpy(rng.normal(size=count).astype(np.float32)) * 40,
    }


def loss_by_hand(batch, new, old, values, mean, scale, config):
    """Loops over steps and servers: clip each server's ratio, average over servers, then over real steps."""
    total = real = 0.0
    for step in range(len(batch[Columns.LOSS_MASK])):
        if not batch[Columns.LOSS_MASK][step]:
            continue
        real += 1
        advantage = float(batch[Postprocessing.ADVANTAGES][step])
        gains, entropies = [], []
        for server, action in enumerate(batch[Columns.ACTIONS][step].tolist()):
            probability = torch.softmax(new[step, server].double(), 0)
            ratio = float(probability[action] / torch.softmax(old[step, server].double(), 0)[action])
            clipped = min(max(ratio, 1 - config.clip_param), 1 + config.clip_param)
            gains.append(min(ratio * advantage, clipped * advantage))
            entropies.append(-sum(p * math.log(p) for p in probability.tolist() if p > 0))
        error = abs(float(values[step]) - (float(batch[Postprocessing.VALUE_TARGETS][step]) - mean) / scale)
        huber = 0.5 * error**2 if error <= 10 else 10 * (error - 5)
        total += config.vf_loss_coeff * huber - np.mean(gains) - config.entropy_coeff * np.mean(entropies)
    return total / real


def test_the_loss_is_clipped_server_by_server(learner_and_observation):
    config, learner, observation = learner_and_observation
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    module.value_mean.fill_(-2.0)
    module.value_scale.fill_(3.0)  # targets of 40 / 3 reach the linear part of the Huber loss
    mask = [True, True, False, True]
    new = module.network.logits(observation)
    rng = torch.Generator().manual_seed(0)
    old = torch.where(new > -1e8, new + torch.randn(new.shape, generator=rng), new).detach()  # ratios beyond the clip
    actions = new.softmax(-1).flatten(0, 1).multinomial(1, generator=rng).view(new.shape[:2])
    batch = batch_of(observation, actions, old, mask)
    learner._sampled = 10**6
    found = learner.compute_loss_for_module(
        module_id=DEFAULT_MODULE_ID,
        config=config,
        batch=batch,
        fwd_out={Columns.ACTION_DIST_INPUTS: new.flatten(1)},
    )
    values = module.normalised_values(batch).detach()
    assert float(found.detach()) == pytest.approx(
        loss_by_hand(batch, new.detach(), old, values, -2.0, 3.0, config), rel=1e-4
    )


def test_at_the_old_policy_the_gain_is_the_advantage(learner_and_observation):
    """All ratios are one, so the policy loss is minus the mean advantage of the real steps and nothing is clipped."""
    config, learner, observation = learner_and_observation
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    new = module.network.logits(observation)
    batch = batch_of(observation, new.argmax(-1), new.detach(), [True, False, True, True])
    learner.metrics.reduce()
    learner.compute_loss_for_module(
        module_id=DEFAULT_MODULE_ID, config=config, batch=batch, fwd_out={Columns.ACTION_DIST_INPUTS: new.flatten(1)}
    )
    told = {
        name: float(torch.as_tensor(value).detach())
        for name, value in learner.metrics.peek((DEFAULT_MODULE_ID,)).items()
    }
    real = batch[Postprocessing.ADVANTAGES][batch[Columns.LOSS_MASK]]
    assert told["policy_loss"] == pytest.approx(-float(real.mean()), rel=1e-4)
    assert told["clip_fraction"] == 0.0
    assert told["kl"] == pytest.approx(0.0, abs=1e-6)


def test_rllibs_own_advantages_are_replaced():
    *_, learner = parts()
    kinds = [type(connector) for connector in learner._learner_connector.connectors]
    assert GeneralAdvantageEstimation not in kinds
    assert kinds[-1] is TimeDiscountedAdvantages
    assert kinds.count(TimeDiscountedAdvantages) == 1


def weights(algorithm):
    return {name: tensor.clone() for name, tensor in algorithm.network().state_dict().items()}


def changed(before, after):
    """Names of weights that differ."""
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_while_the_critic_warms_up_the_policy_stays_as_it_is():
    algorithm = LocalAlgorithm(small_world(), BLUEPRINT, replace(PPO, critic_warmup=1), seed=0)
    start = weights(algorithm)
    algorithm.train()
    warmed = weights(algorithm)
    assert changed(start, warmed)
    assert all(name.startswith("critic.") for name in changed(start, warmed))
    algorithm.train()
    assert any(not name.startswith("critic.") for name in changed(warmed, weights(algorithm)))
    algorithm.stop()


def test_the_critic_learns_to_predict():
    """On a fixed batch of samples; so impatient that targets hardly move with the critic's own estimates."""
    settings = replace(
        PPO, train_batch_size=512, minibatch_size=128, critic_warmup=100, critic_lr=1e-2, discount_time=1.0
    )
    _, runner, learner = parts(settings)
    episodes = runner.sample()
    told = []
    for _ in range(10):
        found = learner.update(
            episodes=copy.deepcopy(episodes),  # the learner's connectors lengthen them
            timesteps={"num_env_steps_sampled_lifetime": 0},
            num_epochs=5,
            minibatch_size=512,
            shuffle_batch_per_epoch=True,
        )
        told.append(float(found[DEFAULT_MODULE_ID]["explained_variance"]))
    assert told[-1] > max(told[0], 0.0) + 0.2


def test_policy_and_critic_learn_at_rates_of_their_own():
    *_, learner = parts(replace(PPO, lr=2e-4, critic_lr=7e-3))
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    rates: dict[int, float] = {}
    for name in ("policy", "critic"):
        group = learner.get_optimizer(DEFAULT_MODULE_ID, name).param_groups[0]
        rates |= {id(weight): group["lr"] for weight in group["params"]}
    for name, weight in module.network.named_parameters():
        assert rates.pop(id(weight)) == pytest.approx(7e-3 if name.startswith("critic.") else 2e-4)
    assert not rates  # nothing else is optimised


def test_figures_carry_the_tags_of_tensorboard_and_no_missing_means():
    learned = {DEFAULT_MODULE_ID: {"policy_loss": 0.5, "entropy": 1.0, "lr": 3e-4}}
    sampled = {"mean_jct": 100.0, "episode_return_mean": float("nan"), "something": 1.0}
    assert figures_of(sampled, learned) == {
        "train/mean_jct": 100.0,
        "learner/policy_loss": 0.5,
        "learner/entropy": 1.0,
    }


def test_the_networks_copy_is_nobody_elses():
    algorithm = LocalAlgorithm(small_world(), BLUEPRINT, PPO, seed=0)
    mine = algorithm.network()
    with torch.no_grad():
        for weight in mine.parameters():
            weight.zero_()
    assert changed(weights(algorithm), mine.state_dict())
    algorithm.set_network(mine)
    assert not changed(weights(algorithm), mine.state_dict())
    played = algorithm._runner.module.unwrapped().network.state_dict()
    assert not changed(mine.state_dict(), played)
    algorithm.stop()
