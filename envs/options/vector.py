"""The Gymnasium forms of the options environment: one agent chooses among the options of all nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from envs.episodes import EpisodeVectorEnv, Reward
from envs.episodes.defaults import Illegal
from envs.episodes.standard import JointEnv
from envs.episodes.vector import JointObservation
from envs.options.batch import OptionBatch
from envs.options.padding import (
    check_room,
    mask_box,
    most_jobs,
    option_features_box,
    padded_indices,
    padded_mask,
    padded_rows,
)
from envs.options.rules import OptionRules
from envs.simulation import Setup
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError
from envs.workloads import WorkloadSource


def joint_option_spaces(batch: OptionBatch, max_options: int) -> tuple[spaces.Dict, spaces.Discrete[np.int64]]:
    """Return the spaces of one episode's observation and action."""
    jobs, nodes, spec = most_jobs(batch), batch.cluster.num_nodes, batch.spec
    observation = spaces.Dict(
        {
            "options": option_features_box(max_options, spec.option_features),
            "option_jobs": spaces.Box(-1, jobs - 1, (max_options,), np.int64),
            "option_nodes": spaces.Box(-1, nodes - 1, (max_options,), np.int64),
            "jobs": option_features_box(jobs, spec.job_features),
            "nodes": option_features_box(nodes, spec.node_features),
            "cluster": option_features_box(spec.cluster_features),
            "action_mask": mask_box(max_options),
        }
    )
    return observation, spaces.Discrete(max_options)


class OptionVectorEnv(EpisodeVectorEnv[OptionBatch, IntArray]):
    """`num_envs` episodes of the joint problem. An ended episode restarts at the next step (NEXT_STEP).

    An action is the place of an option in the list of all, or where nodes take turns in that of the node whose turn it
    is, in the order of `envs.options.listing`. Options beyond the first `max_options` cannot be chosen;
    `info["left_out"]` int64[num_envs] has their number, in `reset` and in `step`.

    Observation of an episode: `options` [max_options, F_option]; for each its row of `jobs` and its node in
    `option_jobs` and `option_nodes`, -1 for waiting and where there is no option; `jobs`, `nodes`, `cluster`;
    `action_mask` int8[max_options], 1 where there is an option.

    The other arguments are those of `EpisodeVectorEnv`.

    Args:
        setup: the cluster, the performance model and the scenario.
        num_envs: number of episodes in one call.
        rules: see its class.
        reward: see its class.
        max_options: of a decision.
    """

    def __init__(
        self,
        setup: Setup,
        source: WorkloadSource,
        num_envs: int = 1,
        rules: OptionRules | None = None,
        reward: Reward | None = None,
        group_size: int = 1,
        split: str = "train",
        seed: int = 0,
        illegal: Illegal = "nothing",
        illegal_penalty: float = 0.0,
        max_options: int = 512,
    ) -> None:
        check_room(max_options=max_options)
        if rules is not None and rules.turn == "together":
            raise MurmurationError(
                "env.turn is together, where nodes choose at the same time; one agent for all nodes chooses one option "
                "after another: set env.rules.turn=auction, or take PettingZoo's form (envs.options.parallel_env)"
            )
        batch = OptionBatch(setup, source.models, source.num_jobs, num_envs, rules, reward)
        super().__init__(batch, source, group_size, split, seed, illegal, illegal_penalty)
        self.max_options = max_options
        self._counts: IntArray = np.zeros(num_envs, np.int64)  # options of the present decisions
        self.single_observation_space, self.single_action_space = joint_option_spaces(batch, max_options)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[JointObservation, dict[str, Any]]:
        """Begin all episodes, or some; see `EpisodeVectorEnv.reset`."""
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, "left_out": self._left_out()}

    def step(
        self, actions: IntArray
    ) -> tuple[JointObservation, FloatArray, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Carry out an option in every episode; see `EpisodeVectorEnv.step`."""
        *found, info = super().step(actions)
        return *found, {**info, "left_out": self._left_out()}  # type: ignore[return-value]

    def _left_out(self) -> IntArray:
        return np.maximum(self._counts - self.max_options, 0)

    def _apply(
        self, actions: IntArray, fresh: npt.NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Carry out options int64[num_envs]."""
        return self.batch.step(np.where(fresh, -1, actions))

    def _mend(self, actions: IntArray, fresh: BoolArray) -> tuple[IntArray, IntArray]:
        """Replace places without option by the first, which is waiting where that is offered."""
        if not isinstance(actions, np.ndarray) or actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            found = f"{actions.dtype}{list(actions.shape)}" if isinstance(actions, np.ndarray) else repr(actions)
            raise MurmurationError(f"actions are {found}; they must be int64[{self.num_envs}]")
        wrong = ((actions < 0) | (actions >= np.minimum(self._counts, self.max_options))) & ~fresh
        if self.illegal == "raise" and wrong.any():
            b = int(np.argmax(wrong))
            raise MurmurationError(
                f"action {actions[b]} in episode {b} is no option; choose one where action_mask is 1"
            )
        return np.where(wrong, 0, actions).astype(np.int64), wrong.astype(np.int64)

    def _observation(self) -> JointObservation:
        found = [self._observe(b) for b in range(self.num_envs)]
        return {name: np.stack([one[name] for one in found]) for name in found[0]}

    def _observe(self, b: int) -> JointObservation:
        """Return the observation of one episode."""
        options, most = self.batch.options(b), self.max_options
        self._counts[b] = len(options.what)
        return {
            "options": padded_rows(options.options, most),
            "option_jobs": padded_indices(options.job_of, most),
            "option_nodes": padded_indices(options.node_of, most),
            "jobs": padded_rows(options.jobs, most_jobs(self.batch)),
            "nodes": options.nodes,
            "cluster": options.cluster,
            "action_mask": padded_mask(len(options.what), most),
        }


class JointOptionEnv(JointEnv[IntArray]):
    """`JointEnv` with the masks of `OptionVectorEnv`, which sb3-contrib's MaskablePPO asks for by method."""

    def action_masks(self) -> BoolArray:
        """Return bool[max_options]: where there is an option now."""
        vector = self._vector
        assert isinstance(vector, OptionVectorEnv)
        allowed: BoolArray = padded_mask(len(vector.batch.options().what), vector.max_options) > 0
        return allowed
