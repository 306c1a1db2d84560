"""PPO in a plain loop, to measure the overhead of RLlib: the same network, losses, minibatches and epochs."""

import time
from typing import Any

import torch
from torch import Tensor, nn

from agents.methods.ppo import PPOSettings, TrainingSetup
from agents.methods.ppo.distribution import chosen_log_probabilities, entropies, sample
from agents.networks import Blueprint, PolicyNetwork
from envs.gpu_cluster.vector import GpuClusterVectorEnv

Columns = dict[str, Tensor]

VALUE_UPDATE = 0.1  # weight of new targets in the running scale of values, as in agents.methods.ppo.advantage


class PlainPPO:
    """Samples `train_batch_size` steps and learns from them: ratio per agent, time discount, normalised values."""

    def __init__(self, world: TrainingSetup, settings: PPOSettings, seed: int) -> None:
        self.settings, self.env = settings, world.vector_env(settings.num_envs, seed)
        self.env.reset()
        self.network: Any = Blueprint().build(world.spec)
        named = dict(self.network.named_parameters())
        self.groups = [[named[name] for name in named if name.startswith("critic.") == own] for own in (False, True)]
        steps = settings.lr, settings.critic_lr
        self.adam = torch.optim.Adam([{"params": own, "lr": lr} for own, lr in zip(self.groups, steps, strict=True)])
        self.mean, self.scale = torch.zeros(()), torch.ones(())  # of value targets
        self.env_seconds = 0.0  # CPU time of the environment in the last iteration

    def train(self) -> None:
        """Run one iteration."""
        length = self.settings.train_batch_size // self.settings.num_envs
        seen, done, self.env_seconds = sample_steps(self.env, self.network, length, self.settings.reward_scale)
        with torch.no_grad():
            flat = {name: column.flatten(0, 1) for name, column in seen.items()}
            values = (self.network.value(flat) * self.scale + self.mean).unflatten(0, (length + 1, -1))
            gains = estimate_advantages(done, values.double(), self.settings)
            targets = gains + values[:-1]
            self.mean = self.mean + VALUE_UPDATE * (targets.mean() - self.mean)
            self.scale = self.scale + VALUE_UPDATE * (targets.std().clamp(min=1e-3) - self.scale)
        normalised = (targets - self.mean) / self.scale
        done |= {"gains": (gains - gains.mean()) / gains.std().clamp(min=1e-4), "targets": normalised}
        steps = {name: column.flatten(0, 1).float() for name, column in done.items()}
        for _ in range(self.settings.num_epochs):
            order = torch.randperm(len(steps["gains"]))
            for first in range(0, len(order), self.settings.minibatch_size):
                rows = order[first : first + self.settings.minibatch_size]
                seen_here = {name: column[rows] for name, column in flat.items()}
                steps_here = {name: column[rows] for name, column in steps.items()}
                self._learn(ppo_loss(self.network, seen_here, steps_here, self.settings))

    def _learn(self, loss: Tensor) -> None:
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        for weights in self.groups:
            nn.utils.clip_grad_norm_(weights, self.settings.grad_clip)
        self.adam.step()


@torch.no_grad()
def sample_steps(
    env: GpuClusterVectorEnv, network: PolicyNetwork, length: int, scale: float
) -> tuple[Columns, Columns, float]:
    """Step all episodes side by side with sampled actions.

    Returns:
        Observations [length + 1, B, ...], actions and their outcomes [length, B, ...], the environment's CPU seconds.
    """
    spent, seen, done = 0.0, [], []
    for _ in range(length + 1):
        seen.append({name: torch.tensor(array) for name, array in env.batch.observation.items()})
        if len(seen) > length:
            break
        log_probs = network.logits(seen[-1]).log_softmax(-1)
        actions = sample(log_probs)
        began = time.process_time()
        rewards, elapsed, ended = env.batch.step(actions.numpy())
        ends = torch.tensor(ended)
        for b in ends.nonzero()[:, 0].tolist():
            env.begin(b)
        spent += time.process_time() - began
        row = {"rewards": torch.tensor(rewards / scale), "elapsed": torch.tensor(elapsed), "ended": ends}
        done.append(row | {"actions": actions, "log_probs": chosen_log_probabilities(log_probs, actions)})
    return stack_rows(seen), stack_rows(done), spent


def stack_rows(rows: list[Columns]) -> Columns:
    """Turn a list of rows into columns."""
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def estimate_advantages(done: Columns, values: Tensor, settings: PPOSettings) -> Tensor:
    """GAE [length, B], discounted by simulated time; `values` [length + 1, B] in units of reward."""
    lengths = done["elapsed"] / settings.discount_time
    discount = torch.exp(-lengths) * ~done["ended"]
    average = torch.where(lengths > 0, -torch.expm1(-lengths) / lengths, 1.0)  # discount of rewards within a step
    errors = done["rewards"] * average + discount * values[1:] - values[:-1]
    found, carried = torch.empty_like(errors), torch.zeros_like(errors[0])
    for t in reversed(range(len(errors))):
        carried = errors[t] + discount[t] * settings.gae_lambda * carried
        found[t] = carried
    return found


def ppo_loss(network: PolicyNetwork, seen: Columns, done: Columns, settings: PPOSettings) -> Tensor:
    """PPO's loss as in `agents.methods.ppo.learner`: clipped policy loss per agent, Huber value loss and entropy bonus.

    Args:
        network: policy and critic.
        seen: observations [rows, ...].
        done: `actions` and their `log_probs` when sampled [rows, agents], `gains` and value `targets` [rows].
        settings: clip and weights.
    """
    log_probs = network.logits(seen).log_softmax(-1)
    ratio = (chosen_log_probabilities(log_probs, done["actions"]) - done["log_probs"]).exp()
    gain, clip = done["gains"].unsqueeze(1), settings.clip_param
    gained = torch.minimum(gain * ratio, gain * ratio.clamp(1 - clip, 1 + clip)).mean()
    missed = nn.functional.huber_loss(network.value(seen), done["targets"], delta=10.0)
    total: Tensor = settings.vf_loss_coeff * missed - gained - settings.entropy_coeff * entropies(log_probs).mean()
    return total
