"""The multi-agent environment: PettingZoo and Gymnasium interfaces, observation, action, reward, rendering."""

from envs.episodes import Elapsed, Reward, TeamReward
from envs.gpu_cluster.batch import GpuClusterBatch
from envs.gpu_cluster.environment import GpuClusterEnv, env, parallel_env, raw_env
from envs.gpu_cluster.negotiation import NegotiatedRound, Observation
from envs.gpu_cluster.settings import EnvSettings
from envs.gpu_cluster.spec import DecisionRules, EnvSpec

__all__ = [
    "DecisionRules",
    "Elapsed",
    "EnvSettings",
    "EnvSpec",
    "GpuClusterBatch",
    "GpuClusterEnv",
    "NegotiatedRound",
    "Observation",
    "Reward",
    "TeamReward",
    "env",
    "parallel_env",
    "raw_env",
]
