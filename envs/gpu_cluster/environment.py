"""The PettingZoo environment: one agent per node."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import ParallelEnv

from envs.cluster import NodeGroup, build_cluster
from envs.gpu_cluster.batch import GpuClusterBatch
from envs.gpu_cluster.columns import PASS
from envs.gpu_cluster.render import cluster_image, cluster_text
from envs.gpu_cluster.reward import Reward
from envs.gpu_cluster.spec import DecisionRules
from envs.performance import default_model
from envs.simulation import EventLog, Setup
from envs.types import MurmurationError
from envs.workloads import SyntheticSource, Workload, WorkloadSource

AgentObservation = dict[str, npt.NDArray[np.generic]]


class GpuClusterEnv(ParallelEnv[str, AgentObservation, int]):
    """Nodes of a GPU cluster that divide a queue of training jobs among themselves.

    | | |
    |---|---|
    | agents | `node_0` ... `node_{N-1}`, one per node, all alive for the whole episode |
    | observation | dict per agent, see below; float32 except for the mask |
    | action | `Discrete(1 + choices * (G + 1))`: 0 passes; any other sets the GPUs of a choice on this node |
    | choices | the first K waiting jobs in queue order, then up to G jobs that run on this node |
    | reward | shared: minus the integral of the number of jobs in the system, so the return is minus total JCT |
    | termination | all jobs done, or the horizon: unfinished jobs are charged up to it |
    | time | does not advance while nodes decide; a round ends when all pass (or after `max_decisions`) |

    Observation of an agent (F_* in `EnvSpec`): `node` [F_node] this node, `slots` [G, F_slot] the jobs that run
    here, `queue` [K, F_job] the waiting jobs, `cluster` [F_cluster] the shared features, `action_mask`
    int8[num_actions]. `envs.gpu_cluster.columns` explains the features, `envs.gpu_cluster.decide` states how
    simultaneous choices are resolved. While nothing runs, 0 is masked out for a node that could start a waiting job.
    The action numbering allows CPU and memory levels, but there is only one level so far: CPU, memory, plan and batch
    size follow the simulator's rules.

    `infos[agent]` holds `time` (s), `elapsed` (s in this step), `conflicts`, `claims` and `decisions` of the episode.

    Args:
        setup: the cluster, the performance model and the scenario; by default 8 nodes with 8 V100 each, the measured
            tables and the default scenario.
        source: the source of episodes; synthetic by default. `reset(options={"workload": w})` plays a given workload.
        rules, reward: see their classes.
        split: the split of the source from which episodes are drawn.
        seed: seed of the episodes if `reset` gets none.
        render_mode: "human" (text to the terminal), "ansi" (the text) or "rgb_array" (uint8[height, width, 3]).
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "gpu_cluster_v0",
        "render_modes": ["human", "ansi", "rgb_array"],
        "is_parallelizable": True,
        "render_fps": 4,
    }

    def __init__(
        self,
        setup: Setup | None = None,
        source: WorkloadSource | None = None,
        rules: DecisionRules | None = None,
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
        self._rules, self._reward = rules, reward
        self._seed = seed
        self._rng: np.random.Generator | None = None
        self.possible_agents = [f"node_{n}" for n in range(self.cluster.num_nodes)]
        self.agents: list[str] = []

    @cached_property
    def batch(self) -> GpuClusterBatch:
        """The batched environment that this class wraps, with batch size one and an event log."""
        return self._make_batch(self.source.num_jobs)

    def _make_batch(self, num_jobs: int) -> GpuClusterBatch:
        return GpuClusterBatch(
            self.setup,
            self.source.models,
            num_jobs,
            rules=self._rules,
            reward=self._reward,
            logging=True,
        )

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return bounds and shapes; the same object at every call."""
        return self._spaces[0][agent]

    def action_space(self, agent: str) -> spaces.Discrete[np.int64]:
        """Return the space of all actions, legal or not; `action_mask` tells which are legal."""
        return self._spaces[1][agent]

    @cached_property
    def _spaces(self) -> tuple[dict[str, spaces.Dict], dict[str, spaces.Discrete[np.int64]]]:
        spec = self.batch.spec

        def box(*shape: int) -> spaces.Box:
            return spaces.Box(-np.inf, np.inf, shape, np.float32)

        observation = {
            agent: spaces.Dict(
                {
                    "node": box(spec.node_features),
                    "slots": box(spec.num_slots, spec.slot_features),
                    "queue": box(spec.num_candidates, spec.job_features),
                    "cluster": box(spec.cluster_features),
                    "action_mask": spaces.Box(0, 1, (spec.num_actions,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        return observation, {agent: spaces.Discrete(spec.num_actions) for agent in self.possible_agents}

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

    def step(
        self, actions: dict[str, int]
    ) -> tuple[
        dict[str, AgentObservation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        """Apply one joint decision.

        Raises:
            MurmurationError: an agent's action is missing or masked out.
        """
        if not self.agents:
            raise MurmurationError("the episode has ended, or not begun; call reset() first")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise MurmurationError(f"no action for {', '.join(missing)}; every node acts in every step (0 passes)")
        joint = np.array([int(actions[agent]) for agent in self.possible_agents], np.int64)
        legal = self.batch.legal(joint)
        if not legal.all():
            agent = self.possible_agents[int(np.argmin(legal))]
            why = (
                " (while nothing runs, a node that can start a waiting job may not pass)"
                if actions[agent] == PASS
                else ""
            )
            raise MurmurationError(
                f"action {actions[agent]} of {agent} is masked out{why}; choose one where action_mask is 1"
            )
        reward, elapsed, ended = self.batch.step(joint[None])
        agents = self.agents
        if ended[0]:
            self.agents = []
        return (
            dict(zip(agents, self._observations().values(), strict=True)),
            dict.fromkeys(agents, float(reward[0])),
            dict.fromkeys(agents, bool(ended[0])),
            dict.fromkeys(agents, False),
            dict(zip(agents, self._infos(float(elapsed[0])).values(), strict=True)),
        )

    def _observations(self) -> dict[str, AgentObservation]:
        arrays = self.batch.observation
        queue, cluster = arrays["queue"][0].copy(), arrays["cluster"][0].copy()
        return {
            agent: {
                "node": arrays["nodes"][0, n].copy(),
                "slots": arrays["slots"][0, n].copy(),
                "queue": queue,
                "cluster": cluster,
                "action_mask": arrays["mask"][0, n].copy(),
            }
            for n, agent in enumerate(self.possible_agents)
        }

    def _infos(self, elapsed: float) -> dict[str, dict[str, Any]]:
        info = {"time": float(self.batch.time[0]), "elapsed": elapsed, **self.batch.counters()}
        return {agent: dict(info) for agent in self.possible_agents}

    @property
    def log(self) -> EventLog:
        """The events of the episode so far."""
        return self.batch.state.log(0)

    def state(self) -> npt.NDArray[np.float32]:
        """Return float32[...]: the joint observation without masks, flat, for central critics."""
        arrays = self.batch.observation
        return np.concatenate(
            [arrays[name][0].ravel() for name in ("nodes", "slots", "queue", "cluster")], dtype=np.float32
        )

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


parallel_env = GpuClusterEnv  # PettingZoo's usual name
