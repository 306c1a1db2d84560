"""Forms of the environments that other libraries expect: agents one after another, and one agent for all nodes."""

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import Env, spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from envs.episodes.scene import Scene
from envs.episodes.vector import EpisodeVectorEnv, JointObservation

JointAction = TypeVar("JointAction", bound=npt.NDArray[Any])


def as_turns(parallel: ParallelEnv) -> AECEnv:
    """Return PettingZoo's raw AEC form of a parallel environment: nodes act one after another, then time passes."""
    turns: AECEnv = parallel_to_aec(parallel)
    return turns


def ordered_turns(parallel: ParallelEnv) -> AECEnv:
    """Return PettingZoo's AEC form of a parallel environment that also checks the order of calls."""
    return OrderEnforcingWrapper(as_turns(parallel))


class JointEnv(Env[JointObservation, JointAction], Generic[JointAction]):
    """One agent that decides for all nodes, as a Gymnasium environment of one episode.

    `reset(options={"workload": w})` plays a given workload.

    Args:
        vector: a vectorised environment of one episode.
        render_mode: "rgb_array" (uint8[height, width, 3]) or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012  as Gymnasium declares it

    def __init__(self, vector: EpisodeVectorEnv[Any, JointAction], render_mode: str | None = None) -> None:
        self._vector = vector
        self.render_mode = render_mode
        self._palette: Any = None  # of pictures
        self.observation_space: spaces.Space[Any] = vector.single_observation_space
        self.action_space: spaces.Space[Any] = vector.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[JointObservation, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        observation, info = self._vector.reset(seed=seed, options=options)
        return _first(observation), {name: values[0] for name, values in info.items()}

    def step(self, action: JointAction) -> tuple[JointObservation, float, bool, bool, dict[str, Any]]:
        """Apply a joint action; the infos are those of the vectorised environment.

        Raises:
            MurmurationError: the action has another shape or type, or is not allowed and refused.
        """
        found, rewards, ended, cut, info = self._vector.step(np.asarray(action)[None])  # type: ignore[arg-type]
        infos = {name: values[0] for name, values in info.items()}
        return _first(found), float(rewards[0]), bool(ended[0]), bool(cut[0]), infos

    def render(self) -> npt.NDArray[np.uint8] | None:  # type: ignore[override]
        """Return a picture of the cluster; None without `render_mode`."""
        if self.render_mode is None:
            return None
        from envs.episodes.drawing import Palette, draw_scene  # loads Pillow, which training does not need

        self._palette = self._palette or Palette()
        return draw_scene(Scene.of(self._vector.batch.state, self._vector.batch.cluster), self._palette)


def _first(observation: JointObservation) -> JointObservation:
    return {name: array[0] for name, array in observation.items()}
