"""Regression of bids: a policy learns the bids that were found for a teacher, on rounds that both lead to."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from agents.bid_imitation.lesson import Lesson
from agents.bid_imitation.settings import BidImitationSettings
from agents.bid_imitation.worth import FutureJudge
from agents.bidding.scheduler import bids_on
from agents.evolution.playing import Game
from agents.rllib.evolution import BiddingTask
from agents.seeding import Phase, derive_seed
from envs.bidding.columns import PAIR_PRESENT
from envs.scheduling import Scheduler
from envs.types import MurmurationError

BIDS, WEIGHTS = "bids", "weights"  # the keys of the bids found and of how much a round counts, beside the observation's
TaughtRounds = dict[str, Tensor]  # one round of every episode of a batch: the observation, the bids found, the weights
BidProgress = Callable[[int, int, dict[str, float]], None]  # minibatches and chunks done, their total, figures


def imitate_bids(
    network: nn.Module,
    tasks: Sequence[BiddingTask],
    make_teacher: Callable[[], Scheduler],
    settings: BidImitationSettings,
    seed: int,
    progress: BidProgress,
) -> dict[str, float]:
    """Train a network to state the bids on which the tasks' markets decide as a teacher does.

    Args:
        network: a `BidNetwork`, changed in place.
        tasks: rounds are collected from all of them.
        make_teacher: makes a scheduler.
        settings: see its class.
        seed: seed of the run.
        progress: called after every step of work.

    Returns:
        `loss`, the last epoch's mean Huber loss.

    Raises:
        MurmurationError: the loss is not finite.
    """
    rng = np.random.default_rng(derive_seed(seed, Phase.IMITATION))
    optimizer = torch.optim.Adam([each for each in network.parameters() if each.requires_grad], lr=settings.lr)
    lessons = [
        make_lesson(task, make_teacher, settings, derive_seed(seed, Phase.IMITATION, 1 + i))
        for i, task in enumerate(tasks)
    ]
    chunks = -(-settings.rounds // (settings.num_envs * len(tasks)))  # of each task in each pass
    total = len(tasks) * chunks * (settings.passes + settings.epochs * settings.passes * (settings.passes + 1) // 2)
    data: list[TaughtRounds] = []
    done, figures = 0, {"loss": math.nan}
    for number in range(settings.passes):
        for lesson in lessons:
            for rounds in collect(lesson, network, settings.student_share if number else 0.0, chunks, rng):
                data.append(rounds)
                done += 1
                progress(done, total, figures)
        for _ in range(settings.epochs):
            figures = {"loss": fit_bids(network, optimizer, data, settings.huber, rng)}
            done += len(data)
            progress(done, total, figures)
    return figures


def make_lesson(
    task: BiddingTask, make_teacher: Callable[[], Scheduler], settings: BidImitationSettings, seed: int
) -> Lesson:
    """Return a lesson on training episodes, with a judge of the teacher's choices if the settings want one."""
    batch = task.batch(settings.num_envs)
    judge = None
    if settings.futures:
        judge = FutureJudge(batch, task.source, settings.futures, settings.horizon, derive_seed(seed, Phase.AUDIT))
    return Lesson(batch, make_teacher, training_games(task, seed), settings.corrections, judge)


def training_games(task: BiddingTask, seed: int) -> Iterator[Game]:
    """Yield training episodes without end."""
    for i in itertools.count():
        own = derive_seed(seed, Phase.IMITATION, i)
        yield Game(0, task.source.episode(np.random.default_rng(own), "train"), own)


def collect(
    lesson: Lesson, network: nn.Module, student_share: float, chunks: int, rng: np.random.Generator
) -> Iterator[TaughtRounds]:
    """Yield so many rounds of all episodes of a lesson; the policy's bids are played in a share of them."""
    network.eval()
    for _ in range(chunks):
        taught = lesson.ask()
        bids, observation = taught.bids, lesson.batch.observation
        targets = {BIDS: torch.from_numpy(bids), WEIGHTS: torch.from_numpy(taught.weights)}
        yield {**targets, **{name: torch.tensor(array) for name, array in observation.items()}}
        played = bids
        if student_share > 0:
            own = rng.random(len(bids)) < student_share
            said = bids_on(network, observation)[..., : bids.shape[-1]]  # type: ignore[arg-type]
            played = np.where(own[:, None, None, None], said, bids)
        lesson.play(played)


def fit_bids(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Sequence[TaughtRounds],
    huber: float,
    rng: np.random.Generator,
) -> float:
    """Train for one pass over all rounds in random order; return the mean loss over the pairs that hold a job.

    Raises:
        MurmurationError: the loss is not finite.
    """
    network.train()
    losses = []
    for i in rng.permutation(len(data)).tolist():
        observation = {name: tensor for name, tensor in data[i].items() if name not in (BIDS, WEIGHTS)}
        said: Tensor = network.bids(observation)  # type: ignore[operator]
        target = data[i][BIDS]  # without the batch size, where the task fixes it
        wrong = nn.functional.huber_loss(said[..., : target.shape[-1]], target, reduction="none", delta=huber)
        present = observation["pairs"][..., PAIR_PRESENT, None]
        weight = data[i][WEIGHTS][:, None, None, None]
        loss = (wrong * present * weight).sum() / (present.sum().clamp(min=1.0) * wrong.shape[-1])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    if not math.isfinite(sum(losses)):
        raise MurmurationError("imitation: the loss is not finite; training has diverged, lower imitation.lr")
    network.eval()
    return float(np.mean(losses))
