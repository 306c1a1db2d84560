"""A maker of planners that a bidding policy leads: the expert of expert iteration."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from baselines.planner.leader import Leader
from baselines.planner.scheduler import RolloutPlanner
from baselines.starling.market import StarlingMarket
from envs.scheduling import Scheduler
from envs.simulation.market import Market
from envs.types import MurmurationError


class BidsInMarket(Leader, Protocol):
    """A leader that says in which market it bids."""

    @property
    def market(self) -> Market:
        """The market."""
        ...


@dataclass(frozen=True)
class PlannerExpert:
    """Makes rollout planners in the market of the policy that leads them.

    Attributes:
        rollouts: see `RolloutPlanner`.
        rounds: likewise.
        margin: likewise.
        arrivals: likewise.
    """

    rollouts: int = 8
    rounds: int | None = 20
    margin: float = 0.02
    arrivals: Literal["none", "fitted"] = "none"

    def __call__(self, leader: BidsInMarket) -> Scheduler:
        """Return a planner that a policy leads, which must keep its bids.

        Raises:
            MurmurationError: the policy does not bid in a market of Starling.
        """
        if not isinstance(leader.market, StarlingMarket):
            raise MurmurationError("planner: only a policy that bids in market=starling can lead it; choose it")
        starling = deepcopy(leader.market.starling)  # it remembers an episode, and several planners may play at once
        options: dict[str, Any] = {"rounds": self.rounds, "margin": self.margin, "arrivals": self.arrivals}
        return RolloutPlanner(starling, self.rollouts, leader=leader, **options)
