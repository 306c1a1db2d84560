"""Evolution strategies as an RLlib `Algorithm`: runners play variants of the network, the learner takes the step.

`EvolutionStrategies` is RLlib's `Algorithm` on Ray, `LocalTraining` connects the same runner and learner in this
process, without Ray; both give the same weights. See `agents.on_ray.pieces`: a piece is a pair of variants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from agents.method import Algorithm, Needs
from agents.methods.evolution.ascent import Ascent
from agents.methods.evolution.perturbations import LowRankPerturbations
from agents.networks import Blueprint
from agents.on_ray.pieces import (
    SETUP,
    PieceAlgorithm,
    PieceConfig,
    PieceLearner,
    PieceRunner,
    start_training,
)
from agents.problems.bids import BiddingTask, BidProblem, build_policy, spec_of
from agents.problems.objective import EpisodeObjective, LogMerit
from agents.problems.playing import Game, Score, play
from agents.seeding import Phase, derive_seed
from agents.tags import ENV_STEPS, LENGTH, RETURN
from envs.bidding import BiddingBatch, BiddingSpec
from envs.episodes.worlds import WorldDistribution
from envs.types import FloatArray, MurmurationError


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """Evolution strategies on bids; the defaults were chosen on training workloads.

    Attributes:
        num_pairs: antithetic pairs of variants in an iteration.
        num_workloads: fresh training workloads that each pair plays, both variants the same ones.
        sigma: standard deviation of a changed weight.
        rank: rank of the change of a weight matrix.
        lr: learning rate of Adam.
        decay: weight decay; each step takes `lr * decay` of the weights away.
        averaging: weight of the newest weights in the moving average that is validated and saved.
        num_envs: episodes that each runner steps in one call.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
        layers: names of the network's linear layers to train, such as `volume`; empty for all. The others keep their
            weights.
    """

    name: ClassVar[str] = "evolution"
    needs: ClassVar[Needs] = Needs(("bids",), "env=bidding agent=bidding market=fifo (experiment=bidding)")

    num_pairs: int = 16
    num_workloads: int = 3
    sigma: float = 0.06
    rank: int = 1
    lr: float = 0.02
    decay: float = 0.02
    averaging: float = 0.06
    num_envs: int = 32
    num_env_runners: int = 0
    layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("num_pairs", "num_workloads", "sigma", "rank", "lr", "averaging", "num_envs"):
            if not getattr(self, name) > 0:
                raise MurmurationError(f"evolution.{name} is {getattr(self, name)}; it must be positive")
        for name in ("decay", "num_env_runners"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"evolution.{name} is {getattr(self, name)}; it must not be negative")
        if not self.averaging <= 1:
            raise MurmurationError(f"evolution.averaging is {self.averaging}; it must be from 0 to 1")

    @property
    def num_episodes(self) -> int:
        """Training episodes of an iteration."""
        return 2 * self.num_pairs * self.num_workloads

    def start(self, problem: BidProblem, network: nn.Module, seed: int) -> Algorithm:
        """Begin a search from a network."""
        start = {name: value.detach().clone() for name, value in network.state_dict().items()}
        setup = EvolutionSetup(problem.worlds, problem.blueprint, self, seed, start, problem.objective, problem.drawn)
        return start_training(setup, EvolutionConfig)


@dataclass(frozen=True)
class EvolutionSetup:
    """Everything that the parts of a run share.

    Attributes:
        tasks: episodes are drawn from all of them in turn, unless worlds are drawn.
        blueprint: the network, which implements `agents.networks.bidding.BidNetwork`.
        settings: parameters of the search.
        seed: seed of the run.
        start: weights by name with which the search starts; None for fresh ones. Layers that it lacks start fresh.
        objective: what the search climbs.
        drawn: worlds of which each workload of an iteration has one of its own, the same for all pairs, instead of the
            tasks; None for none.
    """

    tasks: tuple[BiddingTask, ...]
    blueprint: Blueprint
    settings: EvolutionSettings
    seed: int
    start: Mapping[str, Tensor] | None = None
    objective: EpisodeObjective = field(default_factory=LogMerit)
    drawn: WorldDistribution | None = None

    @property
    def spec(self) -> BiddingSpec:
        """Sizes of observation and action of the first task with most bids, for which networks are built."""
        return spec_of(self.tasks)

    @property
    def num_pieces(self) -> int:
        """Pairs of an iteration."""
        return self.settings.num_pairs

    @property
    def num_env_runners(self) -> int:
        """Processes that play pairs, with Ray."""
        return self.settings.num_env_runners

    def build(self) -> Any:
        """Build the network that the search starts with; random weights follow from the seed."""
        return build_policy(self.blueprint, self.spec, self.seed, self.start)

    def perturbations(self, network: nn.Module, iteration: int) -> LowRankPerturbations:
        """Draw the variants of an iteration: the same in every process."""
        settings = self.settings
        rng = np.random.default_rng(derive_seed(self.seed, Phase.LEARNING, iteration + 1))
        return LowRankPerturbations(
            network, settings.num_pairs, settings.sigma, settings.rank, rng, layers=settings.layers
        )

    def game_seed(self, iteration: int, pair: int, workload: int) -> int:
        """Return the seed of a pair's n-th workload."""
        return derive_seed(self.seed, Phase.SAMPLING, iteration, pair * self.settings.num_workloads + workload)

    def worlds(self, iteration: int) -> tuple[BiddingTask, ...]:
        """Return the worlds of an iteration: the w-th workload of the n-th pair is played in the (n + w)-th, around.

        Drawn ones are as many as workloads.
        """
        if self.drawn is None:
            return self.tasks
        seeds = [derive_seed(self.seed, Phase.WORLDS, iteration, i) for i in range(self.settings.num_workloads)]
        worlds = [self.drawn.drawn(seed) for seed in seeds]
        return tuple(replace(self.tasks[0], name=each.name, setup=each.setup, source=each.source) for each in worlds)


class EvolutionModule(TorchRLModule):
    """A bidding network as an RLlib module."""

    def setup(self) -> None:
        """Build the network."""
        self.network = self.model_config[SETUP].build()

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"bids": self.network.bids(batch)}


PairScores = tuple[tuple[Score, ...], tuple[Score, ...]]  # of the two variants of a pair, one for each workload


class EvolutionLearner(PieceLearner):
    """Holds the search: weights, Adam's moments, moving average."""

    def build(self) -> None:
        """Build the module, then the search."""
        super().build()
        settings = self._setup.settings
        self.ascent = Ascent(self.network, settings.lr, settings.decay, settings.averaging)

    @property
    def network(self) -> nn.Module:
        """The network that is being trained."""
        found: nn.Module = self._own.network
        return found

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Leave optimization to `Ascent`, whose gradient comes from no loss."""

    def compute_loss_for_module(self, **_: Any) -> Tensor:
        """Refuse: evolution strategies have no loss.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("evolution strategies have no loss; see EvolutionLearner.learn")

    def learn(self, played: Mapping[int, PairScores], iteration: int) -> dict[str, float]:
        """Take one step from the scores of all pairs; return figures to log."""
        setup = self._setup
        scores = Scores(tuple(played[pair] for pair in sorted(played)))
        with torch.no_grad():
            figures = self.ascent.step(setup.perturbations(self.network, iteration), scores.merits(setup.objective))
        return {**scores.figures(), **{f"learner/{name}": value for name, value in figures.items()}}

    def weights(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def policy(self) -> dict[str, Tensor]:
        """Return the network's weights, with the trained ones averaged over the last steps."""
        return {**self.weights(), **{name: value.clone() for name, value in self.ascent.averaged().items()}}

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return RLlib's state and the search."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        return {**state, "ascent": self.ascent.state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from the result of `get_state`."""
        super().set_state(state)
        if "ascent" in state:
            self.ascent.restore(state["ascent"])


@dataclass(frozen=True)
class Scores:
    """Scores of pairs."""

    pairs: tuple[PairScores, ...]

    def merits(self, objective: EpisodeObjective) -> FloatArray:
        """float64[num_pairs, 2, num_workloads]."""
        return np.array([[[objective(score) for score in scores] for scores in pair] for pair in self.pairs])

    def figures(self) -> dict[str, float]:
        """Return means over all episodes, and the environment steps of all."""
        flat = np.array([score for pair in self.pairs for scores in pair for score in scores], np.float64)
        names = ("train/mean_jct", "train/makespan", "train/unfinished", RETURN, LENGTH)
        found = dict(zip(names, flat.mean(axis=0).tolist(), strict=True))
        return found | {ENV_STEPS: found[LENGTH] * len(flat)}


class EvolutionRunner(PieceRunner):
    """Plays variants of the network on training workloads."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._network = self._setup.build()
        self._batches: dict[int, BiddingBatch] = {}

    def play(self, weights: Mapping[str, Tensor], iteration: int, numbers: Sequence[int]) -> dict[int, PairScores]:
        """Play pairs; return their scores."""
        self._network.load_state_dict(weights)
        setup, count = self._setup, self._setup.settings.num_workloads
        perturbations = setup.perturbations(self._network, iteration)
        found: dict[tuple[int, int, int], Score] = {}
        worlds = setup.worlds(iteration)
        for index, task in enumerate(worlds):
            keys, games = [], []
            for pair in numbers:
                for w in range(count):
                    if (pair + w) % len(worlds) != index:
                        continue
                    seed = setup.game_seed(iteration, pair, w)
                    workload = task.source.episode(np.random.default_rng(seed), "train")
                    for side in range(2):
                        keys.append((pair, side, w))
                        games.append(Game(2 * pair + side, workload, seed))
            batch = task.batch(setup.settings.num_envs) if setup.drawn else self._batch(index)
            found |= zip(keys, play(self._network, batch, games, perturbations), strict=True)
        return {
            pair: (tuple(found[pair, 0, w] for w in range(count)), tuple(found[pair, 1, w] for w in range(count)))
            for pair in numbers
        }

    def _batch(self, index: int) -> BiddingBatch:
        if index not in self._batches:
            self._batches[index] = self._setup.tasks[index].batch(self._setup.settings.num_envs)
        return self._batches[index]


class EvolutionStrategies(PieceAlgorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the pairs, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> "EvolutionConfig":
        """Return an empty configuration; use `EvolutionConfig.of`."""
        return EvolutionConfig(cls)


class EvolutionConfig(PieceConfig):
    """RLlib's configuration for an `EvolutionSetup`."""

    runner, learner, module, algorithm = EvolutionRunner, EvolutionLearner, EvolutionModule, EvolutionStrategies
