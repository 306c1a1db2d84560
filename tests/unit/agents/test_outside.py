"""TorchRL's methods: the environment keeps to TorchRL's interface; both methods begin as the market and train."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchrl", reason="needs torchrl: pip install -c constraints.txt -e '.[learn,recipes]'")

from tensordict import TensorDict
from torchrl.envs.utils import check_env_specs

from agents.checkpoint import Checkpoint
from agents.networks import Blueprint
from agents.outside import OutsideSettings
from agents.outside.environment import ACTION, ClusterEnv
from agents.outside.methods import SAVED, Mappo, OutsideMethod, Qmix, make_outside, reward_scale, sum_rewards
from agents.training import Trainer, TrainingSettings
from envs.types import CheckpointError, MurmurationError
from tests.unit.agents.test_choice_branching import DESCRIBED, WORLD
from tests.unit.agents.test_evolution_training import Quiet, equal

BLUEPRINT = Blueprint(options={"width": 16, "layers": 1, "heads": 2, "pass_bias": 8.0})
SETTINGS = {
    "mappo": OutsideSettings("mappo", num_envs=3, minibatch_size=16),
    "qmix": OutsideSettings("qmix", num_envs=3, minibatch_size=16, buffer_size=400, exploration=0.1),
}
every_method = pytest.mark.parametrize("name", SETTINGS)


def made(name: str, **changes: Any) -> OutsideMethod:
    return make_outside(WORLD, BLUEPRINT, replace(SETTINGS[name], **changes), 3)


def test_the_environment_keeps_to_the_interface() -> None:
    check_env_specs(ClusterEnv(WORLD.vector_env(3), 1.0))


def test_steps_are_those_of_the_vectorised_environment() -> None:
    """All nodes pass in both: rewards, ends and observations are equal, and an ended episode begins anew."""
    env, plain = ClusterEnv(WORLD.vector_env(2, seed=5), 0.5), WORLD.vector_env(2, seed=5)
    env.set_seed(5)
    current = env.reset()
    for b in range(2):
        plain.begin(b)
    ends = 0
    for _ in range(150):
        current[ACTION] = torch.zeros(2, plain.batch.spec.num_nodes, dtype=torch.int64)
        step, current = env.step_and_maybe_reset(current)
        rewards, _, ended = plain.batch.step(np.zeros((2, plain.batch.spec.num_nodes), np.int64))
        assert step["next", "reward"].squeeze(-1).numpy() == pytest.approx(0.5 * rewards, rel=1e-6)
        assert (step["next", "done"].squeeze(-1).numpy() == ended).all()
        for b in np.flatnonzero(ended).tolist():
            plain.begin(b)
            ends += 1
        for key, array in dict[str, Any](plain.batch.observation).items():
            assert (current["observation", key].numpy() == (array > 0 if key == "mask" else array)).all()
    assert ends >= 2


@every_method
def test_a_fresh_policy_plays_what_the_market_proposes(name: str) -> None:
    method = made(name, exploration=0.0)
    method.set_network(BLUEPRINT.build(WORLD.spec))
    chosen = method.player(method.env.reset())[ACTION]
    assert float((chosen == 0).float().mean()) > 0.9
    if name == "qmix":
        assert (chosen == 0).all()


@every_method
def test_training_explores(name: str) -> None:
    """A fresh policy draws other actions than its likeliest, which pass."""
    method = made(name)
    method.set_network(Blueprint(options={**BLUEPRINT.options, "pass_bias": 4.0}).build(WORLD.spec))
    steps = method._play()
    assert 0.5 < float((steps[ACTION] == 0).float().mean()) < 1.0


@every_method
def test_an_iteration_changes_the_weights_and_reports_what_it_played(name: str) -> None:
    method = made(name)
    before = method.network()
    figures = method.train()
    assert not equal(before, method.network())
    assert figures["train/ended"] >= SETTINGS[name].num_envs
    assert figures["train/steps"] >= figures["train/ended"]
    assert figures["train/reward"] < 0
    assert all(np.isfinite(value) for value in figures.values())


def test_mappo_learns_what_is_better_in_a_world_where_one_action_pays() -> None:
    """Rewards are replaced: each step pays the share of nodes that pass, so passing becomes more likely."""
    method = made("mappo", num_epochs=4, lr=3e-3, entropy_coeff=0.0)
    assert isinstance(method, Mappo)
    method.set_network(Blueprint(options={**BLUEPRINT.options, "pass_bias": 1.0}).build(WORLD.spec))

    def share_of_passes() -> float:
        steps = method._play()
        method.learn(steps.set(("next", "reward"), (steps[ACTION] == 0).float().mean(-1, keepdim=True)))
        return float((steps[ACTION] == 0).float().mean())

    torch.manual_seed(0)
    first = share_of_passes()
    for _ in range(8):
        last = share_of_passes()
    assert last > first + 0.1


def test_the_return_of_the_market_alone_is_minus_a_hundred() -> None:
    episodes = WORLD.vector_env(4, seed=1)
    scale = reward_scale(episodes)
    total = float(episodes.batch.state.episode["job_seconds"].sum())
    assert scale * total / 4 == pytest.approx(100.0)


def trainer(folder: Path, name: str, iterations: int) -> Trainer:
    length = TrainingSettings(
        iterations=iterations,
        validate_every=1,
        num_validation=2,
        teacher="none",
        num_threads=1,
        outside=SETTINGS[name],
        picture_every=0,
    )
    return Trainer(WORLD, BLUEPRINT, length, {}, folder, 0, Quiet(), DESCRIBED)


@every_method
def test_a_run_starts_as_the_market_and_goes_on_where_it_stopped(name: str, tmp_path: Path) -> None:
    whole = trainer(tmp_path / "whole", name, 3)
    state = whole.run()
    assert isinstance(whole.listener, Quiet)
    assert whole.listener.phases[-1] == name
    assert sorted(map(int, state.validation)) == [0, 1, 2, 3]
    (at_first,) = state.gains["0"].values()
    assert at_first[0] == 0.0
    assert state.num_episodes == SETTINGS[name].num_envs
    trainer(tmp_path / "parts", name, 2).run()
    resumed = trainer(tmp_path / "parts", name, 3).run()
    assert sorted(map(int, resumed.validation)) == [0, 1, 2, 3]
    assert resumed.validation["2"] == state.validation["2"]
    if name == "mappo":  # the buffer of QMIX is not saved
        last = [Checkpoint.load(tmp_path / each / "checkpoints" / "last").network for each in ("whole", "parts")]
        assert equal(last[0], last[1])


def test_values_of_qmix_are_relative_to_passing() -> None:
    method = made("qmix")
    state = method.player(method.env.reset())
    values = state["agents", "action_value"]
    assert (values[..., 0] == 0).all()
    assert (values[..., 1:] < 0).all()  # by the bias on passing


def test_values_of_qmix_are_negative_unless_returns_may_be_positive() -> None:
    """Nodes that pass have values of 0, so the mixing network alone decides: with a bias of +-50 it says so."""
    for positive in (False, True):
        method = made("qmix", positive=positive)
        assert isinstance(method, Qmix)
        state = method.env.reset()
        for bias in (-50.0, 50.0):
            mixer = dict(method.judge.named_modules())
            (last,) = [each for name, each in mixer.items() if name.endswith("V.2")]
            torch.nn.init.constant_(last.bias, bias)
            value = method.judge(state)["chosen_action_value"].detach().numpy()
            assert value == pytest.approx(0.0 if bias > 0 and not positive else bias, abs=10.0)
            assert positive or (value <= 0).all()


def test_rewards_of_several_steps_end_with_the_episode() -> None:
    """Two episodes one after the other, of three steps and of two so far; steps of three."""
    done = torch.tensor([[[0], [0], [1], [0], [0]]], dtype=torch.bool)
    paid = {"reward": -torch.tensor([[[1.0], [2.0], [4.0], [8.0], [16.0]]]), "done": done, "terminated": done}
    following = torch.arange(1.0, 6.0).reshape(1, 5, 1)
    steps = TensorDict({"state": following - 1, "next": TensorDict({"state": following, **paid}, [1, 5])}, [1, 5])
    found = sum_rewards(steps, 3, 0.5)
    assert found["next", "reward"].flatten().tolist() == [-3.0, -4.0, -4.0, -16.0, -16.0]
    assert found["next", "state"].flatten().tolist() == [3.0, 3.0, 3.0, 5.0, 5.0]
    assert found["next", "done"].flatten().tolist() == [True, True, True, False, False]
    assert found["next", "terminated"].flatten().tolist() == [True, True, True, False, False]
    assert found["steps_to_next_obs"].flatten().tolist() == [3, 2, 1, 2, 1]
    assert found["state"].equal(steps["state"])
    assert steps["next", "reward"].equal(paid["reward"])  # what is given stays as it is


def test_qmix_trains_all_its_weights() -> None:
    method = made("qmix")
    assert isinstance(method, Qmix)
    stepped = {id(each) for group in method.optimizer.param_groups for each in group["params"]}
    assert stepped == {id(each) for each in method.loss.parameters() if each.requires_grad}


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    method = made("qmix")
    assert isinstance(method, Qmix)
    with pytest.raises(CheckpointError, match=rf"{SAVED}: cannot be restored"):
        method.restore(tmp_path)


@pytest.mark.parametrize(
    ("option", "value"), [("method", "dqn"), ("num_envs", 0), ("gamma", 1.5), ("lr", 0.0), ("entropy_coeff", -1.0)]
)
def test_impossible_parameters_are_refused(option: str, value: Any) -> None:
    with pytest.raises(MurmurationError, match=rf"outside\.{option} is "):
        replace(SETTINGS["mappo"], **{option: value})
