"""Whole episodes played by variants of one network, many at a time."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from agents.networks.bidding import BidNetwork
from envs.bidding import BiddingBatch
from envs.episodes import EpisodeBatch
from envs.simulation.world.state import Status
from envs.types import FloatArray, IntArray
from envs.workloads import Workload


class NetworkVariants(Protocol):
    """NetworkVariants of one network, such as those of evolution strategies."""

    def applied(self, variants: torch.Tensor) -> AbstractContextManager[None]:
        """Compute each world under its own variant, int64[num_worlds], inside the context."""
        ...


class Game(NamedTuple):
    """One episode to play.

    Attributes:
        variant: the variant of the network that plays, see `NetworkVariants`; ignored without any.
        workload: the jobs.
        seed: seed of outages and of noisy estimates.
    """

    variant: int
    workload: Workload
    seed: int


class Score(NamedTuple):
    """The outcome of an episode.

    Attributes:
        mean_jct: of the measured jobs, in s; jobs that did not finish count until the end of the episode.
        makespan: end of the episode, in s.
        unfinished: jobs that did not finish, measured or not.
        reward: sum of the rewards of the episode.
        steps: rounds in which nodes bid.
    """

    mean_jct: float
    makespan: float
    unfinished: int
    reward: float = 0.0
    steps: int = 0


@torch.inference_mode()
def play(
    network: BidNetwork,
    batch: BiddingBatch,
    games: Sequence[Game],
    perturbations: NetworkVariants | None = None,
) -> list[Score]:
    """Play all games on the episodes of a batch; an episode that ends makes room for the next game.

    Args:
        network: states the bids.
        batch: plays `batch.batch_size` games at a time; what it played before is forgotten.
        games: in order of beginning.
        perturbations: of the network, if the games name variants.

    Returns:
        The scores in the order of `games`.
    """
    table = Table(batch, games)
    while table.playing.size:
        variants = torch.from_numpy(table.variants)
        with nullcontext() if perturbations is None else perturbations.applied(variants):
            while not batch.ended[table.playing].any():
                table.pay(batch.step(bids_of(network, batch, table.playing))[0])
        table.replace_ended()
    return table.scores


def bids_of(network: BidNetwork, batch: BiddingBatch, playing: IntArray) -> npt.NDArray[np.float32]:
    """Return the bids of a whole batch; 0 in the episodes that are not among `playing`."""
    whole = len(playing) == batch.batch_size
    observation = {
        name: torch.from_numpy(array if whole else array[playing]) for name, array in batch.observation.items()
    }
    found = network.bids(observation).numpy()
    if whole:
        return found
    bids = np.zeros((batch.batch_size, *found.shape[1:]), np.float32)
    bids[playing] = found
    return bids


class Table:
    """Which game is played at which index of a batch.

    Attributes:
        playing: int64[n], indices with a game, ascending.
        scores: of the games that have ended, by their place in `games`.
    """

    def __init__(self, batch: EpisodeBatch, games: Sequence[Game]) -> None:
        self._batch, self._games = batch, games
        self._game_at = np.full(batch.batch_size, -1)
        self._next = 0
        self._scores: dict[int, Score] = {}
        self._paid, self._steps = np.zeros(batch.batch_size), np.zeros(batch.batch_size, np.int64)
        for b in range(batch.batch_size):
            self._begin(b)

    @property
    def playing(self) -> IntArray:
        """int64[n]: indices of the batch with a game, ascending."""
        return np.flatnonzero(self._game_at >= 0)

    @property
    def numbers(self) -> IntArray:
        """int64[n]: the place in `games` of the game at each of these indices."""
        found: IntArray = self._game_at[self.playing]
        return found

    @property
    def variants(self) -> IntArray:
        """int64[n]: the variants that play at these indices."""
        return np.array([self._games[i].variant for i in self._game_at[self.playing]], np.int64)

    @property
    def scores(self) -> list[Score]:
        """The scores of all games in order; only when all have ended."""
        return [self._scores[i] for i in range(len(self._games))]

    def pay(self, rewards: FloatArray) -> None:
        """Add the rewards of a step, float64[B]."""
        self._paid += rewards
        self._steps += 1

    def replace_ended(self) -> None:
        """Score the games that have ended and begin others in their place, while there are any."""
        for b in self.playing[self._batch.ended[self.playing]].tolist():
            score = score_of(self._batch, b)
            score = score._replace(reward=float(self._paid[b]), steps=int(self._steps[b]))
            self._scores[int(self._game_at[b])] = score
            self._begin(b)

    def _begin(self, b: int) -> None:
        if self._next == len(self._games):
            self._game_at[b] = -1
            if self._batch.workloads[b] is None:  # every episode of a batch must have begun
                self._batch.load(b, self._games[0].workload, np.random.default_rng(self._games[0].seed))
            self._batch.stop(b)
            return
        self._paid[b] = self._steps[b] = 0
        game = self._games[self._next]
        self._batch.load(b, game.workload, np.random.default_rng(game.seed))
        self._game_at[b] = self._next
        self._next += 1


def score_of(batch: EpisodeBatch, b: int) -> Score:
    """Return the score of an episode that has ended."""
    workload = batch.workloads[b]
    assert workload is not None
    jobs, end = batch.state.jobs[b, : len(workload)], float(batch.time[b])
    done = jobs["status"] == Status.DONE
    stayed = np.where(done, jobs["finish"], end) - jobs["submit"]
    return Score(float(stayed[workload.measured].mean()), end, int((~done).sum()))
