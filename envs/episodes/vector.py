"""The part of a Gymnasium `VectorEnv` that does not depend on what is observed and decided."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from envs.episodes.defaults import Illegal, check_illegal
from envs.episodes.parallel import EnvBatch
from envs.types import BoolArray, FloatArray, IntArray, MurmurationError
from envs.workloads import WorkloadSource

JointObservation = dict[str, npt.NDArray[np.generic]]
Actions = TypeVar("Actions", bound=npt.NDArray[Any])


class EpisodeVectorEnv(VectorEnv[JointObservation, Actions, npt.NDArray[Any]], Generic[EnvBatch, Actions], ABC):
    """`num_envs` episodes of the joint problem. An ended episode restarts at the next step (NEXT_STEP).

    Args:
        batch: the episodes; their number must be a multiple of `group_size`.
        source: draws the workloads.
        group_size: number of consecutive episodes that share a workload, for comparison within the group.
        split: the split of the source from which episodes are drawn.
        seed: the same seed gives the same sequence of workloads, to the bit.
        illegal: see `NodeParallelEnv`.
        illegal_penalty: see `NodeParallelEnv`.

    Raises:
        MurmurationError: the groups do not divide the episodes.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  as Gymnasium declares it

    def __init__(
        self,
        batch: EnvBatch,
        source: WorkloadSource,
        group_size: int,
        split: str,
        seed: int,
        illegal: Illegal = "nothing",
        illegal_penalty: float = 0.0,
    ) -> None:
        check_illegal(illegal, illegal_penalty)
        self.illegal, self.illegal_penalty = illegal, illegal_penalty
        self.num_envs, self.group_size = batch.batch_size, group_size
        if self.num_envs % group_size:
            raise MurmurationError(f"num_envs is {self.num_envs}; it must be a multiple of group_size, {group_size}")
        self.source, self.split = source, split
        self.batch = batch
        self.elapsed: FloatArray = np.zeros(self.num_envs)  # simulated seconds of the last step
        self.seed_episodes(seed)

    def seed_episodes(self, seed: int) -> None:
        """Give the members of a group equal generators, so that their n-th episodes are the same workload."""
        roots = np.random.SeedSequence(seed).spawn(self.num_envs // self.group_size)
        self._rngs = [np.random.default_rng(roots[b // self.group_size]) for b in range(self.num_envs)]

    def _seed_each(self, seeds: Sequence[int | None], chosen: BoolArray) -> None:
        """Give the chosen episodes generators of their own seeds; None leaves an episode's generator as it is."""
        if len(seeds) != self.num_envs:
            raise MurmurationError(f"reset: {len(seeds)} seeds for {self.num_envs} episodes; give one for each")
        for first in range(0, self.num_envs, self.group_size):
            if len(set(seeds[first : first + self.group_size])) > 1:
                raise MurmurationError(
                    f"reset: episodes {first} to {first + self.group_size - 1} are a group that plays one workload; "
                    "give them equal seeds"
                )
        for b in np.flatnonzero(chosen).tolist():
            if seeds[b] is not None:
                self._rngs[b] = np.random.default_rng(seeds[b])

    def begin(self, b: int) -> None:
        """Begin the next episode at one index of the batch."""
        self.batch.load(b, self.source.episode(self._rngs[b], self.split), self._rngs[b])

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[JointObservation, dict[str, Any]]:
        """Begin all episodes, or some.

        Args:
            seed: of all episodes together, or one for each, where None lets the episode's random draws go on.
            options: `reset_mask`, bool[num_envs], begins only the marked episodes; `workload` is played by those that
                begin.

        Raises:
            MurmurationError: the numbers of seeds or of marks are wrong, or they divide a group.
        """
        chosen = self._marked((options or {}).get("reset_mask"))
        if isinstance(seed, int | np.integer):
            if not chosen.all():
                raise MurmurationError("reset: one seed for some of the episodes; give a list with a seed for each")
            self.seed_episodes(int(seed))
        elif seed is not None:
            self._seed_each(seed, chosen)
        workload = (options or {}).get("workload")
        for b in np.flatnonzero(chosen).tolist():
            if workload is None:
                self.begin(b)
            else:
                self.batch.load(b, workload, self._rngs[b])
        return self._observation(), {}

    def _marked(self, mask: BoolArray | None) -> BoolArray:
        """Return bool[num_envs]: the episodes that a reset begins."""
        if mask is None:
            return np.ones(self.num_envs, bool)
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise MurmurationError(f"reset_mask must be bool[{self.num_envs}] with at least one episode that begins")
        by_group = mask.reshape(-1, self.group_size)
        if (by_group.any(axis=1) != by_group.all(axis=1)).any():
            raise MurmurationError("reset_mask divides a group of episodes that play one workload; mark all of it")
        return mask

    def step(
        self, actions: Actions
    ) -> tuple[JointObservation, FloatArray, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Apply a joint action in every episode.

        `info["elapsed"]` float64[num_envs]: simulated time in seconds. `info["illegal"]` int64[num_envs]: the number
        of nodes whose action was not allowed in this step.

        Raises:
            MurmurationError: the actions have another shape or type, or one is not allowed and `illegal` is "raise".
        """
        fresh = self.batch.ended.copy()
        mended, wrong = self._mend(actions, fresh)
        rewards, self.elapsed, ended = self._apply(mended, fresh)
        rewards = rewards - self.illegal_penalty * wrong
        for b in np.flatnonzero(fresh):
            self.begin(int(b))
        rewards = np.where(fresh, 0.0, rewards)
        ended = ended & ~fresh
        info = {"elapsed": self.elapsed, "illegal": wrong}
        return self._observation(), rewards, ended, np.zeros(self.num_envs, bool), info

    @abstractmethod
    def _mend(self, actions: Actions, fresh: BoolArray) -> tuple[Actions, IntArray]:
        """Replace actions that are not allowed; return all, and int64[num_envs], how many nodes' were replaced.

        Raises:
            MurmurationError: the actions have another shape or type, or one is not allowed and `illegal` is "raise".
        """

    @abstractmethod
    def _apply(
        self, actions: Actions, fresh: npt.NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Apply the allowed actions, except in episodes that restart; return what the batch's step returns."""

    @abstractmethod
    def _observation(self) -> JointObservation:
        """Return a copy of the present observation, with a leading batch axis."""
