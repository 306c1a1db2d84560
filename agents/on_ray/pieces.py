"""RLlib algorithms whose iterations consist of numbered pieces of work, with and without Ray.

Runners play pieces with the learner's weights, and the learner takes its steps from all of them. What comes out of a
piece depends neither on the runner nor on the other pieces, except that the last bit of a forward pass may depend on
how many episodes share it. Where no decision hangs on that bit, the same weights come out wherever they are played:
`PieceAlgorithm` is RLlib's `Algorithm` on Ray, with its own `training_step`, and `LocalTraining` connects the same
runner and learner in this process. Evolution strategies are built on this.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import gymnasium as gym
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils.checkpoints import Checkpointable
from torch import Tensor, nn

from agents.networks import Blueprint
from agents.on_ray.quiet import quieten
from agents.on_ray.state import (
    LEARNER,
    RESTARTS,
    RLLIB,
    explaining_losses,
    load_state,
    refusing_damage,
    require_finite,
    results_of,
    save_state,
    start_ray_for,
)
from agents.seeding import Phase, derive_seed
from agents.tags import WORKER_SECONDS

NOTHING = gym.spaces.Box(-1.0, 1.0, (1,))  # RLlib asks for spaces; a bidding network has no fixed ones
SETUP = "pieces"  # the entry of RLlib's dictionaries of options that holds the `PieceSetup`
FIGURES = "pieces"  # the entry of RLlib's results with what the learner returns


class PieceSetup(Protocol):
    """Everything that the parts of a run share; it is sent to the workers."""

    @property
    def blueprint(self) -> Blueprint:
        """The network."""
        ...

    @property
    def spec(self) -> Any:
        """Sizes of observation and action, for which the network is built."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the run."""
        ...

    @property
    def num_pieces(self) -> int:
        """Pieces of an iteration."""
        ...

    @property
    def num_env_runners(self) -> int:
        """Processes that play them, with Ray."""
        ...


class PieceLearner(TorchLearner):
    """Holds what is trained, and takes the steps."""

    @property
    def _setup(self) -> Any:
        return self.config.learner_config_dict[SETUP]

    @property
    def _own(self) -> Any:
        """The module."""
        return self.module[DEFAULT_MODULE_ID].unwrapped()

    def learn(self, played: Mapping[int, Any], iteration: int) -> dict[str, float]:
        """Take the steps of an iteration from all pieces, by their numbers; return figures to log."""
        raise NotImplementedError

    def weights(self) -> dict[str, Any]:
        """Return the weights with which runners play."""
        raise NotImplementedError

    def policy(self) -> dict[str, Tensor]:
        """Return the weights of the policy to validate and to keep."""
        raise NotImplementedError


class PieceRunner(EnvRunner, Checkpointable):
    """Plays pieces. It has no state between iterations."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._setup: Any = config.env_config[SETUP]

    def play(self, weights: Mapping[str, Any], iteration: int, numbers: Sequence[int]) -> dict[int, Any]:
        """Play pieces; return what comes out of each by its number."""
        raise NotImplementedError

    def sample(self, **_: Any) -> Any:
        """Refuse: a runner returns what comes out of pieces, not episodes of steps.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("pieces are no samples of one policy; see PieceRunner.play")

    def get_spaces(self) -> dict[str, Any]:
        """Return stand-ins, which RLlib asks for."""
        return {"__env__": (NOTHING, NOTHING), DEFAULT_MODULE_ID: (NOTHING, NOTHING)}

    def assert_healthy(self) -> None:
        """Assert that the runner was built."""
        assert self._setup is not None

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the constructor."""
        return (), {"config": self.config}


class PieceConfig(AlgorithmConfig):
    """RLlib's configuration for a `PieceSetup`.

    Attributes:
        runner: plays the pieces.
        learner: takes the steps.
        module: what is trained; its `model_config` has the setup.
        algorithm: connects them on Ray.
    """

    runner: ClassVar[type[PieceRunner]]
    learner: ClassVar[type[PieceLearner]]
    module: ClassVar[type[TorchRLModule]]
    algorithm: ClassVar[type["PieceAlgorithm"]]

    @classmethod
    def of(cls, setup: PieceSetup) -> "PieceConfig":
        """Return the configuration of a run."""
        config = cls(cls.algorithm)
        config.environment(
            env=None,
            observation_space=NOTHING,
            action_space=NOTHING,
            env_config={SETUP: setup},
            disable_env_checking=True,
        )
        config.env_runners(
            env_runner_cls=cls.runner,
            num_env_runners=setup.num_env_runners,
            create_local_env_runner=True,
        )
        config.rl_module(rl_module_spec=RLModuleSpec(module_class=cls.module, model_config={SETUP: setup}))
        config.learners(learner_class=cls.learner, learner_config_dict={SETUP: setup})
        config.fault_tolerance(**RESTARTS)
        config.debugging(seed=derive_seed(setup.seed, Phase.LEARNING), log_level="ERROR")
        config.reporting(min_time_s_per_iteration=None)
        return config

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the module."""
        return RLModuleSpec(module_class=self.module)

    def get_default_learner_class(self) -> type[PieceLearner]:
        """Return the learner."""
        return self.learner


class PieceAlgorithm(Algorithm):
    """RLlib's `Algorithm`: in each iteration all runners play their share of the pieces, then the learner steps."""

    def training_step(self) -> None:
        """Play all pieces of one iteration and take the steps."""
        iteration, weights = self.iteration, self.learner_group.foreach_learner(lambda learner: learner.weights())
        played = self._play(results_of(weights)[0], iteration)
        found = self.learner_group.foreach_learner(partial(learn_from, played=played, iteration=iteration))
        for name, value in results_of(found)[0].items():
            self.metrics.log_value((FIGURES, name), value, window=1)

    def _play(self, weights: Mapping[str, Any], iteration: int) -> dict[int, Any]:
        """Play all pieces: each runner a share, the others those of a runner that dies, the driver what is left."""
        setup: PieceSetup = self.config.env_config[SETUP]
        group, left = self.env_runner_group, list(range(setup.num_pieces))
        played: dict[int, Any] = {}
        for _ in range(2):
            runners = group.healthy_env_runner_ids()
            if not (runners and left):
                break
            shares = [left[i :: len(runners)] for i in range(len(runners))]
            calls = [partial(play_share, weights=weights, iteration=iteration, numbers=share) for share in shares]
            for part in group.foreach_env_runner(calls, remote_worker_ids=runners, local_env_runner=False):
                played |= part
            left = [number for number in left if number not in played]
        return played | play_share(group.local_env_runner, weights=weights, iteration=iteration, numbers=left)


# Functions and not methods, because RLlib sends them to the workers.


def play_share(
    runner: PieceRunner, weights: Mapping[str, Any], iteration: int, numbers: Sequence[int]
) -> dict[int, Any]:
    """Return what comes out of some pieces."""
    return runner.play(weights, iteration, numbers) if numbers else {}


def learn_from(learner: PieceLearner, played: Mapping[int, Any], iteration: int) -> dict[str, float]:
    """Take the steps of an iteration."""
    return learner.learn(played, iteration)


class LocalTraining:
    """Runner and learner in this process, without Ray.

    Args:
        setup: of the run.
        config: the classes to connect.
    """

    def __init__(self, setup: PieceSetup, config: type[PieceConfig]) -> None:
        quieten()
        built = config.of(setup)
        self._setup, self._iteration = setup, 0
        self._runner = config.runner(config=built, worker_index=0)
        self._learner: PieceLearner = built.build_learner(spaces=self._runner.get_spaces())

    def network(self) -> nn.Module:
        """Return a copy of the policy."""
        network = self._setup.blueprint.build(self._setup.spec)
        network.load_state_dict(self._learner.policy())
        return require_finite(network)

    def train(self) -> dict[str, float]:
        """Run one iteration."""
        played = self._runner.play(self._learner.weights(), self._iteration, range(self._setup.num_pieces))
        figures = self._learner.learn(played, self._iteration)
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


def cpu_seconds_of(_: EnvRunner) -> tuple[str, float]:
    """Return the name of a runner's process on Ray, and the CPU seconds that it has spent."""
    return ray.get_runtime_context().get_worker_id(), time.process_time()


class AlgorithmOnRay:
    """An `Algorithm` of RLlib whose state is saved and restored as a whole.

    Args:
        config: of RLlib.
        num_env_runners: Ray workers that play, for which Ray must have room.
    """

    def __init__(self, config: AlgorithmConfig, num_env_runners: int) -> None:
        self._started_ray = start_ray_for("trainer.method", num_env_runners)
        self._algorithm = config.build_algo()
        self._spent = self._cpu_seconds()

    def _cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds of every worker by its process; those of a lost one are gone."""
        return dict(self._algorithm.env_runner_group.foreach_env_runner(cpu_seconds_of, local_env_runner=False))

    def _run_iteration(self) -> tuple[dict[str, Any], dict[str, float]]:
        """Run an iteration of RLlib; return its results, and the CPU seconds of the workers as a figure."""
        with explaining_losses():
            found: dict[str, Any] = self._algorithm.train()
            now = self._cpu_seconds()
        spent = sum(seconds - self._spent.get(process, 0.0) for process, seconds in now.items())
        self._spent = now
        return found, {WORKER_SECONDS: spent}

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


class TrainingOnRay(AlgorithmOnRay):
    """RLlib's `Algorithm` on Ray, with the interface of `LocalTraining`: several workers, several machines.

    Args:
        setup: of the run.
        config: the classes to connect.
    """

    def __init__(self, setup: PieceSetup, config: type[PieceConfig]) -> None:
        super().__init__(config.of(setup), setup.num_env_runners)
        self._setup = setup

    def network(self) -> nn.Module:
        """Return a copy of the policy."""
        network = self._setup.blueprint.build(self._setup.spec)
        found = self._algorithm.learner_group.foreach_learner(lambda learner: learner.policy())
        network.load_state_dict(results_of(found)[0])
        return require_finite(network)

    def train(self) -> dict[str, float]:
        """Run one iteration."""
        found, spent = self._run_iteration()
        return {name: float(value) for name, value in found[FIGURES].items()} | spent


def start_training(setup: PieceSetup, config: type[PieceConfig]) -> LocalTraining | TrainingOnRay:
    """Connect runner and learner: in this process, or on Ray where the run has workers."""
    return LocalTraining(setup, config) if setup.num_env_runners == 0 else TrainingOnRay(setup, config)
