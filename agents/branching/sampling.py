"""Whole episodes played by a bidding policy; some rounds are branched, to see what other bids would be worth."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from agents.branching.exploration import Exploration, arms_around, explore
from agents.branching.settings import BranchSettings
from agents.branching.tail import TailValue, backlog_tensors
from agents.evolution.playing import Game, Score, Table, bids_of
from agents.networks.bidding import BidNetwork
from agents.rllib.discount import discounted_rewards
from agents.rllib.evolution import BiddingTask
from envs.bidding import BiddingBatch, BidObservation
from envs.episodes.backlog import Backlog, observe_backlog
from envs.episodes.branches import Branches, Stretch
from envs.episodes.candidates import Features
from envs.simulation.market import Changes
from envs.types import BoolArray, FloatArray, IntArray, Seconds

NOISE = 1  # beside a game's seed, for the seed of what is branched and explored


class BranchedRounds(NamedTuple):
    """What was learnt from the branched rounds of one game, D of them.

    Attributes:
        observation: by name, with a leading axis of D.
        means: float32[D, num_nodes, num_pairs, num_bids], the policy's bids.
        noise: `Exploration` with a leading axis of D.
        gains: float64[D, num_arms], discounted job-seconds that an arm saves against the policy's own bids.
        same: bool[D, num_arms], whether the market decided the same.
        backlog: `Backlog` at the cut of the baseline and further on, with leading axes D and `tail_segments`.
        tails: float64[D, tail_segments], what was left to pay there, in discounted job-seconds.
        score: of the game.
    """

    observation: BidObservation
    means: Features
    noise: Exploration
    gains: FloatArray
    same: BoolArray
    backlog: Backlog
    tails: FloatArray
    score: Score


def stack_rounds(rounds: Sequence[dict[str, Any]], score: Score) -> BranchedRounds | None:
    """Join the branched rounds of one game, each a dictionary with the other fields; None if there are none."""
    if not rounds:
        return None

    def stack(name: str) -> Any:
        parts = [each[name] for each in rounds]
        if isinstance(parts[0], dict):
            return {key: np.stack([part[key] for part in parts]) for key in parts[0]}
        if isinstance(parts[0], tuple):  # a named one
            return type(parts[0])(*(np.stack(column) for column in zip(*parts, strict=True)))
        return np.stack(parts)

    joined: dict[str, Any] = {name: stack(name) for name in rounds[0]}
    return BranchedRounds(**joined, score=score)


class BranchSampler:
    """Plays games of one task and branches their rounds.

    Args:
        task: world, workloads and market.
        settings: see its class.
    """

    def __init__(self, task: BiddingTask, settings: BranchSettings) -> None:
        self.settings, self.batch = settings, task.batch(settings.num_envs)
        self._size = 1 + settings.num_arms  # branches of a round; the first one is the baseline
        self.branches = Branches(self.batch, settings.num_envs * self._size, task.market)

    @torch.inference_mode()
    def play(self, network: BidNetwork, tail: TailValue, games: Sequence[Game]) -> list[BranchedRounds | None]:
        """Play games with the policy's means, to their ends; what is returned depends on each game alone.

        Args:
            network: states the bids.
            tail: value of what is left when branches are cut.
            games: see `agents.evolution.playing.play`.

        Returns:
            For each game its branched rounds, None if there are none.
        """
        batch, table = self.batch, Table(self.batch, games)
        rngs = [np.random.default_rng([game.seed, NOISE]) for game in games]
        found: list[list[dict[str, Any]]] = [[] for _ in games]
        while table.playing.size:
            while not batch.ended[table.playing].any():
                playing, numbers = table.playing, table.numbers
                means = bids_of(network, batch, playing)
                shown = (batch.auction.arrays.pair_jobs[playing] >= 0).any(axis=(1, 2))
                drawn = np.array([rngs[i].random() < self.settings.branch_share for i in numbers]) & shown
                if drawn.any():
                    rounds = self._branch(means, playing[drawn], [rngs[i] for i in numbers[drawn]], tail)
                    for i, each in zip(numbers[drawn].tolist(), rounds, strict=True):
                        found[i].append(each)
                batch.step(means)
            table.replace_ended()
        return [stack_rounds(rounds, score) for rounds, score in zip(found, table.scores, strict=True)]

    def _branch(
        self, means: Features, episodes: IntArray, rngs: Sequence[np.random.Generator], tail: TailValue
    ) -> list[dict[str, Any]]:
        """Branch the present rounds of some episodes; return the fields of `BranchedRounds` for each."""
        settings, batch = self.settings, self.batch
        observation = {name: array[episodes].copy() for name, array in batch.observation.items()}
        pair_jobs: npt.NDArray[np.int32] = observation["pair_jobs"]  # type: ignore[assignment]
        shape = batch.spec.num_job_rows, settings.num_arms, means.shape[-1]
        noises = [
            explore(each, *shape, settings.explored_share, rng) for each, rng in zip(pair_jobs, rngs, strict=True)
        ]
        arms = np.stack(
            [
                arms_around(means[b], noise, each, settings.sigma)
                for b, noise, each in zip(episodes.tolist(), noises, pair_jobs, strict=True)
            ]
        )
        places = episodes[:, None] * self._size + np.arange(self._size)
        same = self._plan(np.concatenate([means[episodes][:, None], arms], axis=1), episodes, places)
        began = batch.time[episodes]
        gains = self._gains(places, same, began, tail)
        backlogs, tails = self._follow(places[:, 0], began + settings.horizon, tail)
        return [
            {
                "observation": {name: array[e] for name, array in observation.items()},
                "means": means[b],
                "noise": noises[e],
                "gains": gains[e],
                "same": same[e],
                "backlog": Backlog(*(part[e] for part in backlogs)),
                "tails": tails[e],
            }
            for e, b in enumerate(episodes.tolist())
        ]

    def _plan(self, bids: Features, episodes: IntArray, places: IntArray) -> BoolArray:
        """Let the market clear bids float32[n, 1 + num_arms, ...] into the plans of branches.

        Returns:
            bool[n, num_arms], arms on which the market decides as on the first bids; they get no branch.
        """
        batch = self.batch
        whole = np.zeros((*batch.auction.action_shape[:3], bids.shape[-1]), np.float32)
        same = np.zeros(places.shape, np.bool_)
        base: Changes | None = None
        for k in range(self._size):
            whole[episodes] = bids[:, k]
            with alone_in_round(batch, episodes):
                changes = batch.auction.clear(whole)
            if base is None:
                base = copy_changes(changes)
            else:
                same[:, k] = [equal_changes(base, changes, b) for b in episodes.tolist()]
            new = ~same[:, k]
            self.branches.copy(places[new, k], episodes[new])
            self.branches.plan(places[new, k], changes, episodes[new])
        return same[:, 1:]

    def _gains(self, places: IntArray, same: BoolArray, began: FloatArray, tail: TailValue) -> FloatArray:
        """Play the branches up to their cut; return float64[n, num_arms]."""
        played = np.concatenate([np.ones((len(places), 1), np.bool_), ~same], axis=1)
        start = np.broadcast_to(began[:, None], places.shape)[played]
        costs = np.zeros(places.shape)
        costs[played] = self._play(places[played], start)
        costs[played] += self._factor * self._values(places[played], tail)[0]
        return np.where(same, 0.0, costs[:, :1] - costs[:, 1:])

    def _follow(self, places: IntArray, cut: FloatArray, tail: TailValue) -> tuple[Backlog, FloatArray]:
        """Play baselines on from their cut; return what there was to see, and to pay from there on."""
        seen, costs = [], []
        for i in range(self.settings.tail_segments):
            seen.append(self._values(places, tail)[1])
            costs.append(self._play(places, cut + i * self.settings.horizon))
        values = self._values(places, tail)[0]
        tails = []
        for cost in reversed(costs):
            values = cost + self._factor * values
            tails.append(values)
        stacked = Backlog(*(np.stack(parts, axis=1) for parts in zip(*seen, strict=True)))
        return stacked, np.stack(tails[::-1], axis=1)

    def _play(self, places: IntArray, start: FloatArray) -> FloatArray:
        """Play branches for a horizon from `start`, float64[n]; return their job-seconds, discounted to it."""
        constant = self.settings.discount_time
        idle = start - self.branches.state.episode["time"][places, 0]  # time stops in a branch without jobs
        stretch = self.branches.play(places, start + self.settings.horizon)
        cost: FloatArray = np.exp(idle / constant) * discounted_cost(stretch, constant)[places]
        return cost

    @property
    def _factor(self) -> float:
        """The discount of a horizon."""
        return math.exp(-self.settings.horizon / self.settings.discount_time)

    def _values(self, places: IntArray, tail: TailValue) -> tuple[FloatArray, Backlog]:
        """Return the tail values of branches, 0 where nothing is left, and what they are taken from."""
        backlog = observe_backlog(self.branches.state, self.branches.table, places)
        values = tail(backlog_tensors(backlog)).numpy().astype(np.float64)
        return np.where(self.branches.finished(places), 0.0, values), backlog


@contextmanager
def alone_in_round(batch: BiddingBatch, episodes: IntArray) -> Iterator[None]:
    """Mark the other episodes as being in no round while the context lasts, so that the market ignores them."""
    flags = batch.state.episode["in_round"][:, 0]
    before = flags.copy()
    rest = np.ones(len(flags), np.bool_)
    rest[episodes] = False
    flags[rest] = 0
    yield
    flags[:] = before


def copy_changes(changes: Changes) -> Changes:
    """Return a copy of a market's answer, which its next one would overwrite."""
    parts: Any = (part.copy() for part in changes)
    return Changes(*parts)


def equal_changes(one: Changes, other: Changes, b: int) -> bool:
    """Whether two answers of a market are the same for an episode."""
    stopped, rows = int(one.num_stopped[b]), int(one.num_rows[b])
    if (stopped, rows) != (other.num_stopped[b], other.num_rows[b]) or one.next_decision[b] != other.next_decision[b]:
        return False
    return bool(
        np.array_equal(one.stopped[b, :stopped], other.stopped[b, :stopped])
        and one.rows[b, :rows].tobytes() == other.rows[b, :rows].tobytes()
    )


def discounted_cost(stretch: Stretch, time_constant: Seconds) -> FloatArray:
    """float64[num_branches]: job-seconds of a stretch, discounted to its beginning."""
    if not len(stretch.seconds):
        return np.zeros(stretch.seconds.shape[1])
    before = np.cumsum(stretch.seconds, axis=0) - stretch.seconds
    worth = discounted_rewards(stretch.job_seconds, stretch.seconds, time_constant)
    cost: FloatArray = (np.exp(-before / time_constant) * worth).sum(axis=0)
    return cost
