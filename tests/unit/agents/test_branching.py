"""Branched rounds: noise and its probability, gains, the tail value, the share of variance; then training with them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch

from agents.bidding import BiddingCheckpoint
from agents.bidding.training import Silence
from agents.branching import BranchSampler, BranchSettings, TailValue, arms_around, explore, log_ratios
from agents.branching.exploration import market_weights, shared_bids
from agents.branching.playing import discounted_cost
from agents.branching.tail import backlog_tensors
from agents.branching.targets import against_others, standardise, targets_of
from agents.branching.training import BranchTrainer, BranchTrainingSettings
from agents.branching.variance import (
    VarianceSettings,
    branch_costs,
    covariance_parts,
    interval_of_ratio,
    measure_shares,
)
from agents.evolution import Game
from agents.rllib.branching import BranchingOnRay, BranchSetup, LocalBranching
from agents.rllib.evolution import build_policy
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.bidding.columns import BID_AFFINITY, PAIR_GPUS, PAIR_PROPOSED_GPUS
from envs.episodes.backlog import backlog_seconds, observe_backlog
from envs.episodes.branches import Stretch
from envs.simulation import FifoMarket, Scenario
from envs.types import MurmurationError
from tests.unit.agents.test_evolution_training import BLUEPRINT, Quiet, equal, setup_of

SETTINGS = BranchSettings(
    num_games=4, branch_share=0.4, num_arms=3, explored_share=0.5, sigma=0.3, num_envs=3, tail_segments=2
)
MARKET = {"name": "fifo", "options": {}}
MARKET_OF_STARLING = StarlingMarket(Starling(look_ahead=0, batch="usual"))


def branch_setup(settings: BranchSettings = SETTINGS, tasks: int = 2) -> BranchSetup:
    return BranchSetup(setup_of(tasks=tasks).tasks, BLUEPRINT, settings, seed=3)


def games_of(task, count: int, first: int = 0) -> list[Game]:
    return [Game(0, task.source.episode(np.random.default_rng(i), "train"), i) for i in range(first, first + count)]


def loaded(task, seed: int = 0, rounds: int = 4):
    batch = task.batch(1)
    batch.load(0, task.source.episode(np.random.default_rng(seed), "train"), np.random.default_rng(seed))
    for _ in range(rounds):
        batch.step(np.zeros(batch.auction.action_shape, np.float32))
    _ = batch.observation
    return batch


def test_noise_moves_the_bids_of_explored_jobs_alone_and_alike_on_all_nodes() -> None:
    batch = loaded(setup_of(tasks=1).tasks[0])
    pair_jobs = batch.auction.arrays.pair_jobs[0]
    means = np.random.default_rng(0).uniform(-0.3, 0.3, batch.auction.action_shape[1:]).astype(np.float32)
    noise = explore(pair_jobs, batch.spec.num_job_rows, 50, batch.spec.num_bids, 0.3, np.random.default_rng(1))
    moved = arms_around(means, noise, pair_jobs, 0.1) - means
    shown = np.unique(pair_jobs[pair_jobs >= 0])
    assert noise.explored.any(axis=1).all()
    assert not noise.explored[:, np.setdiff1d(np.arange(batch.spec.num_job_rows), shown)].any()
    assert 0.3 < noise.explored[:, shown].mean() < 0.3 + 1.0 / len(shown) + 0.1
    assert (moved[:, pair_jobs < 0] == 0).all()
    for row in shown.tolist():
        here = pair_jobs == row
        still = ~noise.explored[:, row]
        assert (moved[still][:, here] == 0).all()
        shared = moved[:, here][..., shared_bids(batch.spec.num_bids)]
        assert shared == pytest.approx(np.broadcast_to(shared[:, :1], shared.shape), abs=1e-6)
    affinities = moved[..., BID_AFFINITY][moved[..., BID_AFFINITY] != 0]
    assert len(np.unique(affinities)) == len(affinities)
    assert affinities.std() == pytest.approx(0.1, rel=0.15)


def test_ratios_are_those_of_normal_densities_of_what_the_market_averages() -> None:
    """By hand, from the density of each average and of each affinity under both policies."""
    batch = loaded(setup_of(tasks=1).tasks[0], rounds=6)
    observation = {name: torch.from_numpy(array.copy()) for name, array in batch.observation.items()}
    pair_jobs = batch.auction.arrays.pair_jobs[0]
    rng, sigma, rows = np.random.default_rng(2), 0.2, batch.spec.num_job_rows
    before, after = (rng.normal(0, 0.1, (2, 1, *batch.auction.action_shape[1:]))).astype(np.float32)
    noise = explore(pair_jobs, rows, 4, batch.spec.num_bids, 0.5, rng)
    found = log_ratios(
        torch.from_numpy(after),
        torch.from_numpy(before),
        observation,
        {name: torch.from_numpy(part[None]) for name, part in noise._asdict().items()},
        sigma,
    )[0].numpy()
    pairs = batch.observation["pairs"][0]
    weights = np.exp2(8.0 * pairs[..., PAIR_GPUS]) + np.exp2(8.0 * pairs[..., PAIR_PROPOSED_GPUS]) - 1.0
    assert market_weights(observation["pairs"])[0].numpy() == pytest.approx(weights, rel=1e-6)
    assert weights[pair_jobs >= 0].max() > 1.0

    def log_density(value: float, mean: float) -> float:
        return -((value - mean) ** 2) / (2 * sigma**2)

    for arm in range(4):
        for row in range(rows):
            here = pair_jobs == row
            expected = 0.0
            if noise.explored[arm, row]:
                for k, bid in enumerate(shared_bids(batch.spec.num_bids)):
                    old, new = (np.average(each[0][here][:, bid], weights=weights[here]) for each in (before, after))
                    value = old + sigma * noise.jobs[arm, row, k]
                    expected += log_density(value, new) - log_density(value, old)
                for old, new, drawn in zip(
                    before[0][here][:, BID_AFFINITY],
                    after[0][here][:, BID_AFFINITY],
                    noise.pairs[arm][here],
                    strict=True,
                ):
                    value = old + sigma * drawn
                    expected += log_density(value, new) - log_density(value, old)
            assert found[arm, row] == pytest.approx(expected, abs=2e-4)


def test_a_gain_is_the_difference_between_two_episodes_when_nothing_is_cut() -> None:
    """With a horizon behind the end and no discount: each arm is played in a batch of its own, without branches."""
    task = replace(setup_of(tasks=1).tasks[0], market=MARKET_OF_STARLING)
    settings = replace(SETTINGS, horizon=1e9, discount_time=math.inf, sigma=0.8, num_envs=2)
    games = games_of(task, 2)
    found = BranchSampler(task, settings).play(Silence(task.spec.num_bids), TailValue(math.inf), games)
    differ = 0
    for game, rounds in zip(games, found, strict=True):
        assert rounds is not None
        assert (rounds.gains[rounds.same] == 0).all()
        which = int(np.argmax((~rounds.same).sum(axis=1)))
        round_number, arms = branched_round(task, game, settings, which)
        costs = [cost_of(task, game, round_number, bids) for bids in arms]
        assert rounds.gains[which] == pytest.approx([costs[0] - cost for cost in costs[1:]], abs=1e-5)
        differ += len(set(costs)) - 1
    assert differ > 0


def branched_round(task, game: Game, settings: BranchSettings, which: int) -> tuple[int, list[Any]]:
    """Return the number of a round that the game's generator branches, and the bids of its arms."""
    batch, rng = loaded_game(task, game), np.random.default_rng([game.seed, 1])
    nothing = np.zeros(batch.auction.action_shape, np.float32)
    shape = batch.spec.num_job_rows, settings.num_arms, batch.spec.num_bids
    for number in range(10**6):
        _ = batch.observation
        pair_jobs = batch.auction.arrays.pair_jobs[0]
        if rng.random() < settings.branch_share and (pair_jobs >= 0).any():
            noise = explore(pair_jobs, *shape, settings.explored_share, rng)
            if which == 0:
                return number, [nothing[0], *arms_around(nothing[0], noise, pair_jobs, settings.sigma)]
            which -= 1
        batch.step(nothing)
    raise AssertionError("too few rounds are branched")


def loaded_game(task, game: Game):
    batch = task.batch(1)
    batch.load(0, game.workload, np.random.default_rng(game.seed))
    return batch


def cost_of(task, game: Game, number: int, bids: np.ndarray) -> float:
    """Play a game without bids, but in one round on these; return all job-seconds."""
    batch = loaded_game(task, game)
    nothing = np.zeros(batch.auction.action_shape, np.float32)
    for played in range(10**6):
        if batch.ended[0]:
            break
        batch.step(bids[None] if played == number else nothing)
    return float(batch.state.episode["job_seconds"][0, 0])


def test_what_a_game_teaches_does_not_depend_on_the_games_beside_it() -> None:
    task, tail = setup_of(tasks=1).tasks[0], TailValue(SETTINGS.discount_time)
    policy = build_policy(BLUEPRINT, task.spec, 1, None)
    together = BranchSampler(task, SETTINGS).play(policy, tail, games_of(task, 5))
    alone = BranchSampler(task, replace(SETTINGS, num_envs=1))
    for i, expected in enumerate(together):
        (found,) = alone.play(policy, tail, games_of(task, 1, first=i))
        assert found is not None
        assert expected is not None
        assert found.gains == pytest.approx(expected.gains, rel=1e-9, abs=1e-6)
        assert found.tails == pytest.approx(expected.tails, rel=1e-5)
        assert (found.noise.jobs == expected.noise.jobs).all()
        assert found.score == expected.score


def test_costs_are_discounted_to_the_beginning_of_a_stretch() -> None:
    """Two jobs for 10 s, then one for 20 s, with a time constant of 50 s: integrals of exp(-t / 50)."""
    stretch = Stretch(np.array([[20.0], [20.0]]), np.array([[10.0], [20.0]]))
    expected = 2 * 50 * (1 - math.exp(-0.2)) + 50 * (math.exp(-0.2) - math.exp(-0.6))
    assert discounted_cost(stretch, 50.0) == pytest.approx([expected])
    assert discounted_cost(stretch, math.inf) == pytest.approx([40.0])
    assert discounted_cost(Stretch(np.zeros((0, 3)), np.zeros((0, 3))), 50.0).tolist() == [0.0] * 3


def test_a_new_tail_value_is_the_discounted_backlog_and_learns_its_scale() -> None:
    batch = loaded(setup_of(tasks=1).tasks[0])
    backlog = observe_backlog(batch.state, batch.table, np.zeros(1, np.int64))
    for constant in (2000.0, math.inf):
        with torch.no_grad():
            value = TailValue(constant)(backlog_tensors(backlog))
        assert value.numpy() == pytest.approx(backlog_seconds(backlog, constant), rel=1e-5)
    tail = TailValue(2000.0)
    tail.track_scale(torch.tensor([0.0, 200.0]), 0.1)
    assert float(tail.scale) == pytest.approx(141.42, rel=1e-3)
    tail.track_scale(torch.tensor([0.0, 400.0]), 0.5)
    assert float(tail.scale) == pytest.approx(212.13, rel=1e-3)


def test_an_arm_is_compared_with_the_others_and_the_baseline() -> None:
    gains = np.array([[3.0, -1.0, 0.0]])
    # the others of the first arm: baseline 0, -1 and 0; of the second: 0, 3 and 0; of the third: 0, 3 and -1
    assert against_others(gains) == pytest.approx(np.array([[3 + 1 / 3, -1 - 1.0, 0 - 2 / 3]]))
    both = np.ones((1, 2), np.bool_)
    assert standardise(np.array([[3.0, -4.0]]), 1.0, both) == pytest.approx(np.array([[3 / math.sqrt(12.5), -1.0]]))
    alone = np.array([[True, False]])
    assert standardise(np.array([[3.0, -4.0]]), 2.0, alone) == pytest.approx(np.array([[1.0, -4 / 3]]))
    assert standardise(np.zeros((1, 2)), 1.0, ~both).tolist() == [[0.0, 0.0]]


def test_joined_rounds_stay_together() -> None:
    setup = branch_setup(tasks=1)
    task = setup.tasks[0]
    games = BranchSampler(task, SETTINGS).play(Silence(task.spec.num_bids), setup.build_tail(), games_of(task, 3))
    found = [game for game in games if game]
    targets = targets_of(found, SETTINGS, np.random.default_rng(0))
    assert targets.num_rounds == sum(len(game.gains) for game in found) == targets.figures["branches/rounds"]
    tails = np.concatenate([game.tails for game in found]).astype(np.float32)
    nodes = np.concatenate([game.observation["nodes"] for game in found])
    for row in range(targets.num_rounds):
        (origin,) = np.flatnonzero((tails == targets.columns["tails"][row]).all(axis=1))[:1]
        assert (nodes[origin] == targets.columns["observation"]["nodes"][row]).all()


def test_shares_are_found_where_they_are_known() -> None:
    """Costs made of a part of the arm, one of the future, and noise, with variances 4, 100 and 12: a share of 1/4."""
    rng = np.random.default_rng(0)
    own, rest, shared = [], [], []
    for _ in range(4000):
        arms = rng.normal(0, 2, (6, 1))
        costs = arms + rng.normal(0, 10, (1, 8)) + rng.normal(0, math.sqrt(12), (6, 8))
        later = 0.5 * arms + rng.normal(0, 30, (6, 8))
        variance, noise = covariance_parts(costs, costs)
        own.append(variance)
        rest.append(noise)
        shared.append(covariance_parts(costs, later)[0])
    assert np.mean(own) == pytest.approx(4.0, rel=0.05)
    assert np.mean(rest) == pytest.approx(12.0, rel=0.05)
    share, low, high = interval_of_ratio(np.array(own), np.array(own) + np.array(rest), 0.95, rng)
    assert low < 0.25 < high
    assert high - low < 0.03
    assert share == pytest.approx(0.25, abs=0.02)
    assert np.mean(shared) / np.mean(own) == pytest.approx(0.5, rel=0.1)


def test_the_share_of_a_decision_is_measured_by_horizon() -> None:
    """All futures are the same up to the first arrival, so a very short branch belongs to its decision alone."""
    task = setup_of(tasks=1).tasks[0]
    fixed = replace(task.setup, scenario=Scenario(batch_sizes="usual"))
    task = replace(task, market=MARKET_OF_STARLING, setup=fixed)
    settings = VarianceSettings(decisions=4, arms=3, futures=3, horizons=(1.0, 400.0, math.inf), round_share=0.3)
    told: list[int] = []
    silent = Silence(task.spec.num_bids)
    found = measure_shares(task, silent, settings, 0, told.append)
    assert told == [1, 2, 3, 4]
    assert [(each.horizon, each.tail) for each in found] == [
        (1.0, "none"),
        (1.0, "backlog"),
        (400.0, "none"),
        (400.0, "backlog"),
        (math.inf, "none"),
    ]
    assert found[1].share == pytest.approx(1.0)
    assert found[-1].worth == pytest.approx(1.0)
    assert found[-1].share < found[1].share
    assert all(each.low - 1e-9 <= each.share <= each.high + 1e-9 for each in found)
    assert found == measure_shares(task, silent, settings, 0, told.append)
    costs = next(branch_costs(task, silent, settings, 0))
    assert costs.shape == (2, 3, 3, 3)
    assert (np.diff(costs[0], axis=0) >= 0).all(), "job-seconds only grow"


def trainer(folder: Path, iterations: int) -> BranchTrainer:
    length = BranchTrainingSettings(iterations=iterations, validate_every=1, num_validation=3, branching=SETTINGS)
    return BranchTrainer(branch_setup(), length, MARKET, folder, Quiet())


def test_a_run_learns_goes_on_where_it_stopped_and_leaves_a_policy(tmp_path: Path) -> None:
    whole = trainer(tmp_path / "whole", 3)
    state = whole.run()
    assert sorted(map(int, state.validation)) == [0, 1, 2, 3]
    assert state.merit(0) == 0.0, "a new policy bids nothing"
    assert (tmp_path / "whole" / "branching.json").exists()
    trainer(tmp_path / "parts", 2).run()
    resumed = trainer(tmp_path / "parts", 3)
    assert resumed.run().validation == state.validation
    assert any("resumed after iteration 2" in note for note in resumed.listener.notes)  # type: ignore[attr-defined]
    last = [BiddingCheckpoint.load(tmp_path / name / "checkpoints" / "last").network for name in ("whole", "parts")]
    assert equal(last[0], last[1])
    assert last[0].state_dict()["out.weight"].any()


def test_one_iteration_makes_better_arms_more_likely() -> None:
    """Of the jobs that arms explored, the new policy has moved towards what arms with positive advantages did."""
    settings = replace(SETTINGS, num_epochs=1, num_minibatches=1, lr=1e-3, num_games=6)
    local = LocalBranching(branch_setup(settings, tasks=1))
    before: Any = local.network()
    figures = local.train()
    after: Any = local.network()
    setup = branch_setup(settings, tasks=1)
    played = BranchSampler(setup.tasks[0], settings).play(
        before, setup.build_tail(), [setup.game(0, number) for number in range(6)]
    )
    targets = targets_of([game for game in played if game], settings, np.random.default_rng(0)).columns
    tensors = {name: torch.from_numpy(part) for name, part in targets["observation"].items()}
    noise = {name: torch.from_numpy(part) for name, part in targets["noise"].items()}
    with torch.no_grad():
        ratios = log_ratios(after.bids(tensors), torch.from_numpy(targets["means"]), tensors, noise, settings.sigma)
    gained = (torch.from_numpy(targets["advantages"])[..., None] * ratios).sum()
    assert float(gained) > 0
    assert figures["branches/rounds"] == len(targets["tails"])
    assert 0 <= figures["branches/same_decision"] < 1


@pytest.mark.parametrize(
    ("option", "value"), [("sigma", 0.0), ("num_arms", 1), ("branch_share", 1.5), ("horizon", -1.0)]
)
def test_impossible_parameters_are_refused(option: str, value: float) -> None:
    with pytest.raises(MurmurationError, match=f"branching.{option} is {value}"):
        BranchSettings(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"arms": 1}, "measure.arms is 1; it must be at least 2"),
        ({"horizons": (500.0, 100.0)}, "positive and ascending"),
        ({"horizons": ()}, "positive and ascending"),
        ({"confidence": 0.0}, "measure.confidence is 0.0"),
        ({"sigma": -1.0}, "measure.sigma is -1.0"),
    ],
)
def test_impossible_measurements_are_refused(options, said: str) -> None:
    with pytest.raises(MurmurationError, match=said):
        VarianceSettings(**options)


@pytest.mark.slow
def test_branching_on_ray_gives_the_same_weights(tmp_path: Path) -> None:
    local = LocalBranching(branch_setup())
    figures = [local.train() for _ in range(2)]
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
    try:
        remote = BranchingOnRay(branch_setup(replace(SETTINGS, num_env_runners=2)))
        for expected in figures:
            found = remote.train()
            assert found == pytest.approx(expected, rel=1e-4)
            if expected is figures[0]:
                remote.save(tmp_path / "search")
        assert equal(remote.network(), local.network())
        remote.restore(tmp_path / "search")
        assert remote.train() == pytest.approx(figures[1], rel=1e-4)
        remote.stop()
    finally:
        ray.shutdown()


def test_the_first_in_first_out_market_can_play_branches_too() -> None:
    task = setup_of(tasks=1).tasks[0]
    assert isinstance(task.market, FifoMarket)
    (rounds,) = BranchSampler(task, SETTINGS).play(
        Silence(task.spec.num_bids), TailValue(SETTINGS.discount_time), games_of(task, 1)
    )
    assert rounds is not None
    assert np.isfinite(rounds.gains).all()
    assert (rounds.tails >= 0).all()
