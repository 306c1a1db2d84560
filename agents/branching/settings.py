"""Settings of PPO on bids with advantages from branches."""

from dataclasses import dataclass

from agents.evolution.playing import Score
from agents.evolution.settings import log_merit
from envs.types import MurmurationError, Seconds

POSITIVE = (
    "num_games",
    "branch_share",
    "num_arms",
    "explored_share",
    "sigma",
    "horizon",
    "discount_time",
    "tail_segments",
    "lr",
    "tail_lr",
    "num_epochs",
    "num_minibatches",
    "clip_param",
    "grad_clip",
    "advantage_clip",
    "num_envs",
)


@dataclass(frozen=True, slots=True)
class BranchSettings:
    """Parameters of PPO with advantages from branches.

    Attributes:
        num_games: training episodes of an iteration, drawn from the tasks in turn.
        branch_share: share of the rounds that are branched.
        num_arms: sampled decisions of a branched round, besides the policy's own, which is the baseline.
        explored_share: share of the jobs on which an arm's bids differ from the policy's; at least one job.
        sigma: standard deviation of a bid, of -1 ... 1. It stays as it is: a trained policy plays its means.
        horizon: simulated seconds after which branches are cut and their tail value is taken.
        hold_bids: whether the market hears the bids of a branched round in all rounds of its branch. Without, a job
            that bids have moved may be moved back at the next round, and pays twice.
        discount_time: simulated seconds after which a job-second counts 1/e; infinite for no discount.
        tail_segments: further horizons for which the baseline is played on, to learn the tail value from.
        lr: learning rate of the policy.
        tail_lr: learning rate of the tail value.
        num_epochs: passes over the branched rounds of an iteration.
        num_minibatches: parts of a pass; few, as MAPPO advises (NeurIPS'22, section 5.3).
        clip_param: bound on the change of a ratio of probabilities.
        grad_clip: bound on the norm of a gradient.
        advantage_clip: bound on an advantage, in standard deviations.
        entropy_coeff: weight of the entropy of nodes' choices, for the discrete environment: without it, a policy soon
            draws nothing but what is likeliest. Bids ignore it.
        makespan_share: share of makespan in the objective by which checkpoints are compared; advantages follow JCT.
        num_envs: episodes that each runner steps in one call.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
    """

    num_games: int = 16
    branch_share: float = 0.15
    num_arms: int = 8
    explored_share: float = 0.25
    sigma: float = 0.2
    horizon: Seconds = 500.0
    hold_bids: bool = False
    discount_time: Seconds = 10_000.0
    tail_segments: int = 4
    lr: float = 2e-3
    tail_lr: float = 1e-3
    num_epochs: int = 2
    num_minibatches: int = 2
    clip_param: float = 0.2
    grad_clip: float = 0.5
    advantage_clip: float = 3.0
    entropy_coeff: float = 0.0
    makespan_share: float = 0.2
    num_envs: int = 16
    num_env_runners: int = 0

    def __post_init__(self) -> None:
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise MurmurationError(f"branching.{name} is {getattr(self, name)}; it must be positive")
        for name in ("branch_share", "explored_share", "makespan_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise MurmurationError(f"branching.{name} is {getattr(self, name)}; it must be from 0 to 1")
        if not self.entropy_coeff >= 0:
            raise MurmurationError(f"branching.entropy_coeff is {self.entropy_coeff}; it must not be negative")
        if self.num_env_runners < 0:
            raise MurmurationError(f"branching.num_env_runners is {self.num_env_runners}; it must not be negative")
        if self.num_arms < 2:
            raise MurmurationError(
                "branching.num_arms is 1; an arm is compared with the others of its round, so set 2 or more"
            )

    def merit(self, score: Score) -> float:
        """Return the merit of an episode, higher is better; see `agents.evolution.settings.log_merit`."""
        return log_merit(score, self.makespan_share)
