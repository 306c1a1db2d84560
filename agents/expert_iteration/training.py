"""A training run by expert iteration."""

from dataclasses import dataclass, field

from agents.bidding.training import BidTrainer, BidTrainingSettings, ImprovesPolicy
from agents.expert_iteration.settings import ExpertSettings
from agents.rllib.expert_iteration import ExpertIterationOnRay, ExpertSetup, LocalExpertIteration
from envs.types import MurmurationError

EXPERT_STATE = "expert_iteration.json"


@dataclass(frozen=True, slots=True)
class ExpertTrainingSettings(BidTrainingSettings):
    """Settings of a run; the others are those of `BidTrainingSettings`.

    Attributes:
        expert_iteration: parameters of the method.

    Raises:
        MurmurationError: they are missing.
    """

    expert_iteration: ExpertSettings | None = field(default=None)

    @property
    def method(self) -> ExpertSettings:
        """Parameters of the method.

        Raises:
            MurmurationError: they are missing.
        """
        if self.expert_iteration is None:
            raise MurmurationError("trainer.expert_iteration is missing; it names the expert, see conf/trainer/expert")
        return self.expert_iteration


class ExpertTrainer(BidTrainer):
    """Trains by expert iteration; see `BidTrainer`."""

    setup: ExpertSetup
    state_file = EXPERT_STATE
    method_name = "expert iteration"

    def _make_algorithm(self) -> ImprovesPolicy:
        make = LocalExpertIteration if self.setup.settings.num_env_runners == 0 else ExpertIterationOnRay
        return make(self.setup, self.state.iteration)

    @property
    def _num_episodes(self) -> int:
        return self.setup.settings.num_games
