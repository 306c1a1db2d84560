"""The part of a PettingZoo environment that does not depend on what the nodes observe and decide."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from envs.cluster import NodeGroup, build_cluster
from envs.episodes.batch import EpisodeBatch
from envs.episodes.render import cluster_image, cluster_text
from envs.episodes.reward import Reward
from envs.performance import default_model
from envs.simulation import EventLog, Setup
from envs.types import MurmurationError
from envs.workloads import SyntheticSource, Workload, WorkloadSource

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
        render_mode: "human" (text to the terminal), "ansi" (the text) or "rgb_array" (uint8[height, width, 3]).
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
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise MurmurationError(f"render_mode is {render_mode!r}; it must be one of {self.metadata['render_modes']}")
        self.setup = setup or Setup(
            build_cluster("homogeneous_64", [NodeGroup("V100", num_nodes=8, num_gpus=8)]), default_model()
        )
        self.cluster = self.setup.cluster
        self.source = source or SyntheticSource(cluster=self.cluster, performance=self.setup.performance)
        self.split = split
        self.render_mode = render_mode
        self._reward = reward
        self._seed = seed
        self._rng: np.random.Generator | None = None
        self.possible_agents = [f"node_{n}" for n in range(self.cluster.num_nodes)]
        self.agents: list[str] = []

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
    def _apply(self, actions: dict[str, Action]) -> tuple[float, float, bool]:
        """Check and apply the actions of all agents; return reward, elapsed seconds and whether the episode ended."""

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
        return self._observations(), self._infos(0.0)

    def _load(self, workload: Workload) -> None:
        assert self._rng is not None
        if len(workload) > self.batch.state.jobs.shape[1]:
            self.batch = self._make_batch(len(workload))
        self.batch.load(0, workload, self._rng)

    def step(self, actions: dict[str, Action]) -> Step:
        """Apply one joint decision.

        Raises:
            MurmurationError: an agent's action is missing or not allowed.
        """
        if not self.agents:
            raise MurmurationError("the episode has ended, or not begun; call reset() first")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise MurmurationError(f"no action for {', '.join(missing)}; every node acts in every step{self.reminder}")
        reward, elapsed, ended = self._apply(actions)
        agents = self.agents
        if ended:
            self.agents = []
        return (
            dict(zip(agents, self._observations().values(), strict=True)),
            dict.fromkeys(agents, reward),
            dict.fromkeys(agents, ended),
            dict.fromkeys(agents, False),
            dict(zip(agents, self._infos(elapsed).values(), strict=True)),
        )

    def _infos(self, elapsed: float) -> dict[str, dict[str, Any]]:
        info = {"time": float(self.batch.time[0]), "elapsed": elapsed, **self._counters()}
        return {agent: dict(info) for agent in self.possible_agents}

    @property
    def log(self) -> EventLog:
        """The events of the episode so far."""
        return self.batch.state.log(0, self.batch.plans)

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """Show the present state of the cluster as `render_mode` says.

        Raises:
            MurmurationError: no episode has begun.
        """
        if self._rng is None:
            raise MurmurationError("no episode has begun, so there is nothing to render; call reset() first")
        if self.render_mode == "rgb_array":
            return cluster_image(self.batch.state, self.cluster)
        text = cluster_text(self.batch.state, self.cluster)
        if self.render_mode == "ansi":
            return text
        if self.render_mode == "human":
            print(text)  # noqa: T201  human mode prints to the terminal by definition
        return None

    def close(self) -> None:
        """Do nothing: no resource is held open."""
