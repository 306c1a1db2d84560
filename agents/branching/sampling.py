"""Whole episodes played by a bidding policy; some rounds are branched, to see what other bids would be worth."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.branching.exploration import Exploration, arms_around, explore
from agents.branching.playing import BranchedPlay
from agents.branching.settings import BranchSettings
from agents.branching.tail import TailValue
from agents.evolution.playing import Score, bids_of
from agents.networks.bidding import BidNetwork
from agents.rllib.evolution import BiddingTask
from envs.bidding import BiddingBatch, BidObservation
from envs.episodes.backlog import Backlog
from envs.episodes.branches import Branches
from envs.episodes.candidates import Features
from envs.simulation.market import Changes, no_bids
from envs.types import BoolArray, FloatArray, IntArray


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

    def lesson(self) -> dict[str, Any]:
        """Return observation, means and noise."""
        return {"observation": self.observation, "means": self.means, "noise": self.noise._asdict()}


class BranchSampler(BranchedPlay):
    """Plays games of one task and branches their rounds; an arm is Gaussian noise around the policy's bids.

    Args:
        task: world, workloads and market.
        settings: see its class.
    """

    def __init__(self, task: BiddingTask, settings: BranchSettings) -> None:
        self.batch = task.batch(settings.num_envs)
        branches = Branches(self.batch, settings.num_envs * (1 + settings.num_arms), task.market)
        super().__init__(self.batch, branches, settings)
        if settings.hold_bids:
            self.batch.auction.last_bids = no_bids(self.batch.state)

    def _decide(self, network: BidNetwork, playing: IntArray) -> tuple[Features, BoolArray]:
        means = bids_of(network, self.batch, playing)
        shown: BoolArray = (self.batch.auction.arrays.pair_jobs[playing] >= 0).max(axis=(1, 2))
        return means, shown

    def _step(self, decisions: Features, playing: IntArray) -> None:
        self.batch.step(decisions)

    def _learnt(self, rounds: dict[str, Any], score: Score) -> BranchedRounds:
        return BranchedRounds(**rounds, score=score)

    def _branch(
        self, decisions: Features, episodes: IntArray, rngs: Sequence[np.random.Generator], tail: TailValue
    ) -> list[dict[str, Any]]:
        settings, batch, means = self.settings, self.batch, decisions
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
        places = self._places(episodes)
        same = self._plan(np.concatenate([means[episodes][:, None], arms], axis=1), episodes, places)
        prices = self._price(places, same, tail)
        return [
            {
                "observation": {name: array[e] for name, array in observation.items()},
                "means": means[b],
                "noise": noises[e],
                "same": same[e],
                **prices.of_round(e),
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
            if batch.auction.last_bids is not None:
                self.branches.hold(places[new, k], batch.auction.last_bids, episodes[new])
        return same[:, 1:]


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
