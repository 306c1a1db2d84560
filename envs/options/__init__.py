"""The placement environment: in each round, nodes have options, and one option is carried out at a time."""

from envs.options.batch import OptionBatch, Options
from envs.options.rounds import OptionRound
from envs.options.rules import OptionRules
from envs.options.settings import OptionSettings
from envs.options.spec import OptionSpec

__all__ = ["OptionBatch", "OptionRound", "OptionRules", "OptionSettings", "OptionSpec", "Options"]
