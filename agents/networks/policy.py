"""The default network: nodes attend to each other and point at jobs."""

import torch
from torch import Tensor, nn

from agents.networks.layers import NodeAttention, Perceptron, pool
from agents.networks.protocol import MASKED
from envs.gpu_cluster import EnvSpec
from envs.gpu_cluster.columns import JOB_PRESENT
from envs.types import MurmurationError


class Critic(nn.Module):
    """Central value function. It pools running jobs into nodes, then nodes and the queue into one estimate."""

    def __init__(self, spec: EnvSpec, width: int) -> None:
        super().__init__()
        self.encode_queue = Perceptron(spec.job_features, width)
        self.encode_slots = Perceptron(spec.slot_features, width)
        self.encode_node = Perceptron(spec.node_features + 2 * width, width)
        self.head = nn.Sequential(nn.Linear(spec.cluster_features + 4 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Return estimates [B]."""
        queue, slots, nodes = observation["queue"], observation["slots"], observation["nodes"]
        waiting = pool(self.encode_queue(queue), queue[..., JOB_PRESENT])
        running = pool(self.encode_slots(slots), slots[..., JOB_PRESENT])
        states = self.encode_node(torch.cat([nodes, running], -1))
        everything = pool(states, torch.ones_like(states[..., 0]))
        estimate: Tensor = self.head(torch.cat([observation["cluster"], waiting, everything], -1)).squeeze(-1)
        return estimate


class AttentionPolicy(nn.Module):
    """One policy shared by all nodes, with a separate central value function.

    Each job is encoded once: waiting jobs by one perceptron, running jobs by another. A node's state combines its own
    features, pooled jobs and the shared features; `layers` of attention mix the nodes' states. A node then scores every
    pair of a candidate and a number of GPUs from its own state and the candidate's (a pointer), and from what the
    candidate and the jobs on the node would do to each other, where observations have `effects`. The network works for
    any number of nodes, candidates and slots; the number of GPU types and the largest node are fixed. The value
    function shares no weights with the policy, since the critic's large first errors would undo the imitation.

    It implements `PolicyNetwork` and both optional protocols, `SeparateCritic` and `AdjustableSharpness`.

    Args:
        spec: sizes of observation and action.
        width: size of all hidden states.
        layers: number of attention layers; with 0, nodes do not see each other.
        heads: number of attention heads.
        sharpness: factor on all logits, see `AdjustableSharpness`.
    """

    sharpness: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        sharpness: float = 1.0,
    ) -> None:
        super().__init__()
        if min(width, heads) < 1 or layers < 0 or width % heads or not sharpness > 0:
            raise MurmurationError(
                f"network: width {width}, layers {layers}, heads {heads}, sharpness {sharpness}; "
                "width must be a positive multiple of heads, layers not negative, sharpness positive"
            )
        self.spec = spec
        self.encode_queue = Perceptron(spec.job_features, width)
        self.encode_slots = Perceptron(spec.slot_features, width)
        self.encode_node = Perceptron(spec.node_features + spec.cluster_features + 4 * width, width)
        self.attention = nn.ModuleList(NodeAttention(width, heads) for _ in range(layers))
        self.final_norm = nn.LayerNorm(width)
        self.pointer_node = nn.Linear(width, width)
        self.pointer_queue = nn.Linear(width, width, bias=False)
        self.pointer_slot = nn.Linear(width, width, bias=False)
        self.encode_effects = Perceptron(spec.effect_features, width) if spec.effects else None
        self.amounts = nn.Linear(width, spec.node_gpus + 1)
        self.nothing = nn.Linear(width, 1)
        self.critic = Critic(spec, width)
        self.register_buffer("sharpness", torch.tensor(float(sharpness)))

    def logits(self, observation: dict[str, Tensor]) -> Tensor:
        """Return scores [B, N, A] of every node's actions, `MASKED` where they are not allowed."""
        return self.score(observation)[0]

    def score(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores [B, N, A], the states of nodes [B, N, width] and those of their choices [B, N, C, width]."""
        queue, slots = observation["queue"], observation["slots"]
        jobs = self.encode_queue(queue)
        running = self.encode_slots(slots)
        nodes = self.attend(
            observation["nodes"],
            pool(running, slots[..., JOB_PRESENT]),
            pool(jobs, queue[..., JOB_PRESENT]),
            observation["cluster"],
        )
        effects = None if self.encode_effects is None else self.encode_effects(observation["effects"])
        choices = self.point(nodes, jobs, running, effects)
        scores = self.amounts(torch.relu(choices)).flatten(2)
        logits = torch.cat([self.nothing(torch.relu(nodes)), scores], -1) * self.sharpness
        return logits.masked_fill(observation["mask"] == 0, MASKED), nodes, choices

    def value(self, observation: dict[str, Tensor]) -> Tensor:
        """Return a central value estimate [B] of the joint observation, in normalised units."""
        estimate: Tensor = self.critic(observation)
        return estimate

    def attend(self, nodes: Tensor, running: Tensor, waiting: Tensor, shared: Tensor) -> Tensor:
        """Return the states of all nodes [B, N, width] after attention."""
        common = torch.cat([waiting, shared], -1).unsqueeze(1).expand(-1, nodes.shape[1], -1)
        states = self.encode_node(torch.cat([nodes, running, common], -1))
        for layer in self.attention:
            states = layer(states)
        normed: Tensor = self.final_norm(states)
        return normed

    def point(self, nodes: Tensor, jobs: Tensor, running: Tensor, effects: Tensor | None = None) -> Tensor:
        """Return the states [B, N, C, width] of every node's choices: candidates, then slots."""
        own = self.pointer_node(nodes).unsqueeze(2)
        queue = self.pointer_queue(jobs).unsqueeze(1)
        choices = torch.cat([own + queue, own + self.pointer_slot(running)], 2)
        return choices if effects is None else choices + effects
