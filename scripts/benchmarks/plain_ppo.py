"""PPO in a plain loop: the yardstick for what RLlib costs. The same network, losses, minibatches and epochs."""

from typing import Any

import torch
from torch import Tensor, nn

from agents.networks import Blueprint
from agents.rllib import PPOSettings, World
from benchmarks.ppo_loss import loss
from benchmarks.rollout import advantages, play

VALUE_RATE = 0.1  # how fast the scale of values follows new targets, as in agents.rllib.advantage


class PlainPPO:
    """Samples `train_batch_size` steps and learns from them: per-server ratio, time discount, normalised values."""

    def __init__(self, world: World, settings: PPOSettings, seed: int) -> None:
        self.settings, self.env = settings, world.vector_env(settings.num_envs, seed)
        self.env.reset()
        self.network: Any = Blueprint().build(world.spec)
        named = dict(self.network.named_parameters())
        self.groups = [[named[name] for name in named if name.startswith("critic.") == own] for own in (False, True)]
        rates = settings.lr, settings.critic_lr
        self.adam = torch.optim.Adam([{"params": own, "lr": lr} for own, lr in zip(self.groups, rates, strict=True)])
        self.mean, self.scale = torch.zeros(()), torch.ones(())  # of value targets
        self.env_seconds = 0.0  # CPU time of the environment in the last iteration

    def train(self) -> None:
        """One iteration."""
        length = self.settings.train_batch_size // self.settings.num_envs
        seen, done, self.env_seconds = play(self.env, self.network, length, self.settings.reward_scale)
        with torch.no_grad():
            flat = {name: column.flatten(0, 1) for name, column in seen.items()}
            values = (self.network.value(flat) * self.scale + self.mean).unflatten(0, (length + 1, -1))
            gains = advantages(done, values.double(), self.settings)
            targets = gains + values[:-1]
            self.mean = self.mean + VALUE_RATE * (targets.mean() - self.mean)
            self.scale = self.scale + VALUE_RATE * (targets.std().clamp(min=1e-3) - self.scale)
        normalised = (targets - self.mean) / self.scale
        done |= {"gains": (gains - gains.mean()) / gains.std().clamp(min=1e-4), "targets": normalised}
        steps = {name: column.flatten(0, 1).float() for name, column in done.items()}
        for _ in range(self.settings.num_epochs):
            order = torch.randperm(len(steps["gains"]))
            for first in range(0, len(order), self.settings.minibatch_size):
                rows = order[first : first + self.settings.minibatch_size]
                seen_here = {name: column[rows] for name, column in flat.items()}
                steps_here = {name: column[rows] for name, column in steps.items()}
                self._learn(loss(self.network, seen_here, steps_here, self.settings))

    def _learn(self, missed: Tensor) -> None:
        self.adam.zero_grad()
        torch.autograd.backward(missed)
        for weights in self.groups:
            nn.utils.clip_grad_norm_(weights, self.settings.grad_clip)
        self.adam.step()
