"""The default network: servers that attend to each other and point at jobs."""

from typing import Protocol

import torch
from torch import Tensor, nn

from agents.networks.layers import Perceptron, ServerAttention, pool
from envs.gpu_cluster import EnvSpec
from envs.types import MurmurationError

MASKED = -1e9  # logit of an action that is not allowed


class PolicyNetwork(Protocol):
    """What training and evaluation need of a network; any `torch.nn.Module` with these two methods will do.

    `observation` holds float32 tensors `servers` [B, N, F_server], `slots` [B, N, R, F_slot], `queue` [B, K, F_job],
    `cluster` [B, F_cluster] and int8 `mask` [B, N, A]: see `EnvSpec`.
    """

    def logits(self, observation: dict[str, Tensor]) -> Tensor:
        """Scores [B, N, A] of every server's actions, `MASKED` where they are not allowed."""
        ...

    def value(self, observation: dict[str, Tensor]) -> Tensor:
        """Central value estimate [B] of the joint observation, in normalised units."""
        ...


class Critic(nn.Module):
    """Central value function: pools running jobs into servers, servers and the queue into one estimate."""

    def __init__(self, spec: EnvSpec, width: int) -> None:
        super().__init__()
        self.encode_queue = Perceptron(spec.job_features, width)
        self.encode_slots = Perceptron(spec.slot_features, width)
        self.encode_server = Perceptron(spec.server_features + 2 * width, width)
        self.head = nn.Sequential(nn.Linear(spec.cluster_features + 4 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Estimates [B]."""
        queue, slots, servers = observation["queue"], observation["slots"], observation["servers"]
        waiting = pool(self.encode_queue(queue), queue[..., 0])
        running = pool(self.encode_slots(slots), slots[..., 0])
        states = self.encode_server(torch.cat([servers, running], -1))
        everything = pool(states, torch.ones_like(states[..., 0]))
        estimate: Tensor = self.head(torch.cat([observation["cluster"], waiting, everything], -1)).squeeze(-1)
        return estimate


class AttentionPolicy(nn.Module):
    """One policy shared by all servers, with a central value function.

    Jobs are encoded once: the queue's by one perceptron, each server's running jobs by another. A server's state is
    its own features with pooled jobs and what all share; `layers` of attention mix servers. A server then scores every
    pair of a candidate and a number of GPUs from its own state and the candidate's (a pointer). Works for any number of
    servers, candidates and slots; the number of GPU types and the largest node are fixed. The central value function is
    a network of its own: a shared trunk would let the critic's first, large errors undo what imitation taught.

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
        if min(width, heads) < 1 or layers < 0 or width % heads or not sharpness > 0:
            raise MurmurationError(
                f"network: width {width}, layers {layers}, heads {heads}, sharpness {sharpness}; "
                "width must be a positive multiple of heads, layers not negative, sharpness positive"
            )
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
        self.critic = Critic(spec, width)
        self.register_buffer("sharpness", torch.tensor(float(sharpness)))

    def logits(self, observation: dict[str, Tensor]) -> Tensor:
        """Scores [B, N, A] of every server's actions, `MASKED` where they are not allowed."""
        queue, slots = observation["queue"], observation["slots"]
        jobs = self.encode_queue(queue)
        running = self.encode_slots(slots)
        servers = self.attend(
            observation["servers"], pool(running, slots[..., 0]), pool(jobs, queue[..., 0]), observation["cluster"]
        )
        return self.point(servers, jobs, running, observation["mask"])

    def value(self, observation: dict[str, Tensor]) -> Tensor:
        """Central value estimate [B] of the joint observation, in normalised units."""
        estimate: Tensor = self.critic(observation)
        return estimate

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
