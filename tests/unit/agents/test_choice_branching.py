"""Branched choices of the discrete environment: what is drawn, gains, ratios; then training with them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch

from agents.branching import BranchSettings, TailValue
from agents.branching.choices import ChoiceSampler, choice_log_ratios, draw_explored, explored_nodes, has_choice
from agents.branching.targets import targets_of
from agents.checkpoint import Checkpoint
from agents.evolution import Game
from agents.networks import Blueprint
from agents.rllib.choice_branching import ChoiceBranchingOnRay, ChoiceSetup, LocalChoiceBranching
from agents.training import Trainer, TrainingSettings
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.gpu_cluster import DecisionRules
from envs.simulation import Scenario
from envs.types import MurmurationError
from tests.unit.agents.test_evolution_training import Quiet, equal
from tests.unit.agents.worlds import small_world

RULES = DecisionRules(amendments=True, num_candidates=8, max_decisions=1)
MARKET = StarlingMarket(Starling(look_ahead=0, hidden_look_ahead=0, batch="usual"))
DESCRIBED = {
    "name": "starling",
    "options": {"starling": {"look_ahead": 0, "hidden_look_ahead": 0, "batch": "usual"}},
}
WORLD = small_world(
    num_jobs=10, num_evaluation=2, load=2.0, scenario=Scenario(batch_sizes="usual"), rules=RULES, market=MARKET
)
BLUEPRINT = Blueprint(options={"width": 16, "layers": 1, "heads": 2, "pass_bias": 5.0})
SETTINGS = BranchSettings(
    num_games=4, branch_share=0.4, num_arms=3, explored_share=0.5, num_envs=3, tail_segments=2, entropy_coeff=0.01
)


def setup_with(settings: BranchSettings = SETTINGS) -> ChoiceSetup:
    return ChoiceSetup(WORLD, BLUEPRINT, settings, seed=3)


def fresh_policy() -> Any:
    torch.manual_seed(0)
    return setup_with().build().eval()


def games(count: int) -> list[Game]:
    return [setup_with().game(0, number) for number in range(count)]


def test_nodes_that_explore_have_a_choice_and_draw_what_they_may() -> None:
    rng = np.random.default_rng(0)
    mask = np.array([[1, 0, 0, 0], [1, 1, 0, 1], [1, 0, 1, 1]], np.int8)
    assert has_choice(mask).tolist() == [False, True, True]
    settings = replace(SETTINGS, num_arms=400, explored_share=0.3)
    explored = explored_nodes(has_choice(mask), settings, rng)
    assert explored.any(axis=1).all()
    assert not explored[:, 0].any()
    assert explored[:, 1:].mean() == pytest.approx(0.3 + 0.7 / 2, abs=0.05), "the one that must explore, and the share"
    chances = np.array([[1.0, 0, 0, 0], [0.5, 0.2, 0, 0.3], [0.1, 0, 0.6, 0.3]])
    with np.errstate(divide="ignore"):
        drawn = draw_explored(np.maximum(np.log(chances), -1e9).astype(np.float32), np.ones((20000, 3), np.bool_), rng)
    for node in range(3):
        found = np.bincount(drawn[:, node], minlength=4) / len(drawn)
        assert found == pytest.approx(chances[node], abs=0.015)


def test_ratios_are_those_of_the_chosen_actions() -> None:
    logits = torch.tensor([[[0.0, 1.0, 2.0], [3.0, 0.0, -1e9]]])
    actions = torch.tensor([[[2, 0], [1, 1]]])
    before = torch.tensor([[[-0.5, -0.2], [-1.5, -3.0]]])
    explored = torch.tensor([[[True, True], [True, False]]])
    found = choice_log_ratios(logits, actions, before, explored)
    first = math.log(sum(math.exp(x) for x in (0.0, 1.0, 2.0)))
    second = math.log(math.exp(3.0) + 1.0)
    expected = [[2.0 - first + 0.5, 3.0 - second + 0.2], [1.0 - first + 1.5, 0.0]]
    assert found[0].numpy() == pytest.approx(np.array(expected), abs=1e-6)


def test_a_gain_is_the_difference_between_two_episodes_when_nothing_is_cut() -> None:
    """With a horizon behind the end and no discount: each arm is played in a batch of its own, which then passes."""
    settings = replace(SETTINGS, horizon=1e9, discount_time=math.inf, num_envs=2)
    policy, played = fresh_policy(), games(2)
    differ = 0
    for game, rounds in zip(
        played, ChoiceSampler(WORLD, settings).play(policy, TailValue(math.inf), played), strict=True
    ):
        assert rounds is not None
        assert (rounds.gains[rounds.same] == 0).all()
        which = int(np.argmax((~rounds.same).sum(axis=1)))
        costs = [cost_of(policy, game, rounds, which, arm) for arm in range(-1, settings.num_arms)]
        assert rounds.gains[which] == pytest.approx([costs[0] - cost for cost in costs[1:]], abs=1e-4)
        differ += len(set(costs)) - 1
    assert differ > 0


def cost_of(policy: Any, game: Game, rounds: Any, which: int, arm: int) -> float:
    """Job-seconds of a game in which the nodes decide as an arm at a branched round (-1: likeliest), then pass."""
    batch = WORLD.vector_env(1).batch
    batch.load(0, game.workload, np.random.default_rng(game.seed))
    wanted = {name: array[which] for name, array in rounds.observation.items()}
    while not all((batch.observation[name][0] == array).all() for name, array in wanted.items()):
        batch.step(likeliest(policy, batch))
    own = likeliest(policy, batch)
    drawn = np.where(rounds.explored[which, arm], rounds.actions[which, arm], own[0])[None]
    if arm >= 0:
        assert (drawn[0] == rounds.actions[which, arm]).all(), "who does not explore chooses what is likeliest"
    batch.step(own if arm < 0 else drawn)
    while not batch.ended[0]:
        batch.step(np.zeros((1, batch.spec.num_nodes), np.int64))
    return float(batch.state.episode["job_seconds"][0, 0])


@torch.inference_mode()
def likeliest(policy: Any, batch: Any) -> Any:
    observation = {name: torch.from_numpy(array) for name, array in batch.observation.items()}
    return policy.logits(observation).argmax(-1).numpy()


def trainer(folder: Path, iterations: int) -> Trainer:
    length = TrainingSettings(
        iterations=iterations,
        validate_every=1,
        num_validation=2,
        teacher="none",
        num_threads=1,
        branching=SETTINGS,
        picture_every=0,
    )
    return Trainer(WORLD, BLUEPRINT, length, {}, folder, 0, Quiet(), DESCRIBED)


def test_a_run_learns_goes_on_where_it_stopped_and_leaves_a_policy(tmp_path: Path) -> None:
    state = trainer(tmp_path / "whole", 3).run()
    assert sorted(map(int, state.validation)) == [0, 1, 2, 3]
    trainer(tmp_path / "parts", 2).run()
    assert trainer(tmp_path / "parts", 3).run().validation == state.validation
    last = [Checkpoint.load(tmp_path / name / "checkpoints" / "last").network for name in ("whole", "parts")]
    assert equal(last[0], last[1])
    assert not equal(last[0], fresh_policy())


def test_one_iteration_makes_better_choices_more_likely() -> None:
    settings = replace(SETTINGS, num_epochs=1, num_minibatches=1, lr=1e-3, num_games=6, entropy_coeff=0.0)
    policy = fresh_policy()
    local = LocalChoiceBranching(setup_with(settings))
    local.set_network(policy)
    figures = local.train()
    learnt: Any = local.network()
    played = ChoiceSampler(WORLD, settings).play(policy, setup_with().build_tail(), games(6))
    targets = targets_of([game for game in played if game], settings, np.random.default_rng(0)).columns
    tensors = {name: torch.from_numpy(part) for name, part in targets["observation"].items()}
    own = [torch.from_numpy(targets[name]) for name in ("actions", "log_probs", "explored")]
    with torch.no_grad():
        before = choice_log_ratios(policy.logits(tensors), *own)
        after = choice_log_ratios(learnt.logits(tensors), *own)
    assert before.numpy() == pytest.approx(0.0, abs=1e-4)
    assert float((torch.from_numpy(targets["advantages"])[..., None] * after).sum()) > 0
    assert figures["branches/rounds"] == len(targets["tails"])
    assert figures["learner/entropy"] > 0


@pytest.mark.slow
def test_branching_on_ray_gives_the_same_weights() -> None:
    """One episode at a time: the last bit of a forward pass may depend on how many share it."""
    alone = replace(SETTINGS, num_envs=1)
    local = LocalChoiceBranching(setup_with(alone))
    local.set_network(fresh_policy())
    expected = local.train()
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
    try:
        remote = ChoiceBranchingOnRay(setup_with(replace(alone, num_env_runners=2)))
        remote.set_network(fresh_policy())
        assert remote.train() == pytest.approx(expected, rel=1e-4)
        assert equal(remote.network(), local.network())
        remote.stop()
    finally:
        ray.shutdown()


def test_branches_need_a_market_that_goes_on() -> None:
    with pytest.raises(MurmurationError, match="a market goes on in the branches"):
        ChoiceSampler(replace(WORLD, market=None), SETTINGS)
