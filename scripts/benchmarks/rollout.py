"""Sampling in one plain loop: steps of all episodes side by side, and what they were worth."""

import time

import torch
from torch import Tensor

from agents.networks import PolicyNetwork
from agents.rllib import PPOSettings
from agents.rllib.distribution import chosen, sample
from envs.gpu_cluster.vector import GpuClusterVectorEnv

Columns = dict[str, Tensor]


@torch.no_grad()
def play(env: GpuClusterVectorEnv, network: PolicyNetwork, length: int, scale: float) -> tuple[Columns, Columns, float]:
    """Observations [length + 1, B, ...], what was done at each step [length, B, ...], the environment's CPU seconds."""
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
        done.append(row | {"actions": actions, "log_probs": chosen(log_probs, actions)})
    return stacked(seen), stacked(done), spent


def stacked(rows: list[Columns]) -> Columns:
    """Rows of columns as columns of rows."""
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def advantages(done: Columns, values: Tensor, settings: PPOSettings) -> Tensor:
    """GAE [length, B], discounted by simulated time; `values` [length + 1, B] in units of reward."""
    lengths = done["elapsed"] / settings.discount_time
    discount = torch.exp(-lengths) * ~done["ended"]
    worth = torch.where(lengths > 0, -torch.expm1(-lengths) / lengths, 1.0)  # of what comes in during a step
    surprise = done["rewards"] * worth + discount * values[1:] - values[:-1]
    found, carried = torch.empty_like(surprise), torch.zeros_like(surprise[0])
    for t in reversed(range(len(surprise))):
        carried = surprise[t] + discount[t] * settings.gae_lambda * carried
        found[t] = carried
    return found
