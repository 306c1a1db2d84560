"""RLlib's PPO behind a small interface, with and without Ray.

On one machine without remote workers Ray only adds start-up time and memory. `LocalAlgorithm` therefore connects
RLlib's runner and learner directly, with the same losses. With remote runners or learners, `PPOAlgorithm` wraps RLlib's
own `Algorithm` on Ray.
"""

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
import torch
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from torch import nn

from agents.methods.ppo.config import PPOSettings, algorithm_config
from agents.networks import Blueprint
from agents.on_ray.quiet import quieten
from agents.on_ray.randomness import random_state, set_random_state
from agents.on_ray.state import (
    LEARNER,
    RLLIB,
    explaining_losses,
    load_state,
    refusing_damage,
    require_finite,
    results_of,
    save_state,
    start_ray_for,
)
from agents.problems.choices import TrainingSetup
from envs.types import MurmurationError

EPISODE_FIGURES = {
    "episode_return_mean": "train/return",
    "episode_len_mean": "train/decisions",
    "mean_jct": "train/mean_jct",
    "makespan": "train/makespan",
    "utilisation": "train/utilisation",
    "conflict_rate": "train/conflict_rate",
    "unfinished": "train/unfinished",
    "group_explained_variance": "train/group_explained_variance",
    "num_env_steps_sampled": "train/env_steps",
}
DIVERGED = "training has diverged; restart from an earlier checkpoint or with lower ppo.lr and ppo.critic_lr"
LEARNER_FIGURES = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "explained_variance")


def figures_of(sampled: Mapping[str, Any], learned: Mapping[str, Any]) -> dict[str, float]:
    """Return the scalars of one iteration under their TensorBoard tags.

    Raises:
        MurmurationError: a loss is not finite.
    """
    found = {tag: float(sampled[name]) for name, tag in EPISODE_FIGURES.items() if name in sampled}
    episodes = {tag: value for tag, value in found.items() if not math.isnan(value)}  # NaN if no episode has ended yet
    losses = {
        name: float(learned[DEFAULT_MODULE_ID][name]) for name in LEARNER_FIGURES if name in learned[DEFAULT_MODULE_ID]
    }
    for name, value in losses.items():
        if not math.isfinite(value):
            raise MurmurationError(f"ppo: {name} is {value}; {DIVERGED}")
    return {**episodes, **{f"learner/{name}": value for name, value in losses.items()}}


class LocalAlgorithm:
    """RLlib's runner and learner in this process, without Ray."""

    def __init__(self, training_setup: TrainingSetup, blueprint: Blueprint, settings: PPOSettings, seed: int) -> None:
        self.settings = settings
        quieten()
        config = algorithm_config(training_setup, blueprint, settings, seed)
        self._runner = config.env_runner_cls(config=config, worker_index=0)
        self._learner = config.build_learner(env=self._runner.env)
        self._steps = 0

    def network(self) -> nn.Module:
        """Return a copy of the present policy network, on the CPU."""
        return require_finite(copy.deepcopy(self._learned()).cpu())

    def _learned(self) -> nn.Module:
        network: nn.Module = self._learner.module[DEFAULT_MODULE_ID].unwrapped().network
        return network

    def set_network(self, network: nn.Module) -> None:
        """Copy the weights of a network."""
        self._learned().load_state_dict(network.state_dict())
        self._sync()

    def train(self) -> dict[str, float]:
        """Run one iteration: sample, then update."""
        episodes = self._runner.sample()
        self._steps += sum(map(len, episodes))
        learned = self._learner.update(
            episodes=episodes,
            timesteps={"num_env_steps_sampled_lifetime": self._steps},
            num_epochs=self.settings.num_epochs,
            minibatch_size=self.settings.minibatch_size,
            shuffle_batch_per_epoch=True,
        )
        self._sync()
        return figures_of(self._runner.get_metrics(), learned)

    def _sync(self) -> None:
        state = self._learner.get_state(components=COMPONENT_RL_MODULE)
        self._runner.set_state({COMPONENT_RL_MODULE: state[COMPONENT_RL_MODULE]})

    def save(self, folder: Path) -> None:
        """Write the states of learner and runner. They are pickles: restore only your own."""
        state = {"learner": self._learner.get_state(), "steps": self._steps}
        save_state(folder, {**state, "sampling": self._runner.sampling_state()})

    def restore(self, folder: Path) -> None:
        """Resume from a saved state; what follows is what would have followed without a break, to the bit.

        Raises:
            CheckpointError: it is missing or corrupt.
        """
        with refusing_damage(folder / LEARNER):
            state = load_state(folder)
            self._learner.set_state(state["learner"])
            self._steps = int(state["steps"])
            self._sync()
            self._runner.continue_sampling(state["sampling"])

    def stop(self) -> None:
        """Release all resources."""
        self._runner.stop()


class PPOAlgorithm:
    """RLlib's `Algorithm` on Ray: remote runners, remote learners, several machines."""

    def __init__(self, training_setup: TrainingSetup, blueprint: Blueprint, settings: PPOSettings, seed: int) -> None:
        self._started_ray = start_ray_for(
            "trainer.method", settings.num_env_runners, settings.num_learners, settings.num_gpus_per_learner
        )
        self._training_setup, self._blueprint = training_setup, blueprint
        self._algorithm = algorithm_config(training_setup, blueprint, settings, seed).build_algo()

    def network(self) -> nn.Module:
        """Return a copy of the present policy network."""
        weights = self._algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
        network = self._blueprint.build(self._training_setup.spec)
        prefix = "network."
        network.load_state_dict(
            {
                name.removeprefix(prefix): torch.as_tensor(value)
                for name, value in weights.items()
                if name.startswith(prefix)
            }
        )
        return require_finite(network)

    def set_network(self, network: nn.Module) -> None:
        """Copy the weights of a network, here and in all workers."""
        weights = dict(self._algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID])
        weights |= {f"network.{name}": value.detach().cpu().numpy() for name, value in network.state_dict().items()}
        self._algorithm.learner_group.set_weights({DEFAULT_MODULE_ID: weights})
        self._algorithm.send_weights()

    def train(self) -> dict[str, float]:
        """Run one iteration: sample, then update."""
        with explaining_losses():
            result = self._algorithm.train()
        return figures_of(result["env_runners"], result["learners"])

    def save(self, folder: Path) -> None:
        """Write RLlib's checkpoint. It contains pickles: restore only your own."""
        self._algorithm.save_to_path(str((folder / RLLIB).resolve()))
        learners = results_of(self._algorithm.learner_group.foreach_learner(lambda _: random_state()))
        save_state(folder, {"sampling": self._algorithm.sampling, "learners": learners})

    def restore(self, folder: Path) -> None:
        """Resume from a saved checkpoint, in all workers.

        Raises:
            CheckpointError: it is missing or corrupt.
        """
        with refusing_damage(folder):
            state = load_state(folder)
            self._algorithm.restore_from_path(str((folder / RLLIB).resolve()))
            self._algorithm.send_weights()
            self._algorithm.continue_sampling(state["sampling"])
            # Several learners shuffle their shares of a batch alike.
            self._algorithm.learner_group.foreach_learner(lambda _: set_random_state(state["learners"][0]))

    def stop(self) -> None:
        """Stop the workers, and Ray if this object started it."""
        self._algorithm.stop()
        if self._started_ray:
            ray.shutdown()
