"""Evolution strategies as an RLlib `Algorithm`: runners play variants of the network, the learner takes the step.

`EvolutionStrategies` is RLlib's `Algorithm` on Ray, with its own `training_step`. `LocalEvolution` connects the same
runner and learner in this process, without Ray; both give the same weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.checkpoints import Checkpointable
from torch import Tensor, nn

from agents.evolution import Ascent, EvolutionSettings, Game, LowRankPerturbations, Score, play
from agents.networks import Blueprint
from agents.rllib.algorithm import RLLIB, require_finite
from agents.rllib.quiet import quieten
from agents.rllib.state import (
    LEARNER,
    RESTARTS,
    explaining_losses,
    load_state,
    refusing_damage,
    results_of,
    save_state,
    start_ray_for,
)
from agents.seeding import Phase, derive_seed
from envs.bidding import BiddingBatch, BiddingRules, BiddingSpec
from envs.simulation import Setup
from envs.simulation.market import Market
from envs.types import FloatArray
from envs.workloads import WorkloadSource

NOTHING = gym.spaces.Box(-1.0, 1.0, (1,))  # RLlib asks for spaces; a bidding network has no fixed ones


@dataclass(frozen=True)
class BiddingTask:
    """The world, the workloads and the market of training episodes; it is sent to the workers."""

    name: str
    setup: Setup
    source: WorkloadSource
    market: Market
    rules: BiddingRules = field(default_factory=BiddingRules)

    @property
    def spec(self) -> BiddingSpec:
        """Sizes of observation and action."""
        return BiddingSpec.of(self.setup.cluster, self.rules)

    def batch(self, num_envs: int) -> BiddingBatch:
        """Make empty episodes for workloads of this task."""
        source = self.source
        return BiddingBatch(self.setup, source.models, source.num_jobs, num_envs, self.market, self.rules)


def build_policy(blueprint: Blueprint, spec: BiddingSpec, seed: int, start: Mapping[str, Tensor] | None) -> Any:
    """Build the network that training starts with.

    Args:
        blueprint: the network.
        spec: sizes of the environment.
        seed: seed of the run, from which random weights follow.
        start: weights by name; None for random ones. Layers that it lacks keep these.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, Phase.LEARNING))
        network = blueprint.build(spec)
    if start is not None:
        network.load_state_dict(start, strict=False)
    return network


@dataclass(frozen=True)
class EvolutionSetup:
    """Everything that the parts of a run share.

    Attributes:
        tasks: episodes are drawn from all of them in turn.
        blueprint: the network, which implements `agents.networks.bidding.BidNetwork`.
        settings: parameters of the search.
        seed: seed of the run.
        start: weights by name with which the search starts; None for fresh ones. Layers that it lacks start fresh.
    """

    tasks: tuple[BiddingTask, ...]
    blueprint: Blueprint
    settings: EvolutionSettings
    seed: int
    start: Mapping[str, Tensor] | None = None

    def build(self) -> Any:
        """Build the network that the search starts with; random weights follow from the seed."""
        return build_policy(self.blueprint, self.tasks[0].spec, self.seed, self.start)

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


class EvolutionModule(TorchRLModule):
    """A bidding network as an RLlib module. `model_config` holds `evolution`, an `EvolutionSetup`."""

    def setup(self) -> None:
        """Build the network."""
        self.network = self.model_config["evolution"].build()

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"bids": self.network.bids(batch)}


class EvolutionLearner(TorchLearner):
    """Holds the search: weights, Adam's moments, moving average. `config.learner_config_dict` has `evolution`."""

    def build(self) -> None:
        """Build the module, then the search."""
        super().build()
        settings = self._setup.settings
        self.ascent = Ascent(self.network, settings.lr, settings.decay, settings.averaging)

    @property
    def _setup(self) -> EvolutionSetup:
        found: EvolutionSetup = self.config.learner_config_dict["evolution"]
        return found

    @property
    def network(self) -> nn.Module:
        """The network that is being trained."""
        found: nn.Module = self.module[DEFAULT_MODULE_ID].unwrapped().network
        return found

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Leave optimization to `Ascent`, whose gradient comes from no loss."""

    def compute_loss_for_module(self, **_: Any) -> Tensor:
        """Refuse: evolution strategies have no loss.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("evolution strategies have no loss; see EvolutionLearner.evolve")

    def evolve(self, scores: "Scores", iteration: int) -> dict[str, float]:
        """Take one step from the scores of all pairs; return figures to log."""
        setup = self._setup
        with torch.no_grad():
            figures = self.ascent.step(setup.perturbations(self.network, iteration), scores.merits(setup.settings))
        return {**scores.figures(), **{f"learner/{name}": value for name, value in figures.items()}}

    def weights(self) -> dict[str, Tensor]:
        """Return the network's weights."""
        return {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def averaged(self) -> dict[str, Tensor]:
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


PairScores = tuple[tuple[Score, ...], tuple[Score, ...]]  # of the two variants of a pair, one for each workload


@dataclass(frozen=True)
class Scores:
    """Scores of pairs."""

    pairs: tuple[PairScores, ...]

    def merits(self, settings: EvolutionSettings) -> FloatArray:
        """float64[num_pairs, 2, num_workloads]."""
        return np.array([[[settings.merit(score) for score in scores] for scores in pair] for pair in self.pairs])

    def figures(self) -> dict[str, float]:
        """Return means over all episodes."""
        flat = np.array([score for pair in self.pairs for scores in pair for score in scores], np.float64)
        mean_jct, makespan, unfinished = flat.mean(axis=0).tolist()
        return {"train/mean_jct": mean_jct, "train/makespan": makespan, "train/unfinished": unfinished}


class EvolutionRunner(EnvRunner, Checkpointable):
    """Plays variants of the network on training workloads. `config.env_config` holds `evolution`."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._setup: EvolutionSetup = config.env_config["evolution"]
        self._network = self._setup.build()
        self._batches: dict[int, BiddingBatch] = {}

    def play_pairs(self, weights: Mapping[str, Tensor], iteration: int, pairs: Sequence[int]) -> Scores:
        """Play these pairs; their scores depend neither on the runner nor on the other pairs."""
        self._network.load_state_dict(weights)
        setup, count = self._setup, self._setup.settings.num_workloads
        perturbations = setup.perturbations(self._network, iteration)
        found: dict[tuple[int, int, int], Score] = {}
        for index, task in enumerate(setup.tasks):
            keys, games = [], []
            for pair in pairs:
                for w in range(count):
                    if (pair + w) % len(setup.tasks) != index:
                        continue
                    seed = setup.game_seed(iteration, pair, w)
                    workload = task.source.episode(np.random.default_rng(seed), "train")
                    for side in range(2):
                        keys.append((pair, side, w))
                        games.append(Game(2 * pair + side, workload, seed))
            found |= zip(keys, play(self._network, self._batch(index), games, perturbations), strict=True)
        return Scores(
            tuple(
                (
                    tuple(found[pair, 0, w] for w in range(count)),
                    tuple(found[pair, 1, w] for w in range(count)),
                )
                for pair in pairs
            )
        )

    def _batch(self, index: int) -> BiddingBatch:
        if index not in self._batches:
            self._batches[index] = self._setup.tasks[index].batch(self._setup.settings.num_envs)
        return self._batches[index]

    def sample(self, **_: Any) -> Any:
        """Refuse: a runner plays pairs of variants, not samples of one policy.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("evolution strategies play pairs of variants; see EvolutionRunner.play_pairs")

    def get_spaces(self) -> dict[str, tuple[gym.Space[Any], gym.Space[Any]]]:
        """Return stand-ins, which RLlib asks for."""
        return {"__env__": (NOTHING, NOTHING), DEFAULT_MODULE_ID: (NOTHING, NOTHING)}

    def assert_healthy(self) -> None:
        """Assert that the network was built."""
        assert self._network is not None

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return nothing: a runner has no state between iterations."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the constructor."""
        return (), {"config": self.config}


class EvolutionConfig(AlgorithmConfig):
    """RLlib's configuration for an `EvolutionSetup`."""

    @classmethod
    def of(cls, setup: EvolutionSetup) -> "EvolutionConfig":
        """Return the configuration of a run."""
        config = cls(EvolutionStrategies)
        config.environment(
            env=None,
            observation_space=NOTHING,
            action_space=NOTHING,
            env_config={"evolution": setup},
            disable_env_checking=True,
        )
        config.env_runners(
            env_runner_cls=EvolutionRunner,
            num_env_runners=setup.settings.num_env_runners,
            create_local_env_runner=True,
        )
        config.rl_module(rl_module_spec=RLModuleSpec(module_class=EvolutionModule, model_config={"evolution": setup}))
        config.learners(learner_class=EvolutionLearner, learner_config_dict={"evolution": setup})
        config.fault_tolerance(**RESTARTS)
        config.debugging(seed=derive_seed(setup.seed, Phase.LEARNING), log_level="ERROR")
        config.reporting(min_time_s_per_iteration=None)
        return config

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the bidding network's module."""
        return RLModuleSpec(module_class=EvolutionModule)

    def get_default_learner_class(self) -> type[EvolutionLearner]:
        """Return the learner that holds the search."""
        return EvolutionLearner


class EvolutionStrategies(Algorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the pairs, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> EvolutionConfig:
        """Return an empty configuration; use `EvolutionConfig.of`."""
        return EvolutionConfig(cls)

    def training_step(self) -> None:
        """Play all pairs of one iteration and take the step."""
        iteration, weights = self.iteration, self.learner_group.foreach_learner(lambda learner: learner.weights())
        scores = self._play_pairs(_first(weights), iteration)
        found = self.learner_group.foreach_learner(partial(step_learner, scores=scores, iteration=iteration))
        for name, value in _first(found).items():
            self.metrics.log_value(("evolution", name), value, window=1)

    def _play_pairs(self, weights: Mapping[str, Tensor], iteration: int) -> Scores:
        """Play all pairs: each runner a share, the others those of a runner that dies, the driver what is left."""
        setup: EvolutionSetup = self.config.env_config["evolution"]
        group, left = self.env_runner_group, list(range(setup.settings.num_pairs))
        played: dict[int, PairScores] = {}
        for _ in range(2):
            runners = group.healthy_env_runner_ids()
            if not (runners and left):
                break
            shares = [left[i :: len(runners)] for i in range(len(runners))]
            calls = [partial(play_share, weights=weights, iteration=iteration, pairs=share) for share in shares]
            for part in group.foreach_env_runner(calls, remote_worker_ids=runners, local_env_runner=False):
                played |= part
            left = [pair for pair in left if pair not in played]
        played |= play_share(group.local_env_runner, weights=weights, iteration=iteration, pairs=left)
        return Scores(tuple(played[pair] for pair in sorted(played)))


def play_share(
    runner: EvolutionRunner, weights: Mapping[str, Tensor], iteration: int, pairs: Sequence[int]
) -> dict[int, PairScores]:
    """Return what a runner plays, by pair; a function, because RLlib sends it to the workers."""
    return dict(zip(pairs, runner.play_pairs(weights, iteration, pairs).pairs, strict=True)) if pairs else {}


def step_learner(learner: EvolutionLearner, scores: Scores, iteration: int) -> dict[str, float]:
    """Take a step of the learner; a function for the same reason."""
    return learner.evolve(scores, iteration)


def _first(results: Any) -> Any:
    """Return the result of the only learner."""
    return results_of(results)[0]


class LocalEvolution:
    """Runner and learner in this process, without Ray."""

    def __init__(self, setup: EvolutionSetup, iteration: int = 0) -> None:
        quieten()
        config = EvolutionConfig.of(setup)
        self._settings, self._iteration = setup.settings, iteration
        self._runner = EvolutionRunner(config=config, worker_index=0)
        self._learner: EvolutionLearner = config.build_learner(spaces=self._runner.get_spaces())
        self._blueprint, self._spec = setup.blueprint, setup.tasks[0].spec

    def network(self) -> nn.Module:
        """Return a copy of the network with averaged weights."""
        network = self._blueprint.build(self._spec)
        network.load_state_dict(self._learner.averaged())
        return require_finite(network)

    def train(self) -> dict[str, float]:
        """Run one iteration."""
        scores = self._runner.play_pairs(self._learner.weights(), self._iteration, range(self._settings.num_pairs))
        figures = self._learner.evolve(scores, self._iteration)
        self._iteration += 1
        return figures

    def save(self, folder: Path) -> None:
        """Write the search. RLlib's state is a pickle: restore only your own."""
        save_state(folder, {"learner": self._learner.get_state(), "iteration": self._iteration})

    def restore(self, folder: Path) -> None:
        """Resume from a saved search.

        Raises:
            CheckpointError: it is missing or corrupt.
        """
        with refusing_damage(folder / LEARNER):
            state = load_state(folder)
            self._learner.set_state(state["learner"])
            self._iteration = int(state["iteration"])

    def stop(self) -> None:
        """Release all resources."""
        self._runner.stop()


class EvolutionOnRay:
    """RLlib's `Algorithm` on Ray, with the interface of `LocalEvolution`: several workers, several machines."""

    def __init__(self, setup: EvolutionSetup, iteration: int = 0) -> None:
        self._started_ray = start_ray_for("trainer.evolution", setup.settings.num_env_runners)
        self._algorithm = EvolutionConfig.of(setup).build_algo()
        self._blueprint, self._spec = setup.blueprint, setup.tasks[0].spec

    def network(self) -> nn.Module:
        """Return a copy of the network with averaged weights."""
        network = self._blueprint.build(self._spec)
        found = self._algorithm.learner_group.foreach_learner(lambda learner: learner.averaged())
        network.load_state_dict(_first(found))
        return require_finite(network)

    def train(self) -> dict[str, float]:
        """Run one iteration."""
        with explaining_losses():
            figures: dict[str, float] = self._algorithm.train()["evolution"]
        return {name: float(value) for name, value in figures.items()}

    def save(self, folder: Path) -> None:
        """Write RLlib's checkpoint. It contains pickles: restore only your own."""
        self._algorithm.save_to_path(str((folder / RLLIB).resolve()))

    def restore(self, folder: Path) -> None:
        """Resume from a saved checkpoint.

        Raises:
            CheckpointError: it is missing or corrupt.
        """
        with refusing_damage(folder):
            self._algorithm.restore_from_path(str((folder / RLLIB).resolve()))

    def stop(self) -> None:
        """Stop the workers, and Ray if this object started it."""
        self._algorithm.stop()
        if self._started_ray:
            ray.shutdown()
