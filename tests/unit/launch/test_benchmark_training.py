"""The plain PPO loop that RLlib is compared with: it has the same advantages and the same loss, and it learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from agents.methods.ppo import PPOSettings, TrainingSetup
from agents.methods.ppo.advantage import generalised_advantages as expected
from agents.networks import Blueprint
from benchmarks.plain_ppo import Columns, PlainPPO, estimate_advantages, ppo_loss, sample_steps, stack_rows
from tests.unit.agents.worlds import small_world

SETTINGS = PPOSettings(train_batch_size=64, minibatch_size=32, num_envs=4, num_epochs=1, lr=1e-3, entropy_coeff=0.01)


@pytest.fixture
def world() -> TrainingSetup:
    """Two small nodes."""
    return small_world()


def sampled(world: TrainingSetup, length: int = 12) -> tuple[nn.Module, Columns, Columns]:
    """A new network and some of its steps."""
    torch.manual_seed(0)
    network, env = Blueprint().build(world.spec), world.vector_env(SETTINGS.num_envs)
    env.reset()
    seen, done, spent = sample_steps(env, network, length, SETTINGS.reward_scale)  # type: ignore[arg-type]
    assert spent > 0
    return network, seen, done


def test_advantages_are_those_of_the_learner():
    """For every stretch between two ends of episodes, column by column."""
    rng = np.random.default_rng(0)
    length, places = 30, 5
    ended = rng.random((length, places)) < 0.15
    rewards, elapsed = rng.normal(size=(2, length, places))
    elapsed, values = np.abs(elapsed) * 5000, rng.normal(size=(length + 1, places))
    done = {"rewards": torch.tensor(rewards), "elapsed": torch.tensor(elapsed), "ended": torch.tensor(ended)}
    found = estimate_advantages(done, torch.tensor(values), SETTINGS).numpy()
    for b in range(places):
        begin = 0
        for end in [*(np.flatnonzero(ended[:, b]) + 1).tolist(), length]:
            if end > begin:
                part = slice(begin, end)
                one = expected(
                    rewards[part, b],
                    values[begin : end + 1, b],
                    elapsed[part, b],
                    bool(ended[end - 1, b]),
                    SETTINGS.discount_time,
                    SETTINGS.gae_lambda,
                )
                np.testing.assert_allclose(found[part, b], one)
            begin = end


def test_a_rollout_holds_legal_actions_and_their_outcomes(world):
    """Legal actions, their probabilities, and one more observation than steps."""
    _, seen, done = sampled(world)
    assert len(seen["mask"]) == len(done["actions"]) + 1 == 13
    legal = seen["mask"][:-1].gather(-1, done["actions"].unsqueeze(-1))
    assert (legal == 1).all()
    assert (done["log_probs"] <= 0).all()
    assert (done["elapsed"] >= 0).all()
    assert (done["rewards"] <= 0).all()


def test_rows_become_columns():
    rows = [{"a": torch.tensor([1, 2]), "b": torch.tensor(3)}, {"a": torch.tensor([4, 5]), "b": torch.tensor(6)}]
    assert {name: column.tolist() for name, column in stack_rows(rows).items()} == {"a": [[1, 2], [4, 5]], "b": [3, 6]}


def flat(columns: Columns, rows: int) -> Columns:
    """The first rows of columns, without the axis of environments."""
    return {name: column.flatten(0, 1)[:rows] for name, column in columns.items()}


def test_before_any_update_the_loss_is_known(world):
    """All ratios are 1, so the loss is minus the mean gain plus the value error minus the entropy bonus."""
    network, seen, done = sampled(world)
    seen, steps = flat(seen, 48), flat(done, 48)
    gains = torch.randn(48)
    with torch.no_grad():
        values = network.value(seen)  # type: ignore[operator]
        probs = network.logits(seen).softmax(-1)  # type: ignore[operator]
    steps |= {"gains": gains, "targets": values + 2.0}
    settings = replace(SETTINGS, entropy_coeff=0.0)
    without = ppo_loss(network, seen, steps, settings)  # type: ignore[arg-type]
    assert float(without.detach()) == pytest.approx(settings.vf_loss_coeff * 2.0 - float(gains.mean()), abs=1e-5)
    entropy = -(probs * probs.clamp(min=1e-30).log()).sum(-1).mean()
    bonus = float((without - ppo_loss(network, seen, steps, SETTINGS)).detach())  # type: ignore[arg-type]
    assert bonus == pytest.approx(0.01 * float(entropy), abs=1e-5)


def test_ratios_beyond_the_clip_have_no_gradient(world):
    """Ratios beyond the clip have no gradient towards good actions."""
    network, seen, done = sampled(world)
    seen, steps = flat(seen, 48), flat(done, 48)
    steps |= {"gains": torch.ones(48), "targets": torch.zeros(48), "log_probs": steps["log_probs"] - 1.0}
    settings = replace(SETTINGS, entropy_coeff=0.0)
    torch.autograd.backward(ppo_loss(network, seen, steps, settings))  # type: ignore[arg-type]
    moved = {name for name, weight in network.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert moved
    assert all(name.startswith("critic.") for name in moved)


def test_an_iteration_learns(world):
    torch.manual_seed(0)
    plain = PlainPPO(world, SETTINGS, 0)
    before = {name: weight.clone() for name, weight in plain.network.state_dict().items()}
    plain.train()
    after = plain.network.state_dict()
    moved = {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert {"critic", "encode_queue", "amounts"} <= moved
    assert all(torch.isfinite(weight).all() for weight in after.values())
    assert plain.env_seconds > 0
    assert sum(map(len, plain.groups)) == len(list(plain.network.parameters()))
