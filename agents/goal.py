"""What policies are compared by in training: mean JCT, makespan, or a weighted mean of both."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.tags import HEADLINE, OVERVIEW
from envs.episodes import Reward, TeamReward


@dataclass(frozen=True, slots=True)
class Goal:
    """A weighted mean of mean JCT and makespan, in s; less is better.

    Attributes:
        makespan_share: weight of the makespan, from 0 to 1; the rest is that of the mean JCT.
    """

    makespan_share: float = 0.0

    @classmethod
    def of(cls, reward: Reward, num_jobs: int) -> "Goal":
        """Return the goal that a `TeamReward` pays for; mean JCT for any other reward.

        Minus the return of an episode is jct * num_jobs * mean JCT + makespan * makespan.

        Args:
            reward: of training.
            num_jobs: of an episode.
        """
        if not isinstance(reward, TeamReward):
            return cls()
        of_jct, of_makespan = max(reward.jct, 0.0) * num_jobs, max(reward.makespan, 0.0)
        return cls(of_makespan / (of_jct + of_makespan)) if of_makespan else cls()

    def cost(self, figures: Mapping[str, float]) -> float:
        """Return the weighted mean of `mean_jct` and `makespan`, in s."""
        if not self.makespan_share:
            return figures["mean_jct"]
        return (1.0 - self.makespan_share) * figures["mean_jct"] + self.makespan_share * figures["makespan"]

    @property
    def tag(self) -> str:
        """The tag of TensorBoard's first chart."""
        if not self.makespan_share:
            return HEADLINE
        name = "makespan" if self.makespan_share == 1 else "cost"
        return f"{OVERVIEW}/validation_{name}_hours"

    def __str__(self) -> str:
        if self.makespan_share in (0.0, 1.0):
            return "makespan" if self.makespan_share else "mean JCT"
        return f"{1.0 - self.makespan_share:.3g} x mean JCT + {self.makespan_share:.3g} x makespan"
