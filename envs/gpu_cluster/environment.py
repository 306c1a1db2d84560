"""The PettingZoo environment: one agent per node."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from envs.episodes import NodeParallelEnv, Reward
from envs.episodes.parallel import AgentObservation
from envs.gpu_cluster.batch import GpuClusterBatch
from envs.gpu_cluster.columns import PASS
from envs.gpu_cluster.spec import DecisionRules
from envs.simulation import Setup
from envs.types import MurmurationError
from envs.workloads import WorkloadSource


class GpuClusterEnv(NodeParallelEnv[GpuClusterBatch, int]):
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

    metadata: ClassVar[dict[str, Any]] = {**NodeParallelEnv.metadata, "name": "gpu_cluster_v0"}
    reminder = " (0 passes)"

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
        super().__init__(setup, source, reward, split, seed, render_mode)
        self._rules = rules

    def _make_batch(self, num_jobs: int) -> GpuClusterBatch:
        models = self.source.models
        return GpuClusterBatch(self.setup, models, num_jobs, rules=self._rules, reward=self._reward, logging=True)

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

    def _apply(self, actions: dict[str, int]) -> tuple[float, float, bool]:
        """Apply one joint decision; refuse an action that is masked out."""
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
        return float(reward[0]), float(elapsed[0]), bool(ended[0])

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

    def _counters(self) -> dict[str, int]:
        return self.batch.counters()

    def state(self) -> npt.NDArray[np.float32]:
        """Return float32[...]: the joint observation without masks, flat, for central critics."""
        arrays = self.batch.observation
        return np.concatenate(
            [arrays[name][0].ravel() for name in ("nodes", "slots", "queue", "cluster")], dtype=np.float32
        )


parallel_env = GpuClusterEnv  # PettingZoo's usual name
