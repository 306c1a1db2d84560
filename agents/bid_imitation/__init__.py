"""Imitation of any scheduler through bids: a policy learns bids on which its market decides as the scheduler does."""

from agents.bid_imitation.agreement import ANSWERS, describe_agreement, measure_agreement
from agents.bid_imitation.learning import imitate_bids
from agents.bid_imitation.lesson import Lesson
from agents.bid_imitation.settings import BidImitationSettings
from agents.bid_imitation.targets import correct, find_bids

__all__ = [
    "ANSWERS",
    "BidImitationSettings",
    "Lesson",
    "correct",
    "describe_agreement",
    "find_bids",
    "imitate_bids",
    "measure_agreement",
]
