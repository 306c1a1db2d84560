"""The learner: its loss against a computation by hand, the critic's warm-up, the source of advantages."""

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

from agents.methods.ppo.advantage import GroupAdvantages, TimeDiscountedAdvantages
from agents.methods.ppo.algorithm import LocalAlgorithm, figures_of
from agents.methods.ppo.columns import NODE_LOGP
from agents.methods.ppo.config import algorithm_config
from agents.networks import Blueprint
from envs.types import MurmurationError
from tests.unit.agents.worlds import PPO, small_world

GROUPED = replace(PPO, advantage="group", group_size=4, critic_warmup=5)
BLUEPRINT = Blueprint(options={"width": 16, "layers": 1, "heads": 2})


def parts(settings=PPO, seed=0):
    """(config, runner, learner) as `LocalAlgorithm` puts them together."""
    config = algorithm_config(small_world(), BLUEPRINT, settings, seed)
    runner = config.env_runner_cls(config=config, worker_index=0)
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
        NODE_LOGP: old.log_softmax(-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1),
        Columns.LOSS_MASK: torch.tensor(mask),
        Postprocessing.ADVANTAGES: torch.from_numpy(rng.normal(size=count).astype(np.float32)),
        Postprocessing.VALUE_TARGETS: torch.from_numpy(rng.normal(size=count).astype(np.float32)) * 40,
    }


def loss_by_hand(batch, new, old, values, mean, scale, config):
    """Loops over steps and nodes: clip each node's ratio, average over nodes, then over real steps."""
    total = real = 0.0
    for step in range(len(batch[Columns.LOSS_MASK])):
        if not batch[Columns.LOSS_MASK][step]:
            continue
        real += 1
        advantage = float(batch[Postprocessing.ADVANTAGES][step])
        gains, entropies = [], []
        for node, action in enumerate(batch[Columns.ACTIONS][step].tolist()):
            probability = torch.softmax(new[step, node].double(), 0)
            ratio = float(probability[action] / torch.softmax(old[step, node].double(), 0)[action])
            clipped = min(max(ratio, 1 - config.clip_param), 1 + config.clip_param)
            gains.append(min(ratio * advantage, clipped * advantage))
            entropies.append(-sum(p * math.log(p) for p in probability.tolist() if p > 0))
        error = abs(float(values[step]) - (float(batch[Postprocessing.VALUE_TARGETS][step]) - mean) / scale)
        huber = 0.5 * error**2 if error <= 10 else 10 * (error - 5)
        total += config.vf_loss_coeff * huber - np.mean(gains) - config.entropy_coeff * np.mean(entropies)
    return total / real


def test_the_loss_is_clipped_node_by_node(learner_and_observation):
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
    module.num_updates.fill_(1)
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
    connectors = [type(connector) for connector in learner._learner_connector.connectors]
    assert GeneralAdvantageEstimation not in connectors
    assert connectors[-1] is TimeDiscountedAdvantages
    assert connectors.count(TimeDiscountedAdvantages) == 1


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


def test_the_warm_up_is_counted_in_updates_however_many_steps_they_take():
    """Runners round a batch up and learners share it, so steps would end the warm-up early or late."""
    _, runner, learner = parts(replace(PPO, critic_warmup=2))
    network = learner.module[DEFAULT_MODULE_ID].unwrapped().network

    def moved(sampled):
        before = copy.deepcopy(network.state_dict())
        learner.update(
            episodes=runner.sample(),
            timesteps={"num_env_steps_sampled_lifetime": sampled},
            num_epochs=1,
            minibatch_size=32,
            shuffle_batch_per_epoch=True,
        )
        return any(not name.startswith("critic.") for name in changed(before, network.state_dict()))

    assert [moved(sampled) for sampled in (10**6, 1, 0, 64)] == [False, False, True, True]


def test_a_resumed_run_does_not_warm_up_again(tmp_path):
    settings = replace(PPO, critic_warmup=1)
    algorithm = LocalAlgorithm(small_world(), BLUEPRINT, settings, seed=0)
    algorithm.train()
    algorithm.save(tmp_path)
    algorithm.stop()
    again = LocalAlgorithm(small_world(), BLUEPRINT, settings, seed=0)
    again.restore(tmp_path)
    before = weights(again)
    again.train()
    assert any(not name.startswith("critic.") for name in changed(before, weights(again)))
    again.stop()


def test_against_the_group_the_policy_learns_at_once_and_there_is_no_critic():
    algorithm = LocalAlgorithm(small_world(num_jobs=5), BLUEPRINT, GROUPED, seed=0)
    connectors = [type(connector) for connector in algorithm._learner._learner_connector.connectors]
    assert connectors[-1] is GroupAdvantages
    assert not {GeneralAdvantageEstimation, TimeDiscountedAdvantages} & set(connectors)
    before = weights(algorithm)
    figures = algorithm.train()
    moved = changed(before, weights(algorithm))
    assert moved
    assert not any(name.startswith("critic.") for name in moved)
    assert {"train/group_explained_variance", "learner/policy_loss"} <= set(figures)
    assert "learner/value_loss" not in figures
    assert figures["train/env_steps"] == algorithm._steps >= PPO.train_batch_size
    algorithm.stop()


def test_against_the_group_a_saved_run_continues_as_the_unbroken_one(tmp_path):
    world = small_world(num_jobs=5)
    first = LocalAlgorithm(world, BLUEPRINT, GROUPED, seed=0)
    first.train()
    first.save(tmp_path)
    saved = weights(first)
    first.train()
    again = LocalAlgorithm(world, BLUEPRINT, GROUPED, seed=0)
    again.restore(tmp_path)
    assert not changed(saved, weights(again))
    again.train()
    assert changed(saved, weights(again))
    assert not changed(weights(first), weights(again))
    first.stop()
    again.stop()


def test_the_group_loss_is_the_policys_alone(learner_and_observation):
    """As by hand, with the value's part left out."""
    observation = learner_and_observation[2]
    config, _, learner = parts(replace(GROUPED, entropy_coeff=0.01))
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    mask = [True, True, False, True]
    new = module.network.logits(observation)
    rng = torch.Generator().manual_seed(0)
    old = torch.where(new > -1e8, new + torch.randn(new.shape, generator=rng), new).detach()
    actions = new.softmax(-1).flatten(0, 1).multinomial(1, generator=rng).view(new.shape[:2])
    batch = batch_of(observation, actions, old, mask)
    del batch[Postprocessing.VALUE_TARGETS]
    found = learner.compute_loss_for_module(
        module_id=DEFAULT_MODULE_ID, config=config, batch=batch, fwd_out={Columns.ACTION_DIST_INPUTS: new.flatten(1)}
    )
    nothing = {**batch, Postprocessing.VALUE_TARGETS: torch.zeros(len(mask))}
    by_hand = loss_by_hand(nothing, new.detach(), old, torch.zeros(len(mask)), 0.0, 1.0, config)
    assert float(found.detach()) == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize("settings", [PPO, GROUPED])
def test_a_weight_that_is_no_number_is_told(settings):
    """A mask and an arg-max would play on with it to the end of the run."""
    algorithm = LocalAlgorithm(small_world(num_jobs=5), BLUEPRINT, settings, seed=0)
    network = algorithm.network()
    with torch.no_grad():
        network.get_parameter("nothing.bias").fill_(math.nan)
    algorithm.set_network(network)
    with pytest.raises(MurmurationError, match=r"ppo: policy_loss is nan.*lower ppo\.lr") as error:
        algorithm.train()
    assert "\n" not in str(error.value)
    with pytest.raises(MurmurationError, match=r"training: weight .* is not finite"):
        algorithm.network()
    algorithm.stop()


def test_a_loss_that_is_not_finite_is_named():
    with pytest.raises(MurmurationError, match="ppo: kl is inf"):
        figures_of({}, {DEFAULT_MODULE_ID: {"policy_loss": 0.5, "kl": math.inf}})


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


def test_policy_and_critic_have_their_own_lr():
    *_, learner = parts(replace(PPO, lr=2e-4, critic_lr=7e-3))
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    learning_rates: dict[int, float] = {}
    for name in ("policy", "critic"):
        group = learner.get_optimizer(DEFAULT_MODULE_ID, name).param_groups[0]
        learning_rates |= {id(weight): group["lr"] for weight in group["params"]}
    for name, weight in module.network.named_parameters():
        assert learning_rates.pop(id(weight)) == pytest.approx(7e-3 if name.startswith("critic.") else 2e-4)
    assert not learning_rates  # nothing else is optimised


def test_figures_carry_the_tags_of_tensorboard_and_no_missing_means():
    learned = {DEFAULT_MODULE_ID: {"policy_loss": 0.5, "entropy": 1.0, "lr": 3e-4}}
    sampled = {"mean_jct": 100.0, "episode_return_mean": float("nan"), "something": 1.0}
    assert figures_of(sampled, learned) == {
        "train/mean_jct": 100.0,
        "learner/policy_loss": 0.5,
        "learner/entropy": 1.0,
    }


def test_the_copy_of_the_network_is_independent():
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
