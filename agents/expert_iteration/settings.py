"""Settings of expert iteration."""

from collections.abc import Callable
from dataclasses import dataclass

from agents.bidding.scheduler import BiddingScheduler
from agents.evolution.playing import Score
from agents.evolution.settings import log_merit
from envs.scheduling import Scheduler
from envs.types import MurmurationError, Seconds

MakesExpert = Callable[[BiddingScheduler], Scheduler]  # from the policy, which keeps its bids, a planner that it leads

POSITIVE = (
    "num_games",
    "asked_share",
    "corrections",
    "futures",
    "horizon",
    "lr",
    "huber",
    "num_epochs",
    "num_minibatches",
    "grad_clip",
    "num_envs",
)


@dataclass(frozen=True, slots=True)
class ExpertSettings:
    """Parameters of expert iteration.

    Attributes:
        expert: makes the planner; `baselines.planner.PlannerExpert` in the configuration. It is sent to workers.
        num_games: training episodes of an iteration, drawn from the tasks in turn.
        asked_share: share of the rounds in which the expert is asked.
        corrections: how often bids are corrected until the market decides as the expert; see
            `agents.bid_imitation.find_bids`.
        futures: sampled futures in which the expert's choice is judged against the policy's own.
        confidence: standard errors, over these futures, by which the mean gain of a choice must exceed 0.
        horizon: simulated seconds for which both are played on in a future.
        most_weight: of a round, where what better choices gain on average counts 1.
        lr: learning rate of Adam.
        huber: difference between bid and target up to which the loss is quadratic.
        num_epochs: passes over the rounds of an iteration.
        num_minibatches: parts of a pass.
        grad_clip: bound on the norm of the gradient.
        makespan_share: share of makespan in the objective by which checkpoints are compared.
        num_envs: episodes that each runner steps in one call.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
    """

    expert: MakesExpert
    num_games: int = 8
    asked_share: float = 0.05
    corrections: int = 8
    futures: int = 8
    confidence: float = 1.0
    horizon: Seconds = 4000.0
    most_weight: float = 3.0
    lr: float = 2e-3
    huber: float = 0.1
    num_epochs: int = 4
    num_minibatches: int = 4
    grad_clip: float = 1.0
    makespan_share: float = 0.2
    num_envs: int = 8
    num_env_runners: int = 0

    def __post_init__(self) -> None:
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise MurmurationError(f"expert_iteration.{name} is {getattr(self, name)}; it must be positive")
        for name in ("asked_share", "makespan_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise MurmurationError(f"expert_iteration.{name} is {getattr(self, name)}; it must be from 0 to 1")
        if self.futures < 2:
            raise MurmurationError("expert_iteration.futures is 1; a standard error needs 2 or more")
        if not self.confidence >= 0:
            raise MurmurationError(f"expert_iteration.confidence is {self.confidence}; it must not be negative")
        if not self.most_weight >= 1:
            raise MurmurationError(f"expert_iteration.most_weight is {self.most_weight}; it must be at least 1")
        if self.num_env_runners < 0:
            raise MurmurationError(
                f"expert_iteration.num_env_runners is {self.num_env_runners}; it must not be negative"
            )

    def merit(self, score: Score) -> float:
        """Return the merit of an episode, higher is better; see `agents.evolution.settings.log_merit`."""
        return log_merit(score, self.makespan_share)
