"""Whole episodes of which some rounds are branched, to see what other decisions would be worth there."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from agents.branching.settings import BranchSettings
from agents.branching.tail import TailValue, backlog_tensors
from agents.evolution.playing import Game, Score, Table
from agents.rllib.discount import discounted_rewards
from envs.episodes import EpisodeBatch
from envs.episodes.backlog import Backlog, observe_backlog
from envs.episodes.branches import Branches, Stretch
from envs.types import BoolArray, FloatArray, IntArray, Seconds

NOISE = 1  # beside a game's seed, for the seed of what is branched and explored


class Branched(Protocol):
    """The D branched rounds of one game, to learn from."""

    @property
    def gains(self) -> FloatArray:
        """float64[D, num_arms], discounted job-seconds that an arm saves against the policy's own decision."""
        ...

    @property
    def same(self) -> BoolArray:
        """bool[D, num_arms], whether an arm decides the same."""
        ...

    @property
    def backlog(self) -> Backlog:
        """`Backlog` at the cut of the baseline and further on, with leading axes D and `tail_segments`."""
        ...

    @property
    def tails(self) -> FloatArray:
        """float64[D, tail_segments], what was left to pay there, in discounted job-seconds."""
        ...

    @property
    def score(self) -> Score:
        """Of the game."""
        ...

    def lesson(self) -> dict[str, Any]:
        """Return what the policy's loss needs besides advantages: arrays, or dictionaries of them, over the rounds."""
        ...


class Prices(NamedTuple):
    """The gains of arms in some rounds, and the targets of the tail value from their baselines; see `Branched`."""

    gains: FloatArray
    backlog: Backlog
    tails: FloatArray

    def of_round(self, i: int) -> dict[str, Any]:
        """Return the part of one round, by name."""
        return {"gains": self.gains[i], "backlog": Backlog(*(part[i] for part in self.backlog)), "tails": self.tails[i]}


class BranchedPlay(ABC):
    """Plays games of one task and branches their rounds.

    Args:
        batch: plays `settings.num_envs` games at a time.
        branches: of the batch, for `num_envs * (1 + num_arms)` of them.
        settings: see its class.
    """

    def __init__(self, batch: EpisodeBatch, branches: Branches, settings: BranchSettings) -> None:
        self._games, self.branches, self.settings = batch, branches, settings
        self._size = 1 + settings.num_arms  # branches of a round; the first one is the baseline

    @abstractmethod
    def _decide(self, network: Any, playing: IntArray) -> tuple[Any, BoolArray]:
        """Return what the policy decides in these episodes, and for each whether there is something to decide."""

    @abstractmethod
    def _branch(
        self, decisions: Any, episodes: IntArray, rngs: Sequence[np.random.Generator], tail: TailValue
    ) -> list[dict[str, Any]]:
        """Branch the present rounds of some episodes; return the fields of what is learnt for each, but the score."""

    @abstractmethod
    def _step(self, decisions: Any, playing: IntArray) -> None:
        """Apply the policy's decisions, and advance to the next rounds."""

    @abstractmethod
    def _learnt(self, rounds: dict[str, Any], score: Score) -> Branched:
        """Return what was learnt from the rounds of a game, whose fields have been joined."""

    @torch.inference_mode()
    def play(self, network: Any, tail: TailValue, games: Sequence[Game]) -> list[Any]:
        """Play games as the policy is evaluated, to their ends; what is returned depends on each game alone.

        Args:
            network: the policy.
            tail: value of what is left when branches are cut.
            games: see `agents.evolution.playing.play`.

        Returns:
            What was learnt from each game (`Branched`), None where no round was branched.
        """
        table = Table(self._games, games)
        rngs = [np.random.default_rng([game.seed, NOISE]) for game in games]
        found: list[list[dict[str, Any]]] = [[] for _ in games]
        while table.playing.size:
            while not self._games.ended[table.playing].any():
                playing, numbers = table.playing, table.numbers
                decisions, matters = self._decide(network, playing)
                drawn = np.array([rngs[i].random() < self.settings.branch_share for i in numbers]) & matters
                if drawn.any():
                    rounds = self._branch(decisions, playing[drawn], [rngs[i] for i in numbers[drawn]], tail)
                    for i, each in zip(numbers[drawn].tolist(), rounds, strict=True):
                        found[i].append(each)
                self._step(decisions, playing)
            table.replace_ended()
        return [
            self._learnt(stack_rounds(rounds), score) if rounds else None
            for rounds, score in zip(found, table.scores, strict=True)
        ]

    def _places(self, episodes: IntArray) -> IntArray:
        """int64[n, 1 + num_arms]: the branches of episodes, the baseline's first."""
        places: IntArray = episodes[:, None] * self._size + np.arange(self._size)
        return places

    def _price(self, places: IntArray, same: BoolArray, tail: TailValue) -> Prices:
        """Play the branches of rounds up to their cut, and the baselines further.

        Args:
            places: int64[n, 1 + num_arms], planned branches.
            same: bool[n, num_arms], arms that decide as the baseline; they have no branch.
            tail: value of what is left at the cut.
        """
        began = self.branches.state.episode["time"][places[:, 0], 0]
        gains = self._gains(places, same, began, tail)
        return Prices(gains, *self._follow(places[:, 0], began + self.settings.horizon, tail))

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


def stack_rounds(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the branched rounds of one game, each a dictionary with the same names, along a new leading axis."""

    def stack(name: str) -> Any:
        parts = [each[name] for each in rounds]
        if isinstance(parts[0], dict):
            return {key: np.stack([part[key] for part in parts]) for key in parts[0]}
        if isinstance(parts[0], tuple):  # a named one
            return type(parts[0])(*(np.stack(column) for column in zip(*parts, strict=True)))
        return np.stack(parts)

    return {name: stack(name) for name in rounds[0]}


def discounted_cost(stretch: Stretch, time_constant: Seconds) -> FloatArray:
    """float64[num_branches]: job-seconds of a stretch, discounted to its beginning."""
    if not len(stretch.seconds):
        return np.zeros(stretch.seconds.shape[1])
    before = np.cumsum(stretch.seconds, axis=0) - stretch.seconds
    worth = discounted_rewards(stretch.job_seconds, stretch.seconds, time_constant)
    cost: FloatArray = (np.exp(-before / time_constant) * worth).sum(axis=0)
    return cost
