"""PPO on bids with advantages from branches as an RLlib `Algorithm`: runners branch games, the learner takes the steps.

`BranchingPPO` is RLlib's `Algorithm` on Ray, with its own `training_step`. `LocalBranching` connects the same runner
and learner in this process, without Ray; both give the same weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

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
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.checkpoints import Checkpointable
from torch import Tensor, nn

from agents.branching import BranchedRounds, BranchSampler, BranchSettings, TailValue, log_ratios
from agents.branching.targets import RoundTargets, targets_of
from agents.evolution import Game
from agents.networks import Blueprint
from agents.rllib.algorithm import DIVERGED, RLLIB, require_finite
from agents.rllib.evolution import NOTHING, BiddingTask, build_policy
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
from envs.types import MurmurationError

SCALE_WEIGHT = 0.1  # of new targets in the running scale of the tail value
PlayedGames = Mapping[int, BranchedRounds | None]  # by the number of the game


@dataclass(frozen=True)
class BranchSetup:
    """Everything that the parts of a run share.

    Attributes:
        tasks: episodes are drawn from all of them in turn.
        blueprint: the network, which implements `agents.networks.bidding.BidNetwork`.
        settings: parameters of PPO and of branches.
        seed: seed of the run.
        start: weights by name with which the policy starts; None for fresh ones. Layers that it lacks start fresh.
    """

    tasks: tuple[BiddingTask, ...]
    blueprint: Blueprint
    settings: BranchSettings
    seed: int
    start: Mapping[str, Tensor] | None = None

    def build(self) -> Any:
        """Build the policy that training starts with; random weights follow from the seed."""
        return build_policy(self.blueprint, self.tasks[0].spec, self.seed, self.start)

    def build_tail(self) -> TailValue:
        """Build the tail value."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.seed, Phase.LEARNING, 1))
            return TailValue(self.settings.discount_time)

    def game(self, iteration: int, number: int) -> Game:
        """Draw a training game."""
        seed = derive_seed(self.seed, Phase.SAMPLING, iteration, number)
        task = self.tasks[self.task_of(number)]
        return Game(0, task.source.episode(np.random.default_rng(seed), "train"), seed)

    def task_of(self, number: int) -> int:
        """Return the task from which a game is drawn."""
        return number % len(self.tasks)


class BranchModule(TorchRLModule):
    """A bidding network and a tail value as an RLlib module. `model_config` holds `branching`, a `BranchSetup`."""

    def setup(self) -> None:
        """Build both networks."""
        setup: BranchSetup = self.model_config["branching"]
        self.network, self.tail = setup.build(), setup.build_tail()

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"bids": self.network.bids(batch["observation"]), "tail_values": self.tail(batch["backlog"])}


class BranchLearner(TorchLearner):
    """PPO's loss, with a ratio and a clip for each job that an arm explores.

    `config.learner_config_dict` has `branching`, a `BranchSetup`.
    """

    @property
    def _setup(self) -> BranchSetup:
        found: BranchSetup = self.config.learner_config_dict["branching"]
        return found

    @property
    def _own(self) -> Any:
        return self.module[DEFAULT_MODULE_ID].unwrapped()

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register Adam for the policy, and another with its own learning rate for the tail value."""
        module, settings = self.module[module_id].unwrapped(), self._setup.settings
        for name, network, learning_rate in (
            ("policy", module.network, settings.lr),
            ("tail", module.tail, settings.tail_lr),
        ):
            weights = [weight for weight in network.parameters() if weight.requires_grad]
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=torch.optim.Adam(weights),
                params=weights,
                lr_or_lr_schedule=learning_rate,
            )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """Return the clipped policy loss and the Huber loss of the tail value, each a mean."""
        settings, module = self._setup.settings, self.module[module_id].unwrapped()
        log_ratio = log_ratios(fwd_out["bids"], batch["means"], batch["observation"], batch["noise"], settings.sigma)
        ratio, explored = log_ratio.exp(), batch["noise"]["explored"].float()
        advantage = batch["advantages"].unsqueeze(-1)
        clipped = ratio.clamp(1.0 - settings.clip_param, 1.0 + settings.clip_param)
        count = explored.sum().clamp(min=1.0)
        gain = (torch.minimum(advantage * ratio, advantage * clipped) * explored).sum() / count
        values, targets = fwd_out["tail_values"] / module.tail.scale, batch["tails"] / module.tail.scale
        tail_loss = torch.nn.functional.huber_loss(values, targets, delta=10.0)
        unexplained = ((values - targets) ** 2).mean() / targets.var().clamp(min=1e-6)
        self.metrics.log_dict(
            {
                "policy_loss": -gain,
                "tail_loss": tail_loss,
                "tail_explained_variance": 1.0 - unexplained,
                "kl": ((ratio - 1.0 - log_ratio) * explored).sum() / count,
                "clip_fraction": (((ratio - 1.0).abs() > settings.clip_param) * explored).sum() / count,
            },
            key=module_id,
            window=1,
        )
        loss: Tensor = tail_loss - gain
        return loss

    def learn(self, played: PlayedGames, iteration: int) -> dict[str, float]:
        """Take the steps of one iteration; return figures to log.

        Raises:
            MurmurationError: a loss is not finite.
        """
        setup, settings = self._setup, self._setup.settings
        figures: dict[str, float] = {}
        for index in range(len(setup.tasks)):
            rounds = [each for number, each in sorted(played.items()) if setup.task_of(number) == index and each]
            if not rounds:
                continue
            targets = targets_of(rounds, settings, np.random.default_rng([setup.seed, iteration, index]))
            self._own.tail.track_scale(torch.from_numpy(targets.columns["tails"]), SCALE_WEIGHT)
            figures |= targets.figures | self._fit(targets)
        for name, value in figures.items():
            if not np.isfinite(value):
                raise MurmurationError(
                    f"branching: {name} is {value}; {DIVERGED.replace('ppo.lr and ppo.critic_lr', 'branching.lr')}"
                )
        return figures

    def _fit(self, targets: RoundTargets) -> dict[str, float]:
        """Take the steps on the rounds of one task."""
        settings, count = self._setup.settings, targets.num_rounds
        batch = MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(targets.columns)}, env_steps=count)
        result = self.update(
            batch=batch,
            timesteps={"num_env_steps_sampled_lifetime": 0},
            num_epochs=settings.num_epochs,
            minibatch_size=-(-count // settings.num_minibatches),
            shuffle_batch_per_epoch=False,  # by RLlib from a global generator; the rounds are in random order already
        )
        found = result[DEFAULT_MODULE_ID]
        names = ("policy_loss", "tail_loss", "tail_explained_variance", "kl", "clip_fraction")
        return {f"learner/{name}": float(found[name]) for name in names}

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Return the weights of policy and tail value."""
        return {
            part: {name: value.detach().clone() for name, value in getattr(self._own, part).state_dict().items()}
            for part in ("network", "tail")
        }


class BranchRunner(EnvRunner, Checkpointable):
    """Plays and branches training games. `config.env_config` holds `branching`."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._setup: BranchSetup = config.env_config["branching"]
        self._network, self._tail = self._setup.build(), self._setup.build_tail()
        self._samplers: dict[int, BranchSampler] = {}

    def play_games(self, weights: Mapping[str, Any], iteration: int, numbers: Sequence[int]) -> PlayedGames:
        """Play and branch these games; what is learnt from each depends neither on the runner nor on the others."""
        self._network.load_state_dict(weights["network"])
        self._network.eval()
        self._tail.load_state_dict(weights["tail"])
        setup, found = self._setup, dict[int, BranchedRounds | None]()
        for index in range(len(setup.tasks)):
            own = [number for number in numbers if setup.task_of(number) == index]
            if own:
                games = [setup.game(iteration, number) for number in own]
                found |= zip(own, self._sampler(index).play(self._network, self._tail, games), strict=True)
        return found

    def _sampler(self, index: int) -> BranchSampler:
        if index not in self._samplers:
            self._samplers[index] = BranchSampler(self._setup.tasks[index], self._setup.settings)
        return self._samplers[index]

    def sample(self, **_: Any) -> Any:
        """Refuse: a runner returns branched rounds, not episodes of steps.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("branches are no samples of one policy; see BranchRunner.play_games")

    def get_spaces(self) -> dict[str, Any]:
        """Return stand-ins, which RLlib asks for."""
        return {"__env__": (NOTHING, NOTHING), DEFAULT_MODULE_ID: (NOTHING, NOTHING)}

    def assert_healthy(self) -> None:
        """Assert that the networks were built."""
        assert self._network is not None

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return nothing: a runner has no state between iterations."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the constructor."""
        return (), {"config": self.config}


class BranchConfig(AlgorithmConfig):
    """RLlib's configuration for a `BranchSetup`."""

    @classmethod
    def of(cls, setup: BranchSetup) -> "BranchConfig":
        """Return the configuration of a run."""
        config = cls(BranchingPPO)
        config.environment(
            env=None,
            observation_space=NOTHING,
            action_space=NOTHING,
            env_config={"branching": setup},
            disable_env_checking=True,
        )
        config.env_runners(
            env_runner_cls=BranchRunner,
            num_env_runners=setup.settings.num_env_runners,
            create_local_env_runner=True,
        )
        config.rl_module(rl_module_spec=RLModuleSpec(module_class=BranchModule, model_config={"branching": setup}))
        config.learners(learner_class=BranchLearner, learner_config_dict={"branching": setup})
        config.training(grad_clip=setup.settings.grad_clip)
        config.fault_tolerance(**RESTARTS)
        config.debugging(seed=derive_seed(setup.seed, Phase.LEARNING), log_level="ERROR")
        config.reporting(min_time_s_per_iteration=None)
        return config

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the module of policy and tail value."""
        return RLModuleSpec(module_class=BranchModule)

    def get_default_learner_class(self) -> type[BranchLearner]:
        """Return the learner."""
        return BranchLearner


class BranchingPPO(Algorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the games, then the learner steps."""

    @classmethod
    def get_default_config(cls) -> BranchConfig:
        """Return an empty configuration; use `BranchConfig.of`."""
        return BranchConfig(cls)

    def training_step(self) -> None:
        """Play all games of one iteration and take the steps."""
        iteration, weights = self.iteration, self.learner_group.foreach_learner(lambda learner: learner.weights())
        played = self._play_games(results_of(weights)[0], iteration)
        found = self.learner_group.foreach_learner(partial(learn_from, played=played, iteration=iteration))
        for name, value in results_of(found)[0].items():
            self.metrics.log_value(("branching", name), value, window=1)

    def _play_games(self, weights: Mapping[str, Any], iteration: int) -> PlayedGames:
        """Play all games: each runner a share, the others those of a runner that dies, the driver what is left."""
        setup: BranchSetup = self.config.env_config["branching"]
        group, left = self.env_runner_group, list(range(setup.settings.num_games))
        played: dict[int, BranchedRounds | None] = {}
        for _ in range(2):
            runners = group.healthy_env_runner_ids()
            if not (runners and left):
                break
            shares = [left[i :: len(runners)] for i in range(len(runners))]
            calls = [partial(play_games_of, weights=weights, iteration=iteration, numbers=share) for share in shares]
            for part in group.foreach_env_runner(calls, remote_worker_ids=runners, local_env_runner=False):
                played |= part
            left = [number for number in left if number not in played]
        return played | play_games_of(group.local_env_runner, weights=weights, iteration=iteration, numbers=left)


# Functions and not methods, because RLlib sends them to the workers.


def play_games_of(
    runner: BranchRunner, weights: Mapping[str, Any], iteration: int, numbers: Sequence[int]
) -> dict[int, BranchedRounds | None]:
    """Return what a runner learns from games, by their numbers."""
    return dict(runner.play_games(weights, iteration, numbers)) if numbers else {}


def learn_from(learner: BranchLearner, played: PlayedGames, iteration: int) -> dict[str, float]:
    """Take the steps of an iteration."""
    return learner.learn(played, iteration)


class LocalBranching:
    """Runner and learner in this process, without Ray."""

    def __init__(self, setup: BranchSetup, iteration: int = 0) -> None:
        quieten()
        config = BranchConfig.of(setup)
        self._settings, self._iteration = setup.settings, iteration
        self._runner = BranchRunner(config=config, worker_index=0)
        self._learner: BranchLearner = config.build_learner(spaces=self._runner.get_spaces())
        self._blueprint, self._spec = setup.blueprint, setup.tasks[0].spec

    def network(self) -> nn.Module:
        """Return a copy of the policy."""
        network = self._blueprint.build(self._spec)
        network.load_state_dict(self._learner.weights()["network"])
        return require_finite(network)

    def train(self) -> dict[str, float]:
        """Run one iteration."""
        games = range(self._settings.num_games)
        figures = self._learner.learn(
            self._runner.play_games(self._learner.weights(), self._iteration, games), self._iteration
        )
        self._iteration += 1
        return figures

    def save(self, folder: Path) -> None:
        """Write the learner's state, which is a pickle: restore only your own."""
        save_state(folder, {"learner": self._learner.get_state(), "iteration": self._iteration})

    def restore(self, folder: Path) -> None:
        """Resume from a saved state.

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


class BranchingOnRay:
    """RLlib's `Algorithm` on Ray, with the interface of `LocalBranching`: several workers, several machines."""

    def __init__(self, setup: BranchSetup, iteration: int = 0) -> None:
        self._started_ray = start_ray_for("trainer.branching", setup.settings.num_env_runners)
        self._algorithm = BranchConfig.of(setup).build_algo()
        self._blueprint, self._spec = setup.blueprint, setup.tasks[0].spec

    def network(self) -> nn.Module:
        """Return a copy of the policy."""
        network = self._blueprint.build(self._spec)
        found = self._algorithm.learner_group.foreach_learner(lambda learner: learner.weights()["network"])
        network.load_state_dict(results_of(found)[0])
        return require_finite(network)

    def train(self) -> dict[str, float]:
        """Run one iteration."""
        with explaining_losses():
            figures: dict[str, float] = self._algorithm.train()["branching"]
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
