"""What the agents' side of the world consists of besides the world itself."""

from dataclasses import dataclass, field

from envs.gpu_cluster.reward import Reward, TeamReward
from envs.gpu_cluster.spec import DecisionRules


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """How servers decide, and what they are paid for."""

    rules: DecisionRules = field(default_factory=DecisionRules)
    reward: Reward = field(default_factory=TeamReward)
