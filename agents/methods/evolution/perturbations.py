"""Random changes of a network's weights, of low rank, with which many variants of one network share a forward pass.

Variant i of a linear layer with weights W has the weights W + s_i * sigma * A_i B_i^T / sqrt(rank), where A_i and B_i
are standard normal with `rank` columns and s_i is 1 or -1. Its output is x W^T + s_i * sigma * (x B_i) A_i^T /
sqrt(rank): the first term is one product for all variants, the second costs little. The form is that of EGGROLL
("Evolution Strategies at the Hyperscale", 2025).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from envs.types import FloatArray, MurmurationError


class LayerPerturbations(NamedTuple):
    """The changes of one linear layer, for every pair of variants.

    Attributes:
        left: float32[num_pairs, width_out, rank].
        right: float32[num_pairs, width_in, rank].
        bias: float32[num_pairs, width_out]; empty if the layer has no bias.
    """

    left: Tensor
    right: Tensor
    bias: Tensor


class LowRankPerturbations:
    """Antithetic pairs of variants of a network: variant 2 i adds change i to the weights, variant 2 i + 1 deducts it.

    All `torch.nn.Linear` layers change, or those that are named, weights and biases; other parameters, such as those of
    a layer norm, stay.
    Inside `applied`, the network's input must have one row per world along its first axis, and each of its linear
    layers must keep this axis first.

    Args:
        network: the network; it is never written to.
        num_pairs: number of pairs of variants.
        sigma: standard deviation of a changed weight.
        rank: rank of a change of a weight matrix. With 1 a change is an outer product; a sum over many pairs has full
            rank all the same.
        rng: generator of the changes.
        layers: names of the linear layers that change; empty for all.

    Raises:
        MurmurationError: a number is out of range, or the network has no linear layer, or none of a name.
    """

    def __init__(
        self,
        network: nn.Module,
        num_pairs: int,
        sigma: float,
        rank: int,
        rng: np.random.Generator,
        layers: Sequence[str] = (),
    ) -> None:
        if num_pairs < 1 or rank < 1 or not sigma > 0:
            raise MurmurationError(
                f"evolution: num_pairs is {num_pairs}, rank {rank} and sigma {sigma}; all must be positive"
            )
        self._layers = dict(linear_layers(network))
        if not self._layers:
            raise MurmurationError("evolution: the network has no torch.nn.Linear layer, so nothing could be trained")
        unknown = sorted(set(layers) - set(self._layers))
        if unknown:
            raise MurmurationError(
                f"evolution.layers: the network has no linear layer {', '.join(unknown)}; its linear layers are "
                f"{', '.join(self._layers)}"
            )
        if layers:
            self._layers = {name: layer for name, layer in self._layers.items() if name in layers}
        self.num_pairs, self.sigma, self.rank = num_pairs, sigma, rank
        self.changes = {name: self._draw(layer, rng) for name, layer in self._layers.items()}

    def _draw(self, layer: nn.Linear, rng: np.random.Generator) -> LayerPerturbations:
        def normal(*shape: int) -> Tensor:
            return torch.from_numpy(rng.standard_normal((self.num_pairs, *shape), dtype=np.float32))

        biases = layer.out_features if layer.bias is not None else 0
        return LayerPerturbations(
            normal(layer.out_features, self.rank), normal(layer.in_features, self.rank), normal(biases)
        )

    @contextmanager
    def applied(self, variants: Tensor) -> Iterator[None]:
        """Compute each world under its own variant of the network, inside the context.

        Args:
            variants: int64[num_worlds], the variant of each row of the input, from 0 to 2 * num_pairs - 1.
        """
        pairs, signs = variants // 2, 1.0 - 2.0 * (variants % 2).to(torch.float32)
        handles = []
        for name, layer in self._layers.items():
            change = self.changes[name]
            scale = signs * (self.sigma / self.rank**0.5)
            left = change.left[pairs].transpose(1, 2) * scale[:, None, None]
            bias = change.bias[pairs] * (signs * self.sigma)[:, None] if change.bias.numel() else None
            handles.append(layer.register_forward_hook(_Addition(left, change.right[pairs], bias)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def gradient(self, weights: FloatArray) -> dict[str, Tensor]:
        """Estimate the gradient of a figure of merit with respect to the weights, by parameter name.

        Args:
            weights: float64[num_pairs], half the difference in merit between the two variants of each pair.

        Returns:
            sum over pairs of weights * change / (num_pairs * sigma), float32 in each parameter's shape.
        """
        share = torch.from_numpy(np.asarray(weights, np.float32)) / (self.num_pairs * self.sigma)
        found: dict[str, Tensor] = {}
        for name, change in self.changes.items():
            scaled = change.left * (share / self.rank**0.5)[:, None, None]
            found[f"{name}.weight" if name else "weight"] = torch.einsum("por,pir->oi", scaled, change.right)
            if change.bias.numel():
                found[f"{name}.bias" if name else "bias"] = share @ change.bias
        return found

    def variant(self, index: int) -> Mapping[str, Tensor]:
        """Return the changed parameters of one variant by name; slow, to check `applied` and to save a variant."""
        pair, sign = index // 2, 1.0 - 2.0 * (index % 2)
        found: dict[str, Tensor] = {}
        for name, layer in self._layers.items():
            change, prefix = self.changes[name], f"{name}." if name else ""
            outer = change.left[pair] @ change.right[pair].T
            found[f"{prefix}weight"] = layer.weight.detach() + sign * self.sigma / self.rank**0.5 * outer
            if layer.bias is not None:
                found[f"{prefix}bias"] = layer.bias.detach() + sign * self.sigma * change.bias[pair]
        return found


class _Addition:
    """A forward hook that adds each world's own change to the output of a linear layer."""

    def __init__(self, left: Tensor, right: Tensor, bias: Tensor | None) -> None:
        self._left, self._right, self._bias = left, right, bias

    def __call__(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        if len(x) != len(self._left):
            raise MurmurationError(
                f"evolution: a linear layer received {len(x)} rows for {len(self._left)} worlds; the network must keep "
                "one row per world along the first axis of every linear layer's input"
            )
        rows = x.reshape(len(x), -1, x.shape[-1])
        added = torch.bmm(torch.bmm(rows, self._right), self._left)
        if self._bias is not None:
            added += self._bias[:, None]
        return output + added.reshape(output.shape)


def linear_layers(network: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """Yield the linear layers of a network with their names, in the order of its modules."""
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            yield name, module
