"""Algorithms whose pieces are whole training games, from which rounds are learnt; see `agents.rllib.pieces`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from agents.evolution import Game
from agents.rllib.pieces import PieceConfig, PieceRunner
from agents.seeding import Phase, derive_seed
from envs.workloads import WorkloadSource


class GameSetup(ABC):
    """The part of `agents.rllib.pieces.PieceSetup` that does not depend on what is learnt: pieces are games.

    Attributes:
        settings: parameters of the method; they have `num_games` and `num_env_runners`.
        seed: seed of the run.
    """

    settings: Any
    seed: int

    @property
    @abstractmethod
    def sources(self) -> Sequence[WorkloadSource]:
        """Workloads of the tasks, from which games are drawn in turn."""

    @abstractmethod
    def sampler(self, index: int) -> Any:
        """Return what plays the games of a task."""

    @property
    def num_pieces(self) -> int:
        """Games of an iteration."""
        return int(self.settings.num_games)

    @property
    def num_env_runners(self) -> int:
        """Processes that play games, with Ray."""
        return int(self.settings.num_env_runners)

    def game(self, iteration: int, number: int) -> Game:
        """Draw a training game."""
        seed = derive_seed(self.seed, Phase.SAMPLING, iteration, number)
        source = self.sources[self.task_of(number)]
        return Game(0, source.episode(np.random.default_rng(seed), "train"), seed)

    def task_of(self, number: int) -> int:
        """Return the task from which a game is drawn."""
        return number % len(self.sources)


class GameRunner(PieceRunner):
    """Plays training games, those of a task together."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._network = self._setup.build()
        self._samplers: dict[int, Any] = {}

    def play_games(
        self, iteration: int, numbers: Sequence[int], play: Callable[[Any, list[Game]], list[Any]]
    ) -> dict[int, Any]:
        """Return what is learnt from games, by their numbers.

        Args:
            iteration: of the run.
            numbers: of the games.
            play: plays games of one task with its sampler.
        """
        setup, found = self._setup, dict[int, Any]()
        for index in range(len(setup.sources)):
            own = [number for number in numbers if setup.task_of(number) == index]
            if own:
                games = [setup.game(iteration, number) for number in own]
                found |= zip(own, play(self._sampler(index), games), strict=True)
        return found

    def _sampler(self, index: int) -> Any:
        if index not in self._samplers:
            self._samplers[index] = self._setup.sampler(index)
        return self._samplers[index]


class GameConfig(PieceConfig):
    """RLlib's configuration for a `GameSetup` whose learner takes the gradients of a loss."""

    @classmethod
    def of(cls, setup: Any) -> PieceConfig:
        """Return the configuration of a run."""
        config = super().of(setup)
        config.training(grad_clip=setup.settings.grad_clip)
        return config
