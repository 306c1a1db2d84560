"""The part of a PettingZoo environment that does not depend on what the nodes observe and decide."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import ParallelEnv

from envs.episodes.batch import EpisodeBatch
from envs.episodes.defaults import Illegal, check_illegal, default_setup, default_source
from envs.episodes.reward import Reward
from envs.episodes.scene import Scene, describe_scene
from envs.episodes.window import Window
from envs.simulation import EventLog, Setup
from envs.types import MurmurationError
from envs.workloads import Workload, WorkloadSource

AgentObservation = dict[str, npt.NDArray[np.generic]]
EnvBatch = TypeVar("EnvBatch", bound=EpisodeBatch)
Action = TypeVar("Action")
Step = tuple[dict[str, AgentObservation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class NodeParallelEnv(ParallelEnv, Generic[EnvBatch, Action], ABC):
    """One agent per node over a batch of one episode. A derived class makes the batch, observes and applies actions.

    Args:
        setup: the cluster, the performance model and the scenario; by default 8 nodes with 8 V100 each, the measured
            tables and the default scenario.
        source: the source of episodes; synthetic by default. `reset(options={"workload": w})` plays a given workload.
        reward: see its class.
        split: the split of the source from which episodes are drawn.
        seed: seed of the episodes if `reset` gets none.
        render_mode: "human" (a window, drawn at every reset and step), "ansi" (text) or "rgb_array"
            (uint8[height, width, 3]).
        max_cycles: steps after which an episode is truncated; None for no limit.
        illegal: what becomes of an action that is not allowed. "nothing": it counts as the action that changes nothing
            or, where that is not allowed either, as the first allowed one; `infos` counts it. "raise": an error.
        illegal_penalty: is subtracted from the reward of all agents for each such action.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "node_v0",
        "render_modes": ["human", "ansi", "rgb_array"],
        "is_parallelizable": True,
        "render_fps": 4,
    }
    reminder = ""  # what a node does that wants no change, for the error about a missing action

    def __init__(
        self,
        setup: Setup | None = None,
        source: WorkloadSource | None = None,
        reward: Reward | None = None,
        split: str = "train",
        seed: int | None = None,
        render_mode: str | None = None,
        max_cycles: int | None = None,
        illegal: Illegal = "nothing",
        illegal_penalty: float = 0.0,
    ) -> None:
        check_illegal(illegal, illegal_penalty)
        if max_cycles is not None and max_cycles < 1:
            raise MurmurationError(f"max_cycles is {max_cycles}; it must be at least 1, or None for no limit")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise MurmurationError(f"render_mode is {render_mode!r}; it must be one of {self.metadata['render_modes']}")
        self.setup = setup or default_setup()
        self.cluster = self.setup.cluster
        self.source = source or default_source(self.setup)
        self.split = split
        self.render_mode = render_mode
        self.max_cycles, self.illegal, self.illegal_penalty = max_cycles, illegal, illegal_penalty
        self._cycles = 0
        self._window: Window | None = None
        self._palette: Any = None  # of pictures
        self._reward = reward
        self._seed = seed
        self._rng: np.random.Generator | None = None
        self.possible_agents = [f"node_{n}" for n in range(self.cluster.num_nodes)]
        self.agents: list[str] = []
        self._num_illegal = dict.fromkeys(self.possible_agents, 0)

    @cached_property
    def batch(self) -> EnvBatch:
        """The batched environment that this class wraps, with batch size one and an event log."""
        return self._make_batch(self.source.num_jobs)

    @abstractmethod
    def _make_batch(self, num_jobs: int) -> EnvBatch:
        """Make the batch for episodes of up to so many jobs."""

    @abstractmethod
    def _observations(self) -> dict[str, AgentObservation]:
        """Return the present observation of every agent."""

    @abstractmethod
    def _mend(self, actions: dict[str, Action]) -> tuple[dict[str, Action], list[str]]:
        """Replace the actions that are not allowed; return all actions, and the agents whose action was replaced.

        Raises:
            MurmurationError: an action is not allowed, and `illegal` is "raise".
        """

    @abstractmethod
    def _apply(self, actions: dict[str, Action]) -> tuple[float, float, bool]:
        """Apply the allowed actions of all agents; return reward, elapsed seconds and whether the episode ended."""

    @abstractmethod
    def state(self) -> npt.NDArray[np.float32]:
        """Return float32[...]: the joint observation, flat, for central critics."""

    @cached_property
    def state_space(self) -> spaces.Box:
        """The space of `state`."""
        return spaces.Box(-np.inf, np.inf, (self._state_size(),), np.float32)

    @abstractmethod
    def _state_size(self) -> int:
        """Return the length of `state`."""

    @abstractmethod
    def _counters(self) -> dict[str, int]:
        """Return what `infos` counts."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, AgentObservation], dict[str, dict[str, Any]]]:
        """Begin an episode. `options["workload"]` plays that workload instead of drawing one."""
        if seed is not None or self._rng is None:
            self._rng = np.random.default_rng(self._seed if seed is None else seed)
        workload = (options or {}).get("workload")
        if workload is None:
            workload = self.source.episode(self._rng, self.split)
        self._load(workload)
        self.agents = list(self.possible_agents)
        self._cycles, self._num_illegal = 0, dict.fromkeys(self.possible_agents, 0)
        self._show()
        return self._observations(), self._infos(0.0)

    def _load(self, workload: Workload) -> None:
        assert self._rng is not None
        if len(workload) > self.batch.state.jobs.shape[1]:
            self.batch = self._make_batch(len(workload))
        self.batch.load(0, workload, self._rng)

    def step(self, actions: dict[str, Action]) -> Step:
        """Apply one joint decision.

        Raises:
            MurmurationError: an agent's action is missing, or it is not allowed and `illegal` is "raise".
        """
        if not self.agents:
            raise MurmurationError("the episode has ended, or not begun; call reset() first")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise MurmurationError(f"no action for {', '.join(missing)}; every node acts in every step{self.reminder}")
        mended, replaced = self._mend(actions)
        for agent in replaced:
            self._num_illegal[agent] += 1
        reward, elapsed, ended = self._apply(mended)
        reward -= self.illegal_penalty * len(replaced)
        self._cycles += 1
        cut = not ended and self._cycles == self.max_cycles
        agents = self.agents
        if ended or cut:
            self.agents = []
        self._show()
        return (
            dict(zip(agents, self._observations().values(), strict=True)),
            dict.fromkeys(agents, reward),
            dict.fromkeys(agents, ended),
            dict.fromkeys(agents, cut),
            dict(zip(agents, self._infos(elapsed).values(), strict=True)),
        )

    def _infos(self, elapsed: float) -> dict[str, dict[str, Any]]:
        info = {"time": float(self.batch.time[0]), "elapsed": elapsed, **self._counters()}
        return {
            agent: {**info, "illegal": self._num_illegal[agent], **self._agent_info(n)}
            for n, agent in enumerate(self.possible_agents)
        }

    def _agent_info(self, _n: int) -> dict[str, Any]:
        """Return what `infos` holds for one agent besides what it holds for all."""
        return {}

    @property
    def log(self) -> EventLog:
        """The events of the episode so far."""
        return self.batch.log(0)

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def scene(self) -> Scene:
        """Return what a picture of the present state shows."""
        return Scene.of(self.batch.state, self.cluster)

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """Show the present state of the cluster as `render_mode` says.

        Raises:
            MurmurationError: no episode has begun, or "human" is chosen and pygame is not installed.
        """
        if self._rng is None:
            raise MurmurationError("no episode has begun, so there is nothing to render; call reset() first")
        if self.render_mode == "ansi":
            return describe_scene(self.scene())
        from envs.episodes.drawing import Palette, draw_scene  # loads Pillow, which training does not need

        self._palette = self._palette or Palette()
        picture = draw_scene(self.scene(), self._palette)
        if self.render_mode == "rgb_array":
            return picture
        if self.render_mode == "human":
            self._window = self._window or Window(str(self.metadata["name"]), int(self.metadata["render_fps"]))
            self._window.show(picture)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None
