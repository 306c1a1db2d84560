"""The observation and the coordination graph in plain Python; the kernels' results must be equal as float32."""

from envs.bidding.reference.graph import reference_edges
from envs.bidding.reference.observation import BidObserver

__all__ = ["BidObserver", "reference_edges"]
