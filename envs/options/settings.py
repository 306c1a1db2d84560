"""The environment's part of a configuration."""

from dataclasses import dataclass, field

from envs.episodes import Reward, TeamReward
from envs.options.rules import OptionRules


@dataclass(frozen=True, slots=True)
class OptionSettings:
    """Rules and reward of the placement environment, as `conf/env` names them."""

    rules: OptionRules = field(default_factory=OptionRules)
    reward: Reward = field(default_factory=TeamReward)
