"""Imitation through bids: how bids are corrected, whether they are found and learned, and a run that does both."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from agents.bid_imitation import BidImitationSettings, Lesson, correct, imitate_bids, measure_agreement
from agents.bid_imitation.agreement import count_equal
from agents.bid_imitation.learning import collect, fit_bids, make_lesson, training_games
from agents.bid_imitation.targets import gpus_allocated, grid_held
from agents.bid_imitation.worth import FutureJudge
from agents.bidding import BiddingCheckpoint, BiddingScheduler
from agents.bidding.scheduler import bids_on
from agents.evolution import Game
from agents.evolution.training import EvolutionTrainer, EvolutionTrainingSettings
from agents.networks.bidding import BiddingPolicy
from agents.rllib.evolution import BiddingTask
from envs.bidding.columns import BID_COLUMNS
from envs.scheduling import Scheduler
from envs.simulation import FifoMarket
from envs.types import MurmurationError
from tests.unit.agents.test_evolution_training import SETTINGS, Quiet, setup_of
from tests.unit.agents.worlds import small_world

SHORT = BidImitationSettings(passes=2, rounds=320, epochs=6, num_envs=8, num_games=3, lr=0.02)


@pytest.fixture(scope="module")
def task() -> BiddingTask:
    world = small_world(num_nodes=3, num_jobs=30, load=4.0)
    return BiddingTask("crowded", world.setup, world.source, FifoMarket())


@pytest.fixture(scope="module")
def burst() -> BiddingTask:
    """Jobs that come nearly all at once, so that many wait after the last arrival."""
    world = small_world(num_nodes=3, num_jobs=30, load=60.0)
    return BiddingTask("burst", world.setup, world.source, FifoMarket())


def shortest_first(task: BiddingTask) -> Callable[[], Scheduler]:
    """Teachers that the market can follow: nodes that bid the more for a job the less time it has left."""
    network = BiddingPolicy(task.spec, width=4, strength=1.0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.job.weight[0, 4] = 1.0  # JOB_REMAINING_TIME
        network.pair_of_job.weight[0, 0] = 1.0
        network.out.weight[2, 0] = 3.0  # BID_PRIORITY
    return lambda: BiddingScheduler(network, FifoMarket(), task.rules)


def games_of(task: BiddingTask, count: int) -> list[Game]:
    return [Game(0, task.source.episode(np.random.default_rng(i), "validation"), i) for i in range(count)]


def test_corrections_worked_by_hand() -> None:
    """Two nodes. The teacher starts job 0 on node 0, gives job 1 a second GPU, stops job 2 and leaves job 3 alone.

    The market's answer stops job 1, keeps job 2, starts job 4 on node 1, and leaves job 3 alone.
    """
    held = np.array([[0, 0], [1, 0], [0, 1], [0, 2], [0, 0]])
    taught = np.array([[2, 0], [1, 1], [0, 0], [0, 2], [0, 0]])
    cleared = np.array([[0, 0], [0, 0], [0, 1], [0, 2], [0, 1]])
    listed = np.array([4, 0, 1, 2, 3, -1])
    pair_jobs = np.array([[1, 2, -1], [4, 0, 3]], np.int32)  # node 0 sees jobs 0 and 1; node 1 jobs 3, 4 and 2
    found = correct(held, taught, cleared, listed, pair_jobs)
    bids = {name: found[..., i].tolist() for i, name in enumerate(BID_COLUMNS)}
    assert bids["affinity"] == [[1, 1, 0], [0, -1, -1]]
    assert bids["priority"] == [[-1, -1, 0], [0, 1, 1]]
    assert bids["restart"] == [[0, 0, 0], [0, 0, -1]]  # both change job 1
    assert bids["size"] == bids["appetite"] == bids["cores"] == [[0, 0, 0], [0, 0, 0]]
    shrunk = np.array([[1, 0], [1, 0], [0, 0], [0, 2], [0, 0]])
    found = correct(held, taught, shrunk, listed, pair_jobs)
    bids = {name: found[..., i].tolist() for i, name in enumerate(BID_COLUMNS)}
    assert bids["size"] == bids["appetite"] == [[1, 1, 0], [0, 0, 0]]
    assert bids["restart"] == [[0, -1, 0], [0, 0, 0]]


def test_counts_worked_by_hand() -> None:
    """Of four jobs the market alone gets the second and the third wrong; the answer corrects only the second."""
    taught = np.array([[1, 0], [2, 0], [0, 0], [0, 0]])
    own = np.array([[1, 0], [0, 0], [0, 1], [0, 0]])
    assert count_equal(taught, own, own) == (1, 0, 3, 1, 2, 0)
    assert count_equal(taught, own, np.array([[1, 0], [2, 0], [0, 1], [0, 0]])) == (1, 0, 3, 2, 2, 1)
    assert count_equal(taught, own, taught) == (1, 1, 3, 3, 2, 2)


def test_bids_are_found_for_a_teacher_that_the_market_can_follow(task: BiddingTask) -> None:
    games = games_of(task, 3)
    figures = measure_agreement(BiddingPolicy(task.spec), task.batch(1), shortest_first(task), games, 8)
    assert figures["market_rounds"] < 0.95
    assert figures["market_differing"] == 0.0
    for what in ("rounds", "jobs", "differing"):
        assert figures[f"found_{what}"] == 1.0
    for what in ("rounds", "jobs", "differing"):  # a new policy is the market alone
        assert figures[f"policy_{what}"] == figures[f"market_{what}"]


def test_no_bids_are_found_where_the_market_agrees(task: BiddingTask) -> None:
    silent = BiddingPolicy(task.spec)
    lesson = Lesson(
        task.batch(3),
        lambda: BiddingScheduler(silent, FifoMarket(), task.rules),
        training_games(task, 0),
        corrections=4,
    )
    for _ in range(20):
        taught = lesson.ask()
        assert not taught.bids.any()
        lesson.play(taught.bids)


def test_an_allocation_replaces_or_keeps_what_jobs_hold(task: BiddingTask) -> None:
    batch = task.batch(1)
    game = games_of(task, 1)[0]
    batch.load(0, game.workload, np.random.default_rng(0))
    while not len(batch.view(0).running):
        batch.step(np.zeros(batch.auction.action_shape, np.float32))
    view = batch.view(0)
    held = grid_held(view)
    assert held.sum() == sum(sum(view.placement(int(job)).gpus.values()) for job in view.running) > 0
    assert (gpus_allocated(held, view.allocation(keep_running=True)) == held).all()
    assert not gpus_allocated(held, view.allocation()).any()
    stopping = view.allocation(keep_running=True)
    first = int(view.running[0])
    stopping.stop(first)
    assert not gpus_allocated(held, stopping)[first].any()
    assert (np.delete(gpus_allocated(held, stopping), first, 0) == np.delete(held, first, 0)).all()


def test_a_policy_learns_what_its_teacher_does(task: BiddingTask) -> None:
    torch.manual_seed(0)
    network = BiddingPolicy(task.spec, width=8)
    steps: list[tuple[int, int]] = []
    found = imitate_bids(
        network, [task], shortest_first(task), SHORT, 0, lambda done, total, _: steps.append((done, total))
    )
    assert steps[-1][0] == steps[-1][1]
    figures = measure_agreement(network, task.batch(1), shortest_first(task), games_of(task, 3), SHORT.corrections)
    assert figures["policy_differing"] > 0.05
    assert 0 < found["loss"] < 0.1


def test_regression_learns_bids_that_follow_from_what_is_observed(task: BiddingTask) -> None:
    """Here the bids are those of another network, so that the loss can become small."""
    teacher = shortest_first(task)()
    assert isinstance(teacher, BiddingScheduler)
    lesson = Lesson(task.batch(4), lambda: teacher, training_games(task, 99), SHORT.corrections)
    torch.manual_seed(0)
    network = BiddingPolicy(task.spec, width=8)
    rounds = list(collect(lesson, network, 0.0, 15, np.random.default_rng(0)))
    for each in rounds:
        each["bids"] = torch.from_numpy(
            bids_on(teacher.network, {k: v.numpy() for k, v in each.items() if k != "bids"})
        )
    optimizer, rng = torch.optim.Adam(network.parameters(), lr=0.02), np.random.default_rng(0)
    losses = [fit_bids(network, optimizer, rounds, 0.1, rng) for _ in range(10)]
    assert 0 < losses[-1] < 0.3 * losses[0]
    rounds[0]["bids"][:] = torch.nan
    with pytest.raises(MurmurationError, match="the loss is not finite"):
        fit_bids(network, optimizer, rounds, 0.1, rng)


def test_a_judge_says_what_a_choice_gains(burst: BiddingTask) -> None:
    """After the last arrival all futures are one, so each gain is the difference between two episodes played out."""
    task = burst
    batch, games = task.batch(4), games_of(task, 4)
    for b, game in enumerate(games):
        batch.load(b, game.workload, np.random.default_rng(b))
    nothing, rounds = np.zeros(batch.auction.action_shape, np.float32), 0
    while (batch.state.episode["next_job"][:, 0] < batch.state.jobs.shape[1]).any():
        batch.step(nothing)
        rounds += 1
    assert not batch.ended.all()
    _ = batch.observation
    bids = np.random.default_rng(5).uniform(-1, 1, nothing.shape).astype(np.float32)
    bids[3] = 0.0
    judge = FutureJudge(batch, task.source, futures=2, horizon=1e9, seed=0)
    judged = judge.judge(bids)
    for b in range(4):
        costs = [played_out(task, games[b], b, rounds, each[b]) for each in (nothing, bids)]
        assert judged.gains[b] == pytest.approx(costs[0] - costs[1], abs=1e-5)
        kept = judged.gains[b] > 0 or not bids[b].any()
        assert (judged.bids[b] == (bids[b] if kept else 0.0)).all()
    better = judged.gains > 0
    assert (judged.gains != 0).any()
    assert (judged.weights[~better] == 1).all()
    assert judged.weights[better] == pytest.approx(np.minimum(judged.gains[better] / judge.usual, 3.0), rel=1e-5)


def played_out(task: BiddingTask, game: Game, seed: int, rounds: int, bids: np.ndarray) -> float:
    """Play an episode without bids, but on these in one round; return its job-seconds."""
    batch = task.batch(1)
    batch.load(0, game.workload, np.random.default_rng(seed))
    nothing = np.zeros(batch.auction.action_shape, np.float32)
    for _ in range(rounds):
        batch.step(nothing)
    batch.step(bids[None])
    while not batch.ended[0]:
        batch.step(nothing)
    return float(batch.state.episode["job_seconds"][0, 0])


def test_what_a_judge_declines_is_learnt_as_no_bids(burst: BiddingTask) -> None:
    task = burst
    settings = replace(SHORT, futures=2, horizon=300.0, passes=1)
    lesson = make_lesson(task, shortest_first(task), settings, 0)
    declined = 0
    for _ in range(40):  # the first rounds have no queue
        taught = lesson.ask()
        assert np.isfinite(taught.gains).all()
        assert not taught.bids[taught.gains < 0].any()
        declined += (taught.gains < 0).sum()
        lesson.play(taught.bids)
    assert declined > 0
    network = BiddingPolicy(task.spec, width=8)
    found = imitate_bids(network, [task], shortest_first(task), settings, 0, lambda *_: None)
    assert 0 < found["loss"] < 0.5


def test_training_games_do_not_end_and_differ(task: BiddingTask) -> None:
    first, again, other = (list(islice(training_games(task, seed), 3)) for seed in (0, 0, 1))
    assert [game.seed for game in first] == [game.seed for game in again]
    assert len({game.seed for game in (*first, *other)}) == 6
    assert all((a.workload.jobs == b.workload.jobs).all() for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize(("option", "value"), [("rounds", 0), ("lr", 0.0), ("student_share", 1.5), ("corrections", -1)])
def test_impossible_settings_are_refused(option: str, value: float) -> None:
    with pytest.raises(MurmurationError, match=f"imitation.{option} is {value}"):
        BidImitationSettings(**{option: value})  # type: ignore[arg-type]


def test_a_run_imitates_once_then_searches_and_can_be_resumed(tmp_path: Path) -> None:
    """The search starts with the weights that imitation left; a resumed run does not imitate again."""
    setup = setup_of(tasks=1)
    teacher = shortest_first(setup.tasks[0])

    def trainer(folder: str, iterations: int) -> EvolutionTrainer:
        length = EvolutionTrainingSettings(
            iterations,
            1,
            3,
            evolution=SETTINGS,
            teacher="shortest",
            imitation=BidImitationSettings(1, 64, 4, num_envs=4, num_games=2),
        )
        market = {"name": "fifo", "options": {}}
        return EvolutionTrainer(setup, length, market, tmp_path / folder, Quiet(), make_teacher=teacher)

    state = trainer("whole", 2).run()
    figures = state.imitation["task 0"]
    assert figures["policy_jct"] > 0
    assert figures["market_jct"] > 0
    assert state.validation["0"]["task 0"][0] == pytest.approx(1 - figures["policy_jct"] / figures["market_jct"])
    first = trainer("parts", 0)
    assert first.run().imitation == state.imitation
    assert first.setup.start is not None
    begun = BiddingCheckpoint.load(tmp_path / "parts" / "checkpoints" / "last").network.state_dict()
    assert begun["out.weight"].any()
    assert all(torch.equal(begun[name], value) for name, value in first.setup.start.items())
    resumed = trainer("parts", 2)
    assert resumed.run().validation == state.validation
    assert resumed.setup.start is None
    assert resumed.state.imitation == state.imitation
