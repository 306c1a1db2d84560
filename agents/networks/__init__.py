"""Networks in pure torch: encoders, attention among nodes, the policy. Imports neither ray nor RLlib."""

from agents.networks.blueprint import Blueprint
from agents.networks.check import check_bid_network, check_network
from agents.networks.layers import NodeAttention, Perceptron, pool
from agents.networks.policy import AttentionPolicy
from agents.networks.protocol import (
    MASKED,
    AdjustableSharpness,
    NetworkError,
    PolicyNetwork,
    SeparateCritic,
    critic_of,
    missing_protocols,
    sharpness_of,
)

__all__ = [
    "MASKED",
    "AdjustableSharpness",
    "AttentionPolicy",
    "Blueprint",
    "NetworkError",
    "NodeAttention",
    "Perceptron",
    "PolicyNetwork",
    "SeparateCritic",
    "check_bid_network",
    "check_network",
    "critic_of",
    "missing_protocols",
    "pool",
    "sharpness_of",
]
