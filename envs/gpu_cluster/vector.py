"""The Gymnasium `VectorEnv`: one agent chooses for all nodes; one call steps many episodes."""

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from envs.episodes import EpisodeVectorEnv, Reward
from envs.episodes.defaults import Illegal
from envs.gpu_cluster.batch import GpuClusterBatch
from envs.gpu_cluster.columns import PASS
from envs.gpu_cluster.negotiation import Observation, observation_keys
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation import Setup
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError
from envs.workloads import WorkloadSource


def joint_spaces(spec: EnvSpec) -> tuple[spaces.Dict, spaces.MultiDiscrete]:
    """Return the spaces of one episode's joint observation and joint action."""

    def box(*shape: int) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, shape, np.float32)

    parts: dict[str, spaces.Space[Any]] = {
        "nodes": box(spec.num_nodes, spec.node_features),
        "slots": box(spec.num_nodes, spec.num_slots, spec.slot_features),
        "queue": box(spec.num_candidates, spec.job_features),
        "cluster": box(spec.cluster_features),
        "effects": box(spec.num_nodes, spec.num_choices, spec.effect_features),
        "mask": spaces.Box(0, 1, (spec.num_nodes, spec.num_actions), np.int8),
    }
    observation = spaces.Dict({name: parts[name] for name in observation_keys(spec)})
    return observation, spaces.MultiDiscrete([spec.num_actions] * spec.num_nodes)


class GpuClusterVectorEnv(EpisodeVectorEnv[GpuClusterBatch, IntArray]):
    """`num_envs` episodes of the joint problem. An ended episode restarts at the next step (NEXT_STEP).

    The other arguments are those of `EpisodeVectorEnv`.

    Args:
        setup: the cluster, the performance model and the scenario.
        num_envs: number of episodes in one call.
        rules: see its class.
        reward: see its class.
    """

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
        illegal: Illegal = "nothing",
        illegal_penalty: float = 0.0,
    ) -> None:
        batch = GpuClusterBatch(setup, source.models, source.num_jobs, num_envs, rules, reward)
        super().__init__(batch, source, group_size, split, seed, illegal, illegal_penalty)
        self.single_observation_space, self.single_action_space = joint_spaces(self.batch.spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _apply(
        self, actions: IntArray, fresh: npt.NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Apply joint actions int64[num_envs, num_nodes]."""
        return self.batch.step(np.where(fresh[:, None], PASS, actions))

    def _mend(self, actions: IntArray, fresh: BoolArray) -> tuple[IntArray, IntArray]:
        """Replace masked actions by passing, or by the first allowed one; episodes that restart take no action."""
        mask = self.batch.negotiation.arrays.mask
        shape = mask.shape[:2]
        if not isinstance(actions, np.ndarray) or actions.shape != shape or actions.dtype.kind not in "iu":
            found = f"{actions.dtype}{list(actions.shape)}" if isinstance(actions, np.ndarray) else repr(actions)
            raise MurmurationError(f"actions are {found}; they must be int64{list(shape)}")
        inside = (actions >= 0) & (actions < mask.shape[2])
        chosen = np.take_along_axis(mask, np.where(inside, actions, PASS)[:, :, None], axis=2)[:, :, 0]
        wrong = ~(inside & (chosen > 0)) & ~fresh[:, None]
        if not wrong.any():
            return actions, np.zeros(self.num_envs, np.int64)
        if self.illegal == "raise":
            b, n = np.argwhere(wrong)[0].tolist()
            raise MurmurationError(
                f"action {actions[b, n]} of node {n} in episode {b} is masked out; choose one where mask is 1"
            )
        return np.where(wrong, mask.argmax(axis=2), actions), wrong.sum(axis=1)

    def _observation(self) -> Observation:
        return {name: array.copy() for name, array in self.batch.observation.items()}
