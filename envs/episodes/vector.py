"""The part of a Gymnasium `VectorEnv` that does not depend on what is observed and decided."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from envs.episodes.parallel import EnvBatch
from envs.types import FloatArray, MurmurationError
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

    Raises:
        MurmurationError: the groups do not divide the episodes.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  as Gymnasium declares it

    def __init__(self, batch: EnvBatch, source: WorkloadSource, group_size: int, split: str, seed: int) -> None:
        self.num_envs, self.group_size = batch.batch_size, group_size
        if self.num_envs % group_size:
            raise MurmurationError(f"num_envs is {self.num_envs}; it must be a multiple of group_size, {group_size}")
        self.source, self.split = source, split
        self.batch = batch
        self.elapsed: FloatArray = np.zeros(self.num_envs)  # simulated seconds of the last step
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
    ) -> tuple[JointObservation, dict[str, Any]]:
        """Begin all episodes. Of a list of seeds only the first is used."""
        first = seed[0] if isinstance(seed, list) else seed
        if first is not None:
            self._seed(first)
        for b in range(self.num_envs):
            self.begin(b)
        return self._observation(), {}

    def step(
        self, actions: Actions
    ) -> tuple[JointObservation, FloatArray, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Apply a joint action in every episode; `info["elapsed"]` is simulated time.

        Raises:
            MurmurationError: the actions have another shape or type, or one of them is not allowed.
        """
        fresh = self.batch.ended.copy()
        rewards, self.elapsed, ended = self._apply(actions, fresh)
        for b in np.flatnonzero(fresh):
            self.begin(int(b))
        rewards = np.where(fresh, 0.0, rewards)
        ended = ended & ~fresh
        return self._observation(), rewards, ended, np.zeros(self.num_envs, bool), {"elapsed": self.elapsed}

    @abstractmethod
    def _apply(
        self, actions: Actions, fresh: npt.NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Check and apply the actions, except in episodes that restart; return what the batch's step returns."""

    @abstractmethod
    def _observation(self) -> JointObservation:
        """Return a copy of the present observation, with a leading batch axis."""
