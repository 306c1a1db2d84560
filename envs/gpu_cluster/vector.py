"""The Gymnasium `VectorEnv`: one agent chooses for all nodes; one call steps many episodes."""

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envs.gpu_cluster.batch import GpuClusterBatch
from envs.gpu_cluster.columns import PASS
from envs.gpu_cluster.negotiation import Observation
from envs.gpu_cluster.reward import Reward
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation import Setup
from envs.types import FloatArray, IntArray, MurmurationError
from envs.workloads import WorkloadSource


def joint_spaces(spec: EnvSpec) -> tuple[spaces.Dict, spaces.MultiDiscrete]:
    """Return the spaces of one episode's joint observation and joint action."""

    def box(*shape: int) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, shape, np.float32)

    observation = spaces.Dict(
        {
            "nodes": box(spec.num_nodes, spec.node_features),
            "slots": box(spec.num_nodes, spec.num_slots, spec.slot_features),
            "queue": box(spec.num_candidates, spec.job_features),
            "cluster": box(spec.cluster_features),
            "mask": spaces.Box(0, 1, (spec.num_nodes, spec.num_actions), np.int8),
        }
    )
    return observation, spaces.MultiDiscrete([spec.num_actions] * spec.num_nodes)


class GpuClusterVectorEnv(VectorEnv[Observation, IntArray, npt.NDArray[Any]]):
    """`num_envs` episodes of the joint problem. An ended episode restarts at the next step (NEXT_STEP).

    Args:
        setup: the cluster, the performance model and the scenario.
        source: draws the workloads.
        num_envs: number of episodes in one call.
        group_size: number of consecutive episodes that share a workload, for comparison within the group.
        split: the split of the source from which episodes are drawn.
        seed: the same seed gives the same sequence of workloads, to the bit.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  as Gymnasium declares it

    def __init__(
        self,
        setup: Setup,
        source: WorkloadSource,
        num_envs: int = 1,
        rules: DecisionRules | None = None,
        reward: Reward | None = None,
        group_size: int = 1,
        split: str = "train",
        seed: int = 0,
    ) -> None:
        if num_envs % group_size:
            raise MurmurationError(f"num_envs is {num_envs}; it must be a multiple of group_size, {group_size}")
        self.num_envs, self.group_size = num_envs, group_size
        self.source, self.split = source, split
        self.batch = GpuClusterBatch(setup, source.models, source.num_jobs, num_envs, rules, reward)
        self.single_observation_space, self.single_action_space = joint_spaces(self.batch.spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.elapsed: FloatArray = np.zeros(num_envs)  # simulated seconds of the last step
        self._seed(seed)

    def _seed(self, seed: int) -> None:
        """Give the members of a group equal generators, so that their n-th episodes are the same workload."""
        roots = np.random.SeedSequence(seed).spawn(self.num_envs // self.group_size)
        self._rngs = [np.random.default_rng(roots[b // self.group_size]) for b in range(self.num_envs)]

    def begin(self, b: int) -> None:
        """Begin the next episode at one index of the batch."""
        self.batch.load(b, self.source.episode(self._rngs[b], self.split), self._rngs[b])

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all episodes. Of a list of seeds only the first is used."""
        first = seed[0] if isinstance(seed, list) else seed
        if first is not None:
            self._seed(first)
        for b in range(self.num_envs):
            self.begin(b)
        return self._observation(), {}

    def step(
        self, actions: IntArray
    ) -> tuple[Observation, FloatArray, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Apply a joint action int64[num_envs, num_nodes] in every episode; `info["elapsed"]` is simulated time.

        Raises:
            MurmurationError: the actions have another shape or type, or a node's action is masked out.
        """
        fresh = self.batch.ended.copy()
        self._check(actions, fresh)
        rewards, self.elapsed, ended = self.batch.step(np.where(fresh[:, None], PASS, actions))
        for b in np.flatnonzero(fresh):
            self.begin(int(b))
        rewards = np.where(fresh, 0.0, rewards)
        ended = ended & ~fresh
        return self._observation(), rewards, ended, np.zeros(self.num_envs, bool), {"elapsed": self.elapsed}

    def _check(self, actions: IntArray, fresh: npt.NDArray[np.bool_]) -> None:
        """Refuse masked actions; episodes that restart take no action."""
        mask = self.batch.negotiation.arrays.mask
        shape = mask.shape[:2]
        if not isinstance(actions, np.ndarray) or actions.shape != shape or actions.dtype.kind not in "iu":
            found = f"{actions.dtype}{list(actions.shape)}" if isinstance(actions, np.ndarray) else repr(actions)
            raise MurmurationError(f"actions are {found}; they must be int64{list(shape)}")
        inside = (actions >= 0) & (actions < mask.shape[2])
        chosen = np.take_along_axis(mask, np.where(inside, actions, PASS)[:, :, None], axis=2)[:, :, 0]
        wrong = ~(inside & (chosen > 0)) & ~fresh[:, None]
        if wrong.any():
            b, n = np.argwhere(wrong)[0].tolist()
            raise MurmurationError(
                f"action {actions[b, n]} of node {n} in episode {b} is masked out; choose one where mask is 1"
            )

    def _observation(self) -> Observation:
        return {name: array.copy() for name, array in self.batch.observation.items()}
