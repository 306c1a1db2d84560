"""A training run by evolution strategies."""

from dataclasses import dataclass, field

from agents.bidding.training import BidTrainer, BidTrainingSettings, ImprovesPolicy
from agents.evolution.settings import EvolutionSettings
from agents.rllib.evolution import EvolutionOnRay, EvolutionSetup, LocalEvolution

STATE = "evolution.json"


@dataclass(frozen=True, slots=True)
class EvolutionTrainingSettings(BidTrainingSettings):
    """Settings of a run; the others are those of `BidTrainingSettings`.

    Attributes:
        evolution: parameters of the search.
    """

    evolution: EvolutionSettings = field(default_factory=EvolutionSettings)

    @property
    def method(self) -> EvolutionSettings:
        """Parameters of the search."""
        return self.evolution


class EvolutionTrainer(BidTrainer):
    """Trains by evolution strategies; see `BidTrainer`."""

    setup: EvolutionSetup
    state_file = STATE
    method_name = "evolution"

    def _make_algorithm(self) -> ImprovesPolicy:
        make = LocalEvolution if self.setup.settings.num_env_runners == 0 else EvolutionOnRay
        return make(self.setup, self.state.iteration)

    @property
    def _num_episodes(self) -> int:
        return 2 * self.setup.settings.num_pairs * self.setup.settings.num_workloads
