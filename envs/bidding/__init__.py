"""The bidding environment: nodes bid for jobs, a market clears; PettingZoo and Gymnasium forms, observations, graph."""

from envs.bidding.auction import Auction, BiddingRound, BidObservation
from envs.bidding.batch import BiddingBatch
from envs.bidding.environment import BiddingEnv, bidding_env, env, parallel_env, raw_env
from envs.bidding.settings import BiddingSettings
from envs.bidding.spec import BiddingRules, BiddingSpec
from envs.bidding.vector import BiddingVectorEnv

__all__ = ["Auction", "BidObservation", "BiddingBatch", "BiddingEnv", "BiddingRound", "BiddingRules", "BiddingSettings"]
__all__ += ["BiddingSpec", "BiddingVectorEnv", "bidding_env", "env", "parallel_env", "raw_env"]
