"""Expert iteration: what is asked and judged, what is learnt from it; then training with it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch

from agents.bidding import BiddingCheckpoint, BiddingScheduler
from agents.evolution import Game, Score
from agents.expert_iteration import AskedRounds, ExpertSampler, ExpertSettings
from agents.expert_iteration.training import ExpertTrainer, ExpertTrainingSettings
from agents.rllib.evolution import BiddingTask
from agents.rllib.expert_iteration import ExpertIterationOnRay, ExpertSetup, LocalExpertIteration, lessons_of
from baselines import Srtf
from baselines.planner import PlannerExpert, RolloutPlanner
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.bidding import BiddingRules
from envs.bidding.columns import PAIR_PRESENT
from envs.scheduling import Scheduler
from envs.simulation import FifoMarket, Scenario
from envs.types import MurmurationError
from tests.unit.agents.test_evolution_training import BLUEPRINT, Quiet, equal
from tests.unit.agents.worlds import small_world

STARLING = {"look_ahead": 0, "hidden_look_ahead": 0, "batch": "usual"}
MARKET = StarlingMarket(Starling(look_ahead=0, hidden_look_ahead=0, batch="usual"))
DESCRIBED = {"name": "starling", "options": {"starling": STARLING}}
SETTINGS = ExpertSettings(
    expert=PlannerExpert(rollouts=4, rounds=5, margin=0.0),
    num_games=4,
    asked_share=0.3,
    futures=3,
    num_envs=3,
    num_minibatches=2,
)


def task_of(num_nodes: int) -> BiddingTask:
    scenario = Scenario(batch_sizes="usual")
    world = small_world(num_nodes=num_nodes, num_jobs=12, num_evaluation=4, load=2.0, scenario=scenario)
    return BiddingTask(f"{num_nodes} nodes", world.setup, world.source, MARKET, BiddingRules())


TASKS = task_of(2), task_of(3)


def setup_with(settings: ExpertSettings = SETTINGS) -> ExpertSetup:
    return ExpertSetup(TASKS, BLUEPRINT, settings, seed=3)


def fresh_policy() -> Any:
    return setup_with().build().eval()


def asked(make: Callable[[BiddingScheduler], Scheduler], count: int = 3, **changes: Any) -> list[AskedRounds]:
    """Rounds of the second task, in which half are asked about."""
    settings = replace(SETTINGS, expert=make, asked_share=0.5, **changes)
    found = ExpertSampler(TASKS[1], settings).play(fresh_policy(), games(count))
    return [each for each in found if each is not None]


def games(count: int) -> list[Game]:
    return [setup_with().game(0, 2 * number + 1) for number in range(count)]


def test_from_an_expert_that_agrees_nothing_is_learnt() -> None:
    for rounds in asked(lambda leader: leader):
        assert not rounds.differs.any()
        assert rounds.found.all()
        assert (rounds.gains == 0).all()
        assert (rounds.bids == rounds.own).all()


def test_bids_are_found_from_those_of_the_policy_for_what_another_scheduler_would_do() -> None:
    """Where they are found, the market clears them into what it would not do by itself, and other futures judge it."""
    differs, exact, judged = 0, 0, 0
    for rounds in asked(lambda _: Srtf()):
        assert (rounds.bids[~rounds.differs] == rounds.own[~rounds.differs]).all()
        assert (rounds.gains[~rounds.differs] == 0).all()
        changed = (rounds.bids != rounds.own).any(axis=(1, 2, 3))
        assert changed[rounds.found & rounds.differs].all()
        assert rounds.gains.shape == (len(rounds.own), SETTINGS.futures)
        differs, exact = differs + int(rounds.differs.sum()), exact + int((rounds.found & rounds.differs).sum())
        judged += int((rounds.gains != 0).any(axis=1).sum())
    assert differs >= exact > 0
    assert judged > 0


def test_what_a_game_teaches_does_not_depend_on_the_games_beside_it() -> None:
    together = asked(SETTINGS.expert)
    apart = asked(SETTINGS.expert, num_envs=1)
    for one, other in zip(together, apart, strict=True):
        assert one.score == other.score
        assert (one.gains == other.gains).all()
        assert one.bids == pytest.approx(other.bids, abs=1e-6)


def test_the_expert_is_led_by_the_policy_and_plans_in_its_market() -> None:
    leader = BiddingScheduler(fresh_policy(), MARKET, BiddingRules(), keep_bids=True)
    planner = PlannerExpert(rollouts=6, arrivals="fitted")(leader)
    assert isinstance(planner, RolloutPlanner)
    assert planner.leader is leader
    assert vars(planner.base)["known"] == MARKET.starling.known
    assert planner.base is not MARKET.starling, "it remembers the episode that it plans for"
    assert planner.knows_arrivals
    with pytest.raises(MurmurationError, match="only a policy that bids in market=starling can lead it"):
        PlannerExpert()(BiddingScheduler(fresh_policy(), FifoMarket(), BiddingRules(), keep_bids=True))


def rounds_with(gains: list[list[float]]) -> AskedRounds:
    """One round for each list of gains, whose bids are 1 where the policy's are 0."""
    count = len(gains)
    shape = count, 1, 2, 3
    observation: dict[str, Any] = {"pairs": np.arange(count, dtype=np.float32)}
    own, bids = np.zeros(shape, np.float32), np.ones(shape, np.float32)
    differs = np.array([any(each) for each in gains])
    return AskedRounds(observation, own, bids, np.array(gains), differs, differs, Score(10.0, 20.0, 0))


def test_lessons_worked_by_hand() -> None:
    """Gains of 4 +- 1, 2 +- 2, 8 +- 1, -1 +- 0 and none: the first and the third are better by two standard errors."""
    gains = [[3.0, 5.0], [0.0, 4.0], [7.0, 9.0], [-1.0, -1.0], [0.0, 0.0]]
    settings = replace(SETTINGS, confidence=2.0, most_weight=1.2)
    columns, figures = lessons_of([rounds_with(gains[:2]), rounds_with(gains[2:])], settings, np.random.default_rng(0))
    assert sorted(columns["observation"]["pairs"].tolist()) == [0.0, 0.0, 1.0, 1.0, 2.0]
    learnt = columns["targets"].any(axis=(1, 2, 3))
    assert sorted(columns["weights"][learnt].tolist()) == pytest.approx([4 / 6, 1.2])
    assert (columns["weights"][~learnt] == 1).all()
    assert figures["expert/rounds"] == 5
    assert figures["expert/differs"] == pytest.approx(0.8)
    assert figures["expert/better"] == pytest.approx(0.5)
    assert figures["expert/gain"] == pytest.approx((4 + 2 + 8 - 1) / 4)
    assert figures["expert/gain_where_better"] == pytest.approx(6.0)
    assert figures["train/mean_jct"] == 10.0


def test_one_iteration_brings_bids_nearer_to_those_that_were_better() -> None:
    """By the loss that is minimised, over the very rounds that were learnt from."""
    settings = replace(SETTINGS, confidence=0.0, num_epochs=20, asked_share=0.6)
    setup = replace(setup_with(settings), tasks=TASKS[:1])
    local = LocalExpertIteration(setup)
    before: Any = local.network()
    figures = local.train()
    after: Any = local.network()
    played = [setup.game(0, number) for number in range(settings.num_games)]
    found = [each for each in ExpertSampler(TASKS[0], settings).play(before.eval(), played) if each]
    columns, again = lessons_of(found, settings, np.random.default_rng(0))
    assert again.items() <= figures.items()
    assert figures["expert/better"] > 0
    tensors = {name: torch.from_numpy(array) for name, array in columns["observation"].items()}
    target, weights = (torch.from_numpy(columns[name]) for name in ("targets", "weights"))
    with torch.no_grad():
        losses = [
            torch.nn.functional.huber_loss(policy.bids(tensors), target, reduction="none", delta=settings.huber)
            * tensors["pairs"][..., PAIR_PRESENT, None]
            * weights[:, None, None, None]
            for policy in (before, after)
        ]
    assert float(losses[1].sum()) < 0.98 * float(losses[0].sum())


def trainer(folder: Path, iterations: int) -> ExpertTrainer:
    length = ExpertTrainingSettings(
        iterations=iterations, validate_every=1, num_validation=2, picture_every=0, expert_iteration=SETTINGS
    )
    return ExpertTrainer(setup_with(), length, DESCRIBED, folder, Quiet())


def test_a_run_learns_goes_on_where_it_stopped_and_leaves_a_policy(tmp_path: Path) -> None:
    state = trainer(tmp_path / "whole", 3).run()
    assert sorted(map(int, state.validation)) == [0, 1, 2, 3]
    assert state.num_episodes == SETTINGS.num_games
    trainer(tmp_path / "parts", 2).run()
    assert trainer(tmp_path / "parts", 3).run() == state
    last = [BiddingCheckpoint.load(tmp_path / name / "checkpoints" / "last") for name in ("whole", "parts")]
    assert equal(last[0].network, last[1].network)
    assert last[0].market == DESCRIBED


@pytest.mark.slow
def test_expert_iteration_on_ray_gives_the_same_weights() -> None:
    """One episode at a time: the last bit of a forward pass may depend on how many share it."""
    alone = replace(SETTINGS, num_envs=1)
    local = LocalExpertIteration(setup_with(alone))
    expected = local.train()
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
    try:
        remote = ExpertIterationOnRay(setup_with(replace(alone, num_env_runners=2)))
        assert remote.train() == pytest.approx(expected, rel=1e-4)
        assert equal(remote.network(), local.network())
        remote.stop()
    finally:
        ray.shutdown()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_games", 0),
        ("asked_share", 0.0),
        ("asked_share", 1.5),
        ("futures", 1),
        ("confidence", -1.0),
        ("most_weight", 0.5),
        ("horizon", 0.0),
        ("lr", 0.0),
        ("makespan_share", 2.0),
        ("num_env_runners", -1),
    ],
)
def test_impossible_parameters_are_refused(option: str, value: Any) -> None:
    with pytest.raises(MurmurationError, match=rf"expert_iteration\.{option} is {value}"):
        replace(SETTINGS, **{option: value})


def test_settings_without_an_expert_are_refused() -> None:
    with pytest.raises(MurmurationError, match=r"trainer\.expert_iteration is missing"):
        _ = ExpertTrainingSettings().method
