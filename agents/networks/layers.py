"""Building blocks: a perceptron, pooling over a masked set, attention among nodes."""

import torch
from torch import Tensor, nn


class Perceptron(nn.Sequential):
    """Two linear layers, each followed by a ReLU: [..., width_in] to [..., width_out]."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__(nn.Linear(width_in, width_out), nn.ReLU(), nn.Linear(width_out, width_out), nn.ReLU())


def pool(items: Tensor, present: Tensor) -> Tensor:
    """Take mean and maximum over present items: [..., items, d], [..., items] to [..., 2 d]; zeros if there is none."""
    weight = present.unsqueeze(-1)
    mean = (items * weight).sum(-2) / weight.sum(-2).clamp(min=1.0)
    largest = (items * weight).amax(-2)  # items come from a ReLU, so zero is their minimum
    return torch.cat([mean, largest], -1)


class NodeAttention(nn.Module):
    """Attention among nodes: pre-norm multi-head self-attention and a perceptron, both residual.

    A reconstruction of MAIFS' multi-agent attention (TPDS'25; the paper's equations are not public): query, key and
    value as in MAAC (ICML'19, section 3.2), applied to the nodes' observations rather than to their critics.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.before_perceptron = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, nodes: Tensor) -> Tensor:
        """Map [batch, nodes, width] to the same shape."""
        batch, count, width = nodes.shape
        parts = self.query_key_value(self.before_attention(nodes))
        query, key, value = parts.view(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        nodes = nodes + self.out(mixed.transpose(1, 2).reshape(batch, count, width))
        result: Tensor = nodes + self.perceptron(self.before_perceptron(nodes))
        return result
