"""The placement environment: in each round, nodes have options, and one option is carried out at a time."""

from envs.options.batch import ListedOptions, OptionBatch
from envs.options.environment import OptionEnv, env, parallel_env, raw_env
from envs.options.rounds import OptionRound
from envs.options.rules import OptionRules
from envs.options.settings import OptionSettings
from envs.options.spec import OptionSpec
from envs.options.vector import OptionVectorEnv

__all__ = ["ListedOptions", "OptionBatch", "OptionEnv", "OptionRound", "OptionRules", "OptionSettings", "OptionSpec"]
__all__ += ["OptionVectorEnv", "env", "parallel_env", "raw_env"]
