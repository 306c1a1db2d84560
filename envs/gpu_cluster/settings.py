"""Settings of the agents' interface, which are not part of the simulation."""

from dataclasses import dataclass, field

from envs.episodes import Reward, TeamReward
from envs.gpu_cluster.spec import DecisionRules


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """The rules of the nodes' decisions, and the reward."""

    rules: DecisionRules = field(default_factory=DecisionRules)
    reward: Reward = field(default_factory=TeamReward)
