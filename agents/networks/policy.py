"""The default network: servers that attend to each other and point at jobs."""

from typing import Protocol

import torch
from torch import Tensor, nn

from agents.networks.layers import Perceptron, ServerAttention, pool
from envs.gpu_cluster import EnvSpec

MASKED = -1e9  # logit of an action that is not allowed


class PolicyNetwork(Protocol):
    """What training and evaluation need of a network; any `torch.nn.Module` with these two methods will do.

    `observation` holds float32 tensors `servers` [B, N, F_server], `slots` [B, N, R, F_slot], `queue` [B, K, F_job],
    `cluster` [B, F_cluster] and int8 `mask` [B, N, A]: see `EnvSpec`.
    """

    def encode(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Logits [B, N, A], masked, and an embedding for `value`."""
        ...

    def value(self, embedding: Tensor) -> Tensor:
        """Central value estimate [B], in normalised units."""
        ...


class AttentionPolicy(nn.Module):
    """One policy shared by all servers, with a central value function.

    Jobs are encoded once: the queue's by one perceptron, each server's running jobs by another. A server's state is
    its own features with pooled jobs and what all share; `layers` of attention mix servers. A server then scores every
    pair of a candidate and a number of GPUs from its own state and the candidate's (a pointer). Works for any number of
    servers, candidates and slots; the number of GPU types and the largest node are fixed.

    Args:
        spec: sizes of observation and action.
        width: of all hidden states.
        layers: rounds of attention among servers; 0 leaves servers to themselves.
        heads: of the attention.
        sharpness: factor on all logits. A clone sampled at 1 plays far worse than its arg-max (see `agents.imitation`).
    """

    sharpness: Tensor

    def __init__(self, spec: EnvSpec, width: int = 64, layers: int = 2, heads: int = 4, sharpness: float = 1.0) -> None:
        super().__init__()
        self.spec = spec
        amounts = (spec.node_gpus + 1) * spec.num_levels
        self.encode_queue = Perceptron(spec.job_features, width)
        self.encode_slots = Perceptron(spec.slot_features, width)
        self.encode_server = Perceptron(spec.server_features + spec.cluster_features + 4 * width, width)
        self.attention = nn.ModuleList(ServerAttention(width, heads) for _ in range(layers))
        self.final_norm = nn.LayerNorm(width)
        self.pointer_server = nn.Linear(width, width)
        self.pointer_queue = nn.Linear(width, width, bias=False)
        self.pointer_slot = nn.Linear(width, width, bias=False)
        self.amounts = nn.Linear(width, amounts)
        self.nothing = nn.Linear(width, 1)
        self.value_head = nn.Sequential(
            nn.Linear(spec.cluster_features + 4 * width, width), nn.ReLU(), nn.Linear(width, 1)
        )
        self.register_buffer("sharpness", torch.tensor(float(sharpness)))

    def encode(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Logits [B, N, A], masked, and the embedding [B, F_cluster + 4 width] of the whole cluster."""
        queue, slots = observation["queue"], observation["slots"]
        shared = observation["cluster"]
        jobs = self.encode_queue(queue)
        running = self.encode_slots(slots)
        waiting = pool(jobs, queue[..., 0])
        servers = self.attend(observation["servers"], pool(running, slots[..., 0]), waiting, shared)
        everything = torch.ones_like(servers[..., 0])
        embedding = torch.cat([shared, waiting, pool(torch.relu(servers), everything)], -1)
        return self.point(servers, jobs, running, observation["mask"]), embedding

    def attend(self, servers: Tensor, running: Tensor, waiting: Tensor, shared: Tensor) -> Tensor:
        """States of all servers [B, N, width], each knowing the others'."""
        common = torch.cat([waiting, shared], -1).unsqueeze(1).expand(-1, servers.shape[1], -1)
        states = self.encode_server(torch.cat([servers, running, common], -1))
        for layer in self.attention:
            states = layer(states)
        normed: Tensor = self.final_norm(states)
        return normed

    def point(self, servers: Tensor, jobs: Tensor, running: Tensor, mask: Tensor) -> Tensor:
        """Logits [B, N, A] of nothing and of every (candidate, GPUs) pair."""
        own = self.pointer_server(servers).unsqueeze(2)
        queue = self.pointer_queue(jobs).unsqueeze(1)
        choices = torch.cat([own + queue, own + self.pointer_slot(running)], 2)
        scores = self.amounts(torch.relu(choices)).flatten(2)
        logits = torch.cat([self.nothing(torch.relu(servers)), scores], -1) * self.sharpness
        return logits.masked_fill(mask == 0, MASKED)

    def value(self, embedding: Tensor) -> Tensor:
        """Central value estimate [B], in normalised units."""
        estimate: Tensor = self.value_head(embedding).squeeze(-1)
        return estimate
