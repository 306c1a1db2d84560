"""Trained bidding policies: as schedulers, and as checkpoints."""

from agents.bidding.checkpoint import BiddingCheckpoint
from agents.bidding.scheduler import BiddingScheduler

__all__ = ["BiddingCheckpoint", "BiddingScheduler"]
