"""PettingZoo's AEC form for nodes that take turns: only the node whose turn it is acts."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import AECEnv

from envs.episodes.parallel import AgentObservation, Step


class TurnTaking(Protocol):
    """What `NodesInTurn` needs of a parallel environment."""

    metadata: dict[str, Any]
    possible_agents: list[str]
    render_mode: str | None

    @property
    def turn(self) -> int:
        """The node whose turn it is."""
        ...

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
        """Begin an episode."""
        ...

    def step(self, actions: dict[str, Any]) -> Step:
        """Apply the action of the node whose turn it is."""
        ...

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's observations."""
        ...

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's actions."""
        ...

    def state(self) -> npt.NDArray[np.float32]:
        """Return the joint observation."""
        ...

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """Show the present state."""
        ...

    def close(self) -> None:
        """Close the window, if there is one."""
        ...


class NodesInTurn(AECEnv):  # type: ignore[misc]  # PettingZoo's types are lost here
    """A parallel environment whose nodes take turns, as PettingZoo's AEC form.

    Args:
        parallel: an environment in which 0 is an action of every node that has no turn.
    """

    def __init__(self, parallel: Any) -> None:
        super().__init__()
        self._parallel: TurnTaking = parallel
        self.aec_env = parallel  # the wrapped environment, under the name that PettingZoo's own conversions use
        self.metadata = {**parallel.metadata, "is_parallelizable": False}
        self.possible_agents = list(parallel.possible_agents)
        self.render_mode = parallel.render_mode
        self.state_space = parallel.state_space
        self.agents: list[str] = []
        self._observations: dict[str, AgentObservation] = {}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return bounds and shapes; the same object at every call."""
        return self._parallel.observation_space(agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of all choices, allowed or not."""
        return self._parallel.action_space(agent)

    def observe(self, agent: str) -> AgentObservation:
        """Return the present observation of an agent."""
        return self._observations[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode; options as for the parallel environment."""
        self._observations, self.infos = self._parallel.reset(seed, options)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None
        self.agent_selection = self.agents[self._parallel.turn]

    def step(self, action: int | None) -> None:
        """Apply the choice of the node whose turn it is; errors are those of the parallel environment."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        actions: dict[str, int | None] = {**dict.fromkeys(self.agents, 0), agent: action}
        step = self._parallel.step(actions)
        self._observations, self.rewards, self.terminations, self.truncations, self.infos = step
        self._accumulate_rewards()
        ended = any(self.terminations.values()) or any(self.truncations.values())
        self.agent_selection = self.agents[0 if ended else self._parallel.turn]

    def state(self) -> npt.NDArray[np.float32]:
        """Return float32[...]: the joint observation, flat, for central critics."""
        return self._parallel.state()

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """Show the present state of the cluster as `render_mode` says."""
        return self._parallel.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self._parallel.close()
