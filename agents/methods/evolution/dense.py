"""Random changes of all weights of a network, for networks that are played one after another."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from envs.types import FloatArray


class DensePerturbations:
    """Antithetic pairs of variants: variant 2 i adds change i to all weights, variant 2 i + 1 deducts it.

    As in Salimans et al. (2017, section 2): every weight changes by normal noise of its own.

    Args:
        network: the network; it is never written to.
        num_pairs: number of pairs of variants.
        sigma: standard deviation of a changed weight.
        rng: generator of the changes.
    """

    def __init__(self, network: nn.Module, num_pairs: int, sigma: float, rng: np.random.Generator) -> None:
        self._state = {name: value.detach() for name, value in network.state_dict().items()}
        self.num_pairs, self.sigma = num_pairs, sigma
        self.changes = {
            name: torch.from_numpy(rng.standard_normal((num_pairs, *value.shape), dtype=np.float32))
            for name, value in network.named_parameters()
        }

    def gradient(self, weights: FloatArray) -> dict[str, Tensor]:
        """Return sum over pairs of weights * change / (num_pairs * sigma), float32 in each parameter's shape.

        Args:
            weights: float64[num_pairs], half the difference in merit between the two variants of each pair.
        """
        share = torch.from_numpy(np.asarray(weights, np.float32)) / (self.num_pairs * self.sigma)
        return {name: torch.tensordot(share, change, 1) for name, change in self.changes.items()}

    def variant(self, index: int) -> Mapping[str, Tensor]:
        """Return all weights of a variant, by name."""
        pair, sign = index // 2, 1.0 - 2.0 * (index % 2)
        changed = {name: self._state[name] + sign * self.sigma * change[pair] for name, change in self.changes.items()}
        return self._state | changed
