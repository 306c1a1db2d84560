"""The goal of training: mean JCT, makespan, a weighted mean of both, or the ratio of that to the best baseline."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.tags import HEADLINE, OVERVIEW, RATIO_TAG
from envs.episodes import Reward, TeamReward
from envs.types.units import HOUR

RATIO = "ratio"  # among the figures of a baseline: the geometric mean over worlds of its cost to the best there


@dataclass(frozen=True, slots=True)
class Goal:
    """A weighted mean of mean JCT and makespan, in s, or its ratio to the best baseline; less is better.

    Attributes:
        makespan_share: weight of the makespan, from 0 to 1; the rest is that of the mean JCT.
        relative: whether policies are compared over many worlds, by the geometric mean of the ratio to the best
            baseline of each.
    """

    makespan_share: float = 0.0
    relative: bool = False

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

    def cost(self, baseline: Mapping[str, float]) -> float:
        """Return that by which a baseline is compared: its cost in s, or its ratio to the best."""
        return baseline[RATIO] if self.relative else self.in_one_world(baseline)

    def in_one_world(self, figures: Mapping[str, float]) -> float:
        """Return the weighted mean of `mean_jct` and `makespan`, in s."""
        if not self.makespan_share:
            return figures["mean_jct"]
        return (1.0 - self.makespan_share) * figures["mean_jct"] + self.makespan_share * figures["makespan"]

    @property
    def unit(self) -> float:
        """The unit of costs in charts: an hour in s, or 1 for ratios."""
        return 1.0 if self.relative else HOUR

    def said(self, cost: float) -> str:
        """Return a cost in words."""
        return f"{cost:.3f}" if self.relative else f"{cost:,.0f} s"

    @property
    def tag(self) -> str:
        """The tag of TensorBoard's first chart."""
        if self.relative:
            return RATIO_TAG
        if not self.makespan_share:
            return HEADLINE
        name = "makespan" if self.makespan_share == 1 else "cost"
        return f"{OVERVIEW}/validation_{name}_hours"

    @property
    def axis(self) -> str:
        """The label of an axis, with the unit."""
        return f"{self._weighted} / best baseline" if self.relative else f"{self._weighted} (h)"

    def __str__(self) -> str:
        what = self._weighted
        return f"{what} relative to the best baseline of each world" if self.relative else what

    @property
    def _weighted(self) -> str:
        if self.makespan_share in (0.0, 1.0):
            return "makespan" if self.makespan_share else "mean JCT"
        return f"{1.0 - self.makespan_share:.3g} x mean JCT + {self.makespan_share:.3g} x makespan"
