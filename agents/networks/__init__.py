"""Networks in pure torch: bids, scores of options, attention among nodes. Imports neither ray nor RLlib."""

from agents.networks.blueprint import Blueprint
from agents.networks.check import NetworkError, check_bid_network, check_option_network

__all__ = ["Blueprint", "NetworkError", "check_bid_network", "check_option_network"]
