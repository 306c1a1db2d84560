"""The joint action as one categorical choice per server, all servers at once."""

from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.distribution.distribution import Distribution
from ray.rllib.core.distribution.torch.torch_distribution import TorchDeterministic
from torch import Tensor


def log_probabilities(logits: Tensor, num_servers: int) -> Tensor:
    """[..., servers * actions] to normalised log-probabilities [..., servers, actions]."""
    log_probs: Tensor = logits.unflatten(-1, (num_servers, -1)).log_softmax(-1)
    return log_probs


def sample(log_probs: Tensor) -> Tensor:
    """One draw per server by the Gumbel maximum: [..., servers, actions] to int64[..., servers]."""
    noise = torch.empty_like(log_probs).exponential_().log_()
    return (log_probs - noise).argmax(-1)


def chosen(log_probs: Tensor, actions: Tensor) -> Tensor:
    """Log-probability of each server's action: [..., servers, actions], [..., servers] to [..., servers]."""
    return log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)


def entropies(log_probs: Tensor) -> Tensor:
    """Entropy of each server's choice, [..., servers]; masked actions count nothing."""
    return -(log_probs.exp() * log_probs.clamp(min=-30.0)).sum(-1)


class ServerCategorical(Distribution):
    """Independent categorical choices of `num_servers` servers with equally many actions.

    RLlib's own multi-categorical loops over its heads; this one is a single tensor operation.
    """

    num_servers: int  # set on a subclass, since RLlib builds distributions from logits alone

    def __init__(self, log_probs: Tensor) -> None:
        self.log_probs = log_probs

    @classmethod
    def for_servers(cls, num_servers: int) -> type["ServerCategorical"]:
        """The class for a number of servers."""
        return type(f"ServerCategorical{num_servers}", (cls,), {"num_servers": num_servers})

    @classmethod
    def from_logits(cls, logits: Tensor, **_: Any) -> "ServerCategorical":
        """From flat logits [..., servers * actions]."""
        return cls(log_probabilities(logits, cls.num_servers))

    @staticmethod
    def required_input_dim(space: gym.Space[Any], **_: Any) -> int:
        """Number of logits that a `MultiDiscrete` space needs."""
        assert isinstance(space, gym.spaces.MultiDiscrete)
        return int(space.nvec.sum())

    def sample(self, **_: Any) -> Tensor:
        """int64[..., servers]."""
        return sample(self.log_probs)

    def rsample(self, **_: Any) -> Tensor:
        """Choices are discrete and have no reparametrised sample."""
        raise TypeError("a categorical choice cannot be reparametrised; use sample()")

    def logp(self, value: Tensor, **_: Any) -> Tensor:
        """Joint log-probability [...]: the sum over servers."""
        return chosen(self.log_probs, value).sum(-1)

    def entropy(self, **_: Any) -> Tensor:
        """Joint entropy [...]."""
        return entropies(self.log_probs).sum(-1)

    def kl(self, other: "ServerCategorical", **_: Any) -> Tensor:
        """Joint Kullback-Leibler divergence to another distribution, [...]."""
        difference = (self.log_probs - other.log_probs).clamp(-30.0, 30.0)
        return (self.log_probs.exp() * difference).sum((-1, -2))

    def to_deterministic(self) -> TorchDeterministic:
        """The likeliest choice of every server."""
        return TorchDeterministic(loc=self.log_probs.argmax(-1))
