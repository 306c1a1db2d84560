"""What both multi-agent environments share: batches of episodes, PettingZoo and Gymnasium forms, reward, pictures."""

from envs.episodes.batch import EpisodeBatch
from envs.episodes.flat import FlatObservations
from envs.episodes.parallel import NodeParallelEnv
from envs.episodes.reward import Elapsed, Reward, TeamReward
from envs.episodes.vector import EpisodeVectorEnv

__all__ = ["Elapsed", "EpisodeBatch", "EpisodeVectorEnv", "FlatObservations", "NodeParallelEnv", "Reward", "TeamReward"]
