"""Trained bidding policies: as schedulers, and as checkpoints."""

from agents.policies.bid_checkpoint import BiddingCheckpoint
from agents.policies.bid_scheduler import BiddingScheduler

__all__ = ["BiddingCheckpoint", "BiddingScheduler"]
