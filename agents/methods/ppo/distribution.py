"""The joint action as one categorical choice per node, all nodes at once."""

from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.distribution.distribution import Distribution
from ray.rllib.core.distribution.torch.torch_distribution import TorchDeterministic
from torch import Tensor


def log_probabilities(logits: Tensor, num_nodes: int) -> Tensor:
    """Normalise logits [..., nodes * actions] to log-probabilities [..., nodes, actions]."""
    log_probs: Tensor = logits.unflatten(-1, (num_nodes, -1)).log_softmax(-1)
    return log_probs


def sample(log_probs: Tensor) -> Tensor:
    """Sample one action per node with the Gumbel-max trick: [..., nodes, actions] to int64[..., nodes]."""
    noise = torch.empty_like(log_probs).exponential_().log_()
    return (log_probs - noise).argmax(-1)


def chosen_log_probabilities(log_probs: Tensor, actions: Tensor) -> Tensor:
    """Return the log-probability of each node's action: [..., nodes, actions], [..., nodes] to [..., nodes]."""
    return log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)


def entropies(log_probs: Tensor) -> Tensor:
    """Return the entropy of each node's choice, [..., nodes]; masked actions contribute nothing."""
    return -(log_probs.exp() * log_probs.clamp(min=-30.0)).sum(-1)


class NodeCategorical(Distribution):
    """Independent categorical choices of `num_nodes` nodes with the same number of actions.

    RLlib's own multi-categorical loops over its components; this class uses a single tensor operation.
    """

    num_nodes: int  # set on a subclass, since RLlib builds distributions only from logits

    def __init__(self, log_probs: Tensor) -> None:
        self.log_probs = log_probs

    @classmethod
    def for_nodes(cls, num_nodes: int) -> type["NodeCategorical"]:
        """Return the subclass for a number of nodes."""
        return type(f"NodeCategorical{num_nodes}", (cls,), {"num_nodes": num_nodes})

    @classmethod
    def from_logits(cls, logits: Tensor, **_: Any) -> "NodeCategorical":
        """Build the distribution from flat logits [..., nodes * actions]."""
        return cls(log_probabilities(logits, cls.num_nodes))

    @staticmethod
    def required_input_dim(space: gym.Space[Any], **_: Any) -> int:
        """Return the number of logits that a `MultiDiscrete` space needs."""
        assert isinstance(space, gym.spaces.MultiDiscrete)
        return int(space.nvec.sum())

    def sample(self, **_: Any) -> Tensor:
        """Sample int64[..., nodes]."""
        return sample(self.log_probs)

    def rsample(self, **_: Any) -> Tensor:
        """Raise an error: discrete choices have no reparametrised sample."""
        raise TypeError("a categorical choice cannot be reparametrised; use sample()")

    def logp(self, value: Tensor, **_: Any) -> Tensor:
        """Return the joint log-probability [...]: the sum over nodes."""
        return chosen_log_probabilities(self.log_probs, value).sum(-1)

    def entropy(self, **_: Any) -> Tensor:
        """Return the joint entropy [...]."""
        return entropies(self.log_probs).sum(-1)

    def kl(self, other: "NodeCategorical", **_: Any) -> Tensor:
        """Return the joint Kullback-Leibler divergence to another distribution, [...]."""
        difference = (self.log_probs - other.log_probs).clamp(-30.0, 30.0)
        return (self.log_probs.exp() * difference).sum((-1, -2))

    def to_deterministic(self) -> TorchDeterministic:
        """Return the likeliest choice of every node."""
        return TorchDeterministic(loc=self.log_probs.argmax(-1))
