"""Pure torch: encoders, attention among servers, the policy. Knows neither ray nor RLlib."""

from agents.networks.blueprint import Blueprint
from agents.networks.layers import Perceptron, ServerAttention, pool
from agents.networks.policy import MASKED, AttentionPolicy, PolicyNetwork

__all__ = ["MASKED", "AttentionPolicy", "Blueprint", "Perceptron", "PolicyNetwork", "ServerAttention", "pool"]
