"""Settings of the bidding environment, which are not part of the simulation."""

from dataclasses import dataclass, field

from envs.bidding.spec import BiddingRules
from envs.episodes import Reward


@dataclass(frozen=True, slots=True)
class BiddingSettings:
    """What nodes see, and the reward.

    Attributes:
        rules: see its class.
        reward: what a policy is to maximise; None where training states its own objective, mean JCT and makespan.
    """

    rules: BiddingRules = field(default_factory=BiddingRules)
    reward: Reward | None = None
