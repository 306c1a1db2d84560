"""A training run by PPO on bids, with advantages from branches."""

from dataclasses import dataclass, field

from agents.bidding.training import BidTrainer, BidTrainingSettings, ImprovesPolicy
from agents.branching.settings import BranchSettings
from agents.rllib.branching import BranchingOnRay, BranchSetup, LocalBranching

BRANCHING_STATE = "branching.json"


@dataclass(frozen=True, slots=True)
class BranchTrainingSettings(BidTrainingSettings):
    """Settings of a run; the others are those of `BidTrainingSettings`.

    Attributes:
        branching: parameters of PPO and of branches.
    """

    branching: BranchSettings = field(default_factory=BranchSettings)

    @property
    def method(self) -> BranchSettings:
        """Parameters of PPO and of branches."""
        return self.branching


class BranchTrainer(BidTrainer):
    """Trains by PPO with advantages from branches; see `BidTrainer`."""

    setup: BranchSetup
    state_file = BRANCHING_STATE
    method_name = "branching"

    def _make_algorithm(self) -> ImprovesPolicy:
        make = LocalBranching if self.setup.settings.num_env_runners == 0 else BranchingOnRay
        return make(self.setup, self.state.iteration)

    @property
    def _num_episodes(self) -> int:
        return self.setup.settings.num_games
