"""Episodes in which a teacher says in every round what it would do."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from agents.bid_imitation.targets import Grid, find_bids, gpus_allocated, grid_held
from agents.bid_imitation.worth import FutureJudge
from agents.evolution.playing import Game
from envs.bidding import BiddingBatch
from envs.episodes.candidates import Features
from envs.scheduling import Scheduler
from envs.types import FloatArray


class Taught(NamedTuple):
    """One round of every episode of a batch.

    Attributes:
        held: of each episode, the GPUs of each job on each node before the round.
        taught: the same under the teacher's allocation.
        bids: float32[B, num_nodes, num_pairs, num_bids], on which the market decides like the teacher, see `find_bids`.
        weights: float32[B], how much each round counts.
        gains: float64[B], what a judge says that the teacher's choices gain, in job-seconds; NaN without a judge.
    """

    held: list[Grid]
    taught: list[Grid]
    bids: Features
    weights: Features
    gains: FloatArray


class Lesson:
    """Plays games on a batch, each with a teacher of its own; an episode that ends makes room for the next game.

    Args:
        batch: plays `batch.batch_size` games at a time.
        make_teacher: makes a scheduler.
        games: at least as many as the batch has episodes.
        corrections: see `find_bids`.
        judge: says what the teacher's choices are worth; None to learn all alike.
    """

    def __init__(
        self,
        batch: BiddingBatch,
        make_teacher: Callable[[], Scheduler],
        games: Iterator[Game],
        corrections: int,
        judge: FutureJudge | None = None,
    ) -> None:
        self.batch, self._games, self._corrections, self._judge = batch, games, corrections, judge
        self._teachers = [make_teacher() for _ in range(batch.batch_size)]
        for b in range(batch.batch_size):
            self._begin(b, next(games))

    def _begin(self, b: int, game: Game) -> None:
        rng = np.random.default_rng(game.seed)
        self._teachers[b].reset(self.batch.cluster, rng)
        self.batch.load(b, game.workload, rng)

    def ask(self) -> Taught:
        """Ask the teachers about the present round, and find bids for what they say."""
        views = [self.batch.view(b) for b in range(self.batch.batch_size)]
        held = [grid_held(view) for view in views]
        answers = [teacher.schedule(view) for teacher, view in zip(self._teachers, views, strict=True)]
        taught = [gpus_allocated(*each) for each in zip(held, answers, strict=True)]
        _ = self.batch.observation  # the auction must have observed the round
        bids = find_bids(self.batch.auction, held, taught, self._corrections)
        if self._judge is not None:
            return Taught(held, taught, *self._judge.judge(bids))
        return Taught(held, taught, bids, np.ones(len(bids), np.float32), np.full(len(bids), np.nan))

    def play(self, bids: Features) -> bool:
        """Play one round on these bids; return False when an episode ended and no game was left for its place."""
        self.batch.step(bids)
        for b in np.flatnonzero(self.batch.ended).tolist():
            game = next(self._games, None)
            if game is None:
                return False
            self._begin(b, game)
        return True
