"""Whole episodes played by a bidding policy; in some rounds an expert is asked, and its choice judged."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from agents.bid_imitation.targets import Grid, find_bids, gpus_allocated, gpus_cleared, grid_held
from agents.bid_imitation.worth import FutureJudge
from agents.bidding.scheduler import BiddingScheduler
from agents.branching.sampling import alone_in_round, copy_changes, equal_changes
from agents.evolution.playing import Game, Score, Table, bids_of
from agents.expert_iteration.settings import ExpertSettings
from agents.networks.bidding import BidNetwork
from agents.rllib.evolution import BiddingTask
from envs.bidding import BidObservation
from envs.episodes.candidates import Features
from envs.scheduling import Scheduler
from envs.simulation.market import BidArrays, no_bids
from envs.types import BoolArray, FloatArray

ASKED, JUDGED = 2, 3  # beside a game's seed, for the seeds of which rounds are asked about, and of futures


class AskedRounds(NamedTuple):
    """What was learnt in the rounds of one game in which the expert was asked, D of them.

    Attributes:
        observation: by name, with a leading axis of D.
        own: float32[D, num_nodes, num_pairs, num_bids], the policy's bids.
        bids: the same shape, on which the market decides as the expert, as nearly as was found; `own` where that is
            what the policy's bids lead to already.
        gains: float64[D, futures], job-seconds that the market's answer to `bids` saves against that to `own`, in
            futures that the expert has not seen; 0 where both answers are the same.
        differs: bool[D], whether the expert's allocation is another one than the policy's.
        found: bool[D], whether the market decides on `bids` exactly as the expert.
        score: of the game.
    """

    observation: BidObservation
    own: Features
    bids: Features
    gains: FloatArray
    differs: BoolArray
    found: BoolArray
    score: Score


class Asked(NamedTuple):
    """One round of one game; see `AskedRounds`."""

    observation: BidObservation
    own: Features
    bids: Features
    gains: FloatArray
    differs: bool
    found: bool


class ExpertSampler:
    """Plays games of one task as the policy is evaluated, and asks an expert about some of its rounds.

    The expert is a planner that the policy leads: it searches from the policy's own allocation. A search takes the best
    of many, so its choice looks better where it was chosen than it is; other futures judge it, in which the market goes
    on under the policy's bids of this round.

    Args:
        task: world, workloads and market.
        settings: see its class.
    """

    def __init__(self, task: BiddingTask, settings: ExpertSettings) -> None:
        self.task, self.settings = task, settings
        self.batch = task.batch(settings.num_envs)
        self.batch.auction.last_bids = no_bids(self.batch.state)
        self._judge = FutureJudge(self.batch, task.source, settings.futures, settings.horizon, 0)

    @torch.inference_mode()
    def play(self, network: BidNetwork, games: Sequence[Game]) -> list[AskedRounds | None]:
        """Play games to their ends; what is returned depends on each game alone.

        Returns:
            What was learnt from each game, None where no round was asked about.
        """
        batch, table = self.batch, Table(self.batch, games)
        rngs = [np.random.default_rng([game.seed, ASKED]) for game in games]
        experts: list[Scheduler | None] = [None for _ in games]
        rounds: list[list[Asked]] = [[] for _ in games]
        while table.playing.size:
            while not batch.ended[table.playing].any():
                own = bids_of(network, batch, table.playing)
                for b, i in zip(table.playing.tolist(), table.numbers.tolist(), strict=True):
                    if rngs[i].random() >= self.settings.asked_share or not self._shown(b):
                        continue
                    expert = experts[i] or self._expert(network, games[i])
                    experts[i] = expert
                    judging = np.random.default_rng([games[i].seed, JUDGED, len(rounds[i])])
                    rounds[i].append(self._ask(expert, b, own, judging))
                batch.step(own)
            table.replace_ended()
        return [stack_asked(found, score) if found else None for found, score in zip(rounds, table.scores, strict=True)]

    def _shown(self, b: int) -> bool:
        """Whether a node sees a job in this round, so that there is something to bid on."""
        return bool((self.batch.auction.arrays.pair_jobs[b] >= 0).any())

    def _expert(self, network: BidNetwork, game: Game) -> Scheduler:
        """Make an expert for one game."""
        leader = BiddingScheduler(network, self.task.market, self.task.rules, keep_bids=True)
        expert = self.settings.expert(leader)
        expert.reset(self.batch.cluster, np.random.default_rng(game.seed))
        return expert

    def _ask(self, expert: Scheduler, b: int, own: Features, rng: np.random.Generator) -> Asked:
        """Ask about the present round of one episode, which has been observed."""
        batch, episodes, even = self.batch, np.array([b]), np.zeros(self.settings.futures)
        view = batch.view(b)
        held = grid_held(view)
        taught = gpus_allocated(held, expert.schedule(view))
        observation = {name: array[b].copy() for name, array in batch.observation.items()}
        with alone_in_round(batch, episodes):
            changes = copy_changes(batch.auction.clear(own))
            assert batch.auction.last_bids is not None
            said = BidArrays(*(array.copy() for array in batch.auction.last_bids))
            differs = not np.array_equal(gpus_cleared(held, changes, b), taught)
            if not differs:
                return Asked(observation, own[b].copy(), own[b].copy(), even, False, True)
            nothing: Grid = np.zeros((0, held.shape[1]), np.int64)
            grids = [(held, taught) if i == b else (nothing, nothing) for i in range(batch.batch_size)]
            bids = find_bids(
                batch.auction, [each[0] for each in grids], [each[1] for each in grids], self.settings.corrections, own
            )
            answer = copy_changes(batch.auction.clear(bids))
        found = bool(np.array_equal(gpus_cleared(held, answer, b), taught))
        gains = even if equal_changes(changes, answer, b) else self._judge.gains(b, changes, answer, rng, said)
        return Asked(observation, own[b].copy(), bids[b].copy(), gains, True, found)


def stack_asked(rounds: Sequence[Asked], score: Score) -> AskedRounds:
    """Join the rounds of one game."""
    return AskedRounds(
        {name: np.stack([each.observation[name] for each in rounds]) for name in rounds[0].observation},
        np.stack([each.own for each in rounds]),
        np.stack([each.bids for each in rounds]),
        np.stack([each.gains for each in rounds]),
        np.array([each.differs for each in rounds]),
        np.array([each.found for each in rounds]),
        score,
    )
