"""Nodes that act together as RLlib's multi-agent environment."""

from typing import Any

import numpy as np
from gymnasium import spaces
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from agents.problems.options import OptionTask
from agents.tags import LENGTH, RETURN
from envs.episodes.parallel import AgentObservation
from envs.options import OptionEnv, OptionSpec
from envs.options.environment import OptionAction
from envs.options.padding import option_features_box, state_size

HOUR = 3600.0
EPISODES = 100  # over which they are means, as RLlib's own
OUTCOME = "murmuration"  # the entry of RLlib's results with means over episodes, see `NodesOfRLlib.outcome`


class NodesOfRLlib(MultiAgentEnv):
    """`OptionEnv` for RLlib. Only nodes that have options are asked; the others wait.

    An observation is that of `OptionEnv` with the rows of the nodes that `edges` names (`linked`), and where the
    critic is central the rows of the joint `state`. The return of an episode is the environment's, divided by the jobs
    of an episode and by an hour; `outcome` has it as it is.

    Args:
        config: with the entries `tasks`, `max_options`, `central` and `seed`; further ones are RLlib's.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        tasks: tuple[OptionTask, ...] = config["tasks"]
        self._envs = [
            OptionEnv(task.setup, task.source, task.rules, task.reward, max_options=config["max_options"])
            for task in tasks
        ]
        self._scale = [task.source.num_jobs * HOUR for task in tasks]
        self._central, self._episode = bool(config["central"]), 0
        self._seed = [int(config["seed"]), int(getattr(config, "worker_index", 0))]
        self._now, self._paid, self._steps = self._envs[0], 0.0, 0
        agents = max((env.possible_agents for env in self._envs), key=len)
        self.possible_agents, self.agents = list(agents), list(agents)
        self.observation_spaces = {agent: self._space() for agent in agents}
        self.action_spaces = {agent: self._now.action_space(self._now.possible_agents[0]) for agent in agents}

    @property
    def state_size(self) -> int:
        """The length of the rows of the joint state."""
        return state_size(self._now.batch)

    def _space(self) -> spaces.Dict:
        own = self._now.observation_space(self._now.possible_agents[0])
        linked = option_features_box(self._now.max_links, OptionSpec().node_features)
        state = {"state": option_features_box(self.state_size)} if self._central else {}
        return spaces.Dict({**own.spaces, "linked": linked, **state})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode: the tasks in turn, each with a fresh workload."""
        self._now = self._envs[self._episode % len(self._envs)]
        drawn = np.random.default_rng([*self._seed, self._episode if seed is None else seed])
        self._episode, self._paid, self._steps = self._episode + 1, 0.0, 0
        self._observations, _ = self._now.reset(seed=int(drawn.integers(2**31)), options=options)
        return self._asked(), {}

    def step(self, action_dict: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Carry out the choices of the nodes that were asked."""
        actions: dict[str, OptionAction] = {agent: int(action_dict.get(agent, 0)) for agent in self._now.agents}
        scale = self._scale[self._envs.index(self._now)]
        self._observations, rewards, ended, cut, _ = self._now.step(actions)
        over, stopped = any(ended.values()), any(cut.values())
        self._paid, self._steps = self._paid + next(iter(rewards.values())), self._steps + 1
        found = {agent: value / scale for agent, value in rewards.items()}
        return self._asked(over or stopped), found, {"__all__": over}, {"__all__": stopped}, {}

    def outcome(self) -> dict[str, float]:
        """Return the figures of an episode that has ended, by the tags of `agents.tags`."""
        batch = self._now.batch
        jct, makespan = batch.mean_jct(0), batch.makespan(0)
        return {RETURN: self._paid, LENGTH: self._steps, "train/mean_jct": jct, "train/makespan": makespan}

    def _asked(self, everybody: bool = False) -> dict[str, AgentObservation]:
        """Return the observations of the nodes that have options, or of all."""
        nodes = np.stack([seen["node"] for seen in self._observations.values()])
        state = {"state": self._now.state()[: self.state_size]} if self._central else {}
        edges = np.array([seen["edges"] for seen in self._observations.values()])
        heard = np.where(edges[:, :, None] >= 0, nodes[edges], 0.0)
        return {
            agent: {**seen, "linked": rows, **state}
            for (agent, seen), rows in zip(self._observations.items(), heard, strict=True)
            if everybody or seen["action_mask"][1:].any()
        }


def log_outcome(*, env: Any, env_index: int, metrics_logger: Any, **_: Any) -> None:
    """Log what came of an episode; a callback of RLlib at its end."""
    for tag, value in env.envs[env_index].unwrapped.outcome().items():
        metrics_logger.log_value((OUTCOME, tag), value, window=EPISODES)
