"""Attention among nodes along the edges of a coordination graph that changes from round to round."""

import math

import torch
from torch import Tensor, nn

from envs.types import MurmurationError


class GraphAttention(nn.Module):
    """One round of messages: each node attends to its neighbours in the graph and adds what it receives.

    For an edge from node s to node t with features e, and for each head,

        score(s, t) = q_t . k_s / sqrt(d) + w . e,    message to t = sum over s of softmax_s(score(s, t)) v_s,

    so time and memory are linear in the number of edges. A node without neighbours keeps its state. The output layer
    starts at zero, so that the round changes nothing before it is trained.

    A reconstruction: MAIFS (TPDS'25) combines multi-agent attention with a dynamic coordination graph, and its
    equations are not public. The form is that of graph attention with edge features (GATv2, ICLR'22; here with dot
    products as in DICG, AAMAS'21, which attends over all pairs instead).

    Args:
        width: width of the nodes' states; a multiple of `heads`.
        edge_features: number of features of an edge.
        heads: number of attention heads.

    Raises:
        MurmurationError: a size is out of range.
    """

    def __init__(self, width: int, edge_features: int, heads: int = 2) -> None:
        super().__init__()
        if min(width, heads, edge_features) < 1 or width % heads:
            raise MurmurationError(
                f"network: width {width}, heads {heads}, {edge_features} features of edges; width must be a positive "
                "multiple of heads, and edges need a feature"
            )
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.edge_score = nn.Linear(edge_features, heads)
        self.out = nn.Linear(width, width)
        start_at_zero(self.out)

    def forward(self, nodes: Tensor, edges: Tensor, features: Tensor) -> Tensor:
        """Map states [B, N, width] to states of the same shape.

        Args:
            nodes: float32[B, N, width].
            edges: int[B, 2, E], sources and targets of the edges, -1 where a world has fewer than E.
            features: float32[B, E, edge_features].
        """
        mixed, _ = self.attend(nodes, edges, features)
        added: Tensor = nodes + self.out(mixed)
        return added

    def attend(self, nodes: Tensor, edges: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the messages [B, N, width] and the weights of the edges [B, E, heads]; 0 for missing edges."""
        batch, count, width = nodes.shape
        parts = self.query_key_value(nodes).view(batch, count, 3, self.heads, width // self.heads)
        query, key, value = (parts[:, :, i].flatten(0, 1) for i in range(3))  # each [B N, heads, d]
        there = (edges >= 0).all(1)
        first = torch.arange(batch, device=edges.device)[:, None] * count
        source, target = ((edges[:, i].long().clamp(min=0) + first).flatten() for i in range(2))
        score = (query[target] * key[source]).sum(-1) / math.sqrt(width // self.heads)
        score = score + self.edge_score(features).flatten(0, 1)
        score = score.masked_fill(~there.flatten()[:, None], -torch.inf)
        weight = softmax_by_target(score, target, batch * count)
        received = torch.zeros_like(value).index_add(0, target, weight[..., None] * value[source])
        return received.view(batch, count, width), weight.view(batch, edges.shape[2], self.heads)


class DenseAttention(nn.Module):
    """One round of messages in which every node attends to all nodes of its world; edges are ignored.

    The alternative to `GraphAttention` for comparison: time and memory are quadratic in the number of nodes.
    """

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        if min(width, heads) < 1 or width % heads:
            raise MurmurationError(f"network: width {width} must be a positive multiple of heads, {heads}")
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        start_at_zero(self.out)

    def forward(self, nodes: Tensor, edges: Tensor, features: Tensor) -> Tensor:
        """Map states [B, N, width] to states of the same shape."""
        batch, count, width = nodes.shape
        parts = self.query_key_value(nodes).view(batch, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        added: Tensor = nodes + self.out(mixed.transpose(1, 2).reshape(batch, count, width))
        return added


def softmax_by_target(score: Tensor, target: Tensor, num_targets: int) -> Tensor:
    """Softmax of scores [E, heads] over the edges of each target; 0 where the score is minus infinity."""
    top = torch.full((num_targets, score.shape[1]), -torch.inf, dtype=score.dtype, device=score.device)
    top = top.scatter_reduce(0, target[:, None].expand_as(score), score, "amax")
    shifted = torch.where(score == -torch.inf, score, score - top[target].clamp(min=-1e30))
    exponential = shifted.exp()
    total = torch.zeros_like(top).index_add(0, target, exponential)
    return exponential / total[target].clamp(min=1e-30)


def start_at_zero(layer: nn.Linear) -> None:
    """Set all weights of a layer to zero."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
