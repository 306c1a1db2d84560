"""A record of the episodes that a runner is in the middle of, from which a resumed run continues them to the bit.

The arrays of a batch are large and refer to each other. An episode follows from the generator that drew its workload
and from the actions since, so these are what is saved; a resumed runner plays the actions again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from envs.gpu_cluster.vector import GpuClusterVectorEnv
from envs.types import IntArray


class EpisodeTape:
    """For each episode of a batch, where it was drawn from and all joint actions since.

    Args:
        env: the episodes.
    """

    def __init__(self, env: GpuClusterVectorEnv) -> None:
        self.origins: list[dict[str, Any]] = [{} for _ in range(env.num_envs)]
        self.actions: list[list[IntArray]] = [[] for _ in range(env.num_envs)]

    def begin(self, env: GpuClusterVectorEnv, b: int) -> None:
        """Begin the next episode at one index of the batch."""
        self.origins[b] = env.rng_state(b)
        env.begin(b)

    def add(self, actions: IntArray, ends: Sequence[tuple[int, int]]) -> None:
        """Add a fragment of joint actions int64[T, B, num_nodes]; `ends` has (step, index) of episodes that ended."""
        last = {b: t for t, b in ends}  # of several ends at one index, the last counts
        for b in range(len(self.actions)):
            if b in last:
                self.actions[b] = []
            self.actions[b].append(actions[last.get(b, -1) + 1 :, b].astype(np.int32))

    def state(self) -> dict[str, Any]:
        """Return everything that `replay` needs."""
        return {
            "origins": self.origins,
            "actions": [np.concatenate([*each]) if each else each for each in self.actions],
        }

    def replay(self, env: GpuClusterVectorEnv, state: dict[str, Any]) -> None:
        """Bring fresh episodes to where they were."""
        for b, (origin, actions) in enumerate(zip(state["origins"], state["actions"], strict=True)):
            env.set_rng_state(b, origin)
            self.begin(env, b)
            self.actions[b] = [actions] if len(actions) else []
            env.batch.replay(b, actions)
