"""Observations as one vector per agent, for libraries that expect a `Box`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

from envs.episodes.parallel import AgentObservation
from envs.types import MurmurationError

MASK = "action_mask"
FlatObservation = npt.NDArray[np.float32] | AgentObservation


class FlatObservations(BaseParallelWrapper):
    """A PettingZoo environment of this project with one vector as each agent's observation.

    The vector is float32[F]: all parts of the agent's observation except the action mask and the numbers of nodes and
    jobs (int64, the coordination graph), which are no quantities, in the order of `parts`.
    `gymnasium.spaces.unflatten(env.parts(agent), vector)` gives the parts back. Actions, rewards, infos, `state` and
    everything else are those of the wrapped environment.

    Options have an action mask int8[num_actions] where nodes take turns (`turn="turns"`): in
    `infos[agent]["action_mask"]`, or with `key` beside the vector, so that the observation is a dict of two entries:

    | `key` | observation of an agent | for |
    |---|---|---|
    | None | float32[F] | TorchRL, networks without masks, the bidding environment |
    | "observation" | {"observation": float32[F], "action_mask": int8[num_actions]} | PettingZoo's convention |
    | "observations" | {"observations": float32[F], "action_mask": int8[num_actions]} | RLlib's action-masking module |

    Args:
        env: `envs.options.parallel_env(...)`, `envs.bidding.parallel_env(...)`, or another parallel environment
            whose observations are dicts of arrays.
        key: the name of the vector in an observation with mask; None for the vector alone.

    Raises:
        MurmurationError: `key` is given, but the environment has no action mask, or `key` is the name of the mask; or
            observations are no dicts.
    """

    def __init__(self, env: ParallelEnv, key: str | None = None) -> None:
        super().__init__(env)
        self._key = key
        self._parts: dict[str, spaces.Dict] = {}
        self._spaces: dict[str, spaces.Box | spaces.Dict] = {}
        for agent in env.possible_agents:
            self._add_spaces(agent, env.observation_space(agent))

    def _add_spaces(self, agent: str, whole: spaces.Space[Any]) -> None:
        if not isinstance(whole, spaces.Dict):
            raise MurmurationError(f"the observation of {agent} is {whole}; only dicts of arrays can be made flat")
        shown = {name: space for name, space in whole.items() if name != MASK and space.dtype != np.int64}
        self._parts[agent] = spaces.Dict(shown)
        flat = spaces.flatten_space(self._parts[agent])
        assert isinstance(flat, spaces.Box)
        self._spaces[agent] = flat
        if self._key is not None:
            if MASK not in whole.spaces or self._key == MASK:
                raise MurmurationError(
                    f"key is {self._key!r}; it names the vector beside {MASK!r}, so it must be another name, and None "
                    "for an environment without action mask"
                )
            self._spaces[agent] = spaces.Dict({self._key: flat, MASK: whole[MASK]})

    def parts(self, agent: str) -> spaces.Dict:
        """Return the space of the parts of an agent's vector, in their order in it."""
        return self._parts[agent]

    def observation_space(self, agent: str) -> spaces.Box | spaces.Dict:
        """Return bounds and shapes; the same object at every call."""
        return self._spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, FlatObservation], dict[str, dict[str, Any]]]:
        """Begin an episode; arguments as for the wrapped environment."""
        observations, infos = super().reset(seed, options)
        return self._flat(observations), self._with_masks(infos, observations)

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, FlatObservation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        """Apply one joint decision; errors are those of the wrapped environment."""
        observations, rewards, terminations, truncations, infos = super().step(actions)
        masked = self._with_masks(infos, observations)
        return self._flat(observations), rewards, terminations, truncations, masked

    def _flat(self, observations: Mapping[str, AgentObservation]) -> dict[str, FlatObservation]:
        if self._key is None:
            return {agent: self._vector(agent, seen) for agent, seen in observations.items()}
        return {agent: {self._key: self._vector(agent, seen), MASK: seen[MASK]} for agent, seen in observations.items()}

    def _with_masks(
        self, infos: Mapping[str, dict[str, Any]], observations: Mapping[str, AgentObservation]
    ) -> dict[str, dict[str, Any]]:
        """Return infos with the action masks, where these do not stand beside the vectors."""
        if self._key is not None:
            return dict(infos)
        return {agent: {**info, **_mask_of(observations.get(agent, {}))} for agent, info in infos.items()}

    def _vector(self, agent: str, seen: AgentObservation) -> npt.NDArray[np.float32]:
        vector = spaces.flatten(self._parts[agent], {name: seen[name] for name in self._parts[agent]})
        assert isinstance(vector, np.ndarray)
        return vector


def _mask_of(seen: Mapping[str, Any]) -> dict[str, Any]:
    return {MASK: seen[MASK]} if MASK in seen else {}
