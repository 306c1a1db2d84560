"""The PettingZoo face of the world: one agent per server."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import ParallelEnv

from envs.cluster import NodeGroup, build
from envs.gpu_cluster.batch import GpuClusterBatch
from envs.gpu_cluster.render import cluster_image, cluster_text
from envs.gpu_cluster.reward import Reward
from envs.gpu_cluster.spec import DecisionRules
from envs.performance import PerformanceModel, default_model
from envs.simulation import EventLog, Scenario
from envs.types import ClusterSpec, MurmurationError
from envs.workloads import SyntheticSource, Workload, WorkloadSource

AgentObservation = dict[str, npt.NDArray[np.generic]]


class GpuClusterEnv(ParallelEnv[str, AgentObservation, int]):
    """Servers that share out a queue of training jobs among themselves.

    | | |
    |---|---|
    | agents | `server_0` ... `server_{N-1}`, one per node, all alive for the whole episode |
    | observation | dict per agent, see below; float32 except for the mask |
    | action | `Discrete(1 + choices * (G + 1))`: 0 leaves the server as it is; else a choice and its GPUs here |
    | choices | the first K waiting jobs in queue order, then up to G jobs that run on this server |
    | reward | for all alike: minus the integral of the number of jobs in the system, so the return is minus total JCT |
    | termination | all jobs done, or the horizon: jobs left there are charged up to it |
    | time | stands still while servers decide; a round ends when all pass (or after `max_decisions`) |

    Observation of an agent (F_* in `EnvSpec`): `server` [F_server] this server, `slots` [G, F_slot] the jobs that run
    here, `queue` [K, F_job] the waiting jobs, `cluster` [F_cluster] what all share, `action_mask` int8[num_actions].
    `envs.gpu_cluster.observe` lists the features, `envs.gpu_cluster.decide` states how simultaneous choices are
    resolved. While nothing runs, 0 is masked out for a server that could start a waiting job. An action has
    room for a CPU and memory level; there is one level until levels are decided on, and CPU, memory, plan and batch
    size follow the world's rule.

    `infos[agent]` holds `time` (s), `elapsed` (s in this step), `conflicts`, `claims` and `decisions` of the episode.

    Args:
        cluster: the nodes; a preset of 8 nodes with 8 V100 each by default.
        source: where episodes come from; synthetic by default. `reset(options={"workload": w})` plays one given.
        performance: how fast jobs run; the measured tables by default.
        scenario, rules, reward: see their classes.
        split: which split of the source episodes are drawn from.
        seed: of the episodes, if `reset` gets none.
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
        cluster: ClusterSpec | None = None,
        source: WorkloadSource | None = None,
        performance: PerformanceModel | None = None,
        scenario: Scenario | None = None,
        rules: DecisionRules | None = None,
        reward: Reward | None = None,
        split: str = "train",
        seed: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise MurmurationError(f"render_mode is {render_mode!r}; it must be one of {self.metadata['render_modes']}")
        self.cluster = cluster or build("homogeneous_64", [NodeGroup("V100", num_nodes=8, num_gpus=8)])
        self.performance = performance or default_model()
        self.source = source or SyntheticSource(cluster=self.cluster, performance=self.performance)
        self.split = split
        self.render_mode = render_mode
        self._scenario, self._rules, self._reward = scenario, rules, reward
        self._seed = seed
        self._rng: np.random.Generator | None = None
        self.possible_agents = [f"server_{n}" for n in range(self.cluster.num_nodes)]
        self.agents: list[str] = []

    @cached_property
    def batch(self) -> GpuClusterBatch:
        """The core that this face wraps, at batch size one and with a log."""
        return self._make_batch(self.source.num_jobs)

    def _make_batch(self, num_jobs: int) -> GpuClusterBatch:
        return GpuClusterBatch(
            self.cluster,
            self.performance,
            self.source.models,
            num_jobs,
            scenario=self._scenario,
            rules=self._rules,
            reward=self._reward,
            logging=True,
        )

    def observation_space(self, agent: str) -> spaces.Dict:
        """Bounds and shapes; the same object at every call."""
        return self._spaces[0][agent]

    def action_space(self, agent: str) -> spaces.Discrete[np.int64]:
        """All actions, legal or not; `action_mask` says which are."""
        return self._spaces[1][agent]

    @cached_property
    def _spaces(self) -> tuple[dict[str, spaces.Dict], dict[str, spaces.Discrete[np.int64]]]:
        spec = self.batch.spec

        def box(*shape: int) -> spaces.Box:
            return spaces.Box(-np.inf, np.inf, shape, np.float32)

        observation = {
            agent: spaces.Dict(
                {
                    "server": box(spec.server_features),
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
        """Take one joint decision.

        Raises:
            MurmurationError: an agent's action is missing or masked out.
        """
        if not self.agents:
            raise MurmurationError("the episode has ended, or not begun; call reset() first")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise MurmurationError(
                f"no action for {', '.join(missing)}; every server acts in every step (0 is nothing)"
            )
        joint = np.array([int(actions[agent]) for agent in self.possible_agents], np.int64)
        legal = self.batch.legal(joint)
        if not legal.all():
            agent = self.possible_agents[int(np.argmin(legal))]
            why = " (while nothing runs, who could start a waiting job may not pass)" if actions[agent] == 0 else ""
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
                "server": arrays["servers"][0, n].copy(),
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
        """float32[...]: the joint observation without masks, flat, for central critics."""
        arrays = self.batch.observation
        return np.concatenate(
            [arrays[name][0].ravel() for name in ("servers", "slots", "queue", "cluster")], dtype=np.float32
        )

    def render(self) -> str | npt.NDArray[np.uint8] | None:
        """The cluster as it stands, in the way that `render_mode` names.

        Raises:
            MurmurationError: no episode has begun.
        """
        if self._rng is None:
            raise MurmurationError("no episode has begun, so there is nothing to show; call reset() first")
        if self.render_mode == "rgb_array":
            return cluster_image(self.batch.state, self.cluster)
        text = cluster_text(self.batch.state, self.cluster)
        if self.render_mode == "ansi":
            return text
        if self.render_mode == "human":
            print(text)  # noqa: T201  human mode shows on the terminal by definition
        return None

    def close(self) -> None:
        """Nothing is held open."""


def parallel_env(
    cluster: ClusterSpec | None = None,
    source: WorkloadSource | None = None,
    performance: PerformanceModel | None = None,
    scenario: Scenario | None = None,
    rules: DecisionRules | None = None,
    reward: Reward | None = None,
    split: str = "train",
    seed: int | None = None,
    render_mode: str | None = None,
) -> GpuClusterEnv:
    """The environment by PettingZoo's usual name; arguments as in `GpuClusterEnv`."""
    return GpuClusterEnv(cluster, source, performance, scenario, rules, reward, split, seed, render_mode)
