"""Sampling of a batch of episodes into arrays, which are cut into RLlib's episodes at the end."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import SAMPLE_TIMER

from agents.methods.ppo.columns import ELAPSED, NODE_LOGP
from agents.methods.ppo.distribution import chosen_log_probabilities, log_probabilities, sample
from agents.methods.ppo.tape import EpisodeTape
from agents.on_ray.randomness import random_state, set_random_state
from agents.seeding import Phase, derive_seed
from envs.gpu_cluster.vector import GpuClusterVectorEnv
from envs.types import FloatArray, IntArray

CARRIED_OVER = ("_returns", "_lengths", "_names", "_count")  # between fragments, besides the episodes
ObservationArrays = dict[str, npt.NDArray[Any]]


@dataclass
class Fragment:
    """`length` steps of `num_envs` episodes as arrays [length, num_envs, ...]; observations have one step more."""

    observations: ObservationArrays
    actions: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float64]
    elapsed: npt.NDArray[np.float64]
    log_probs: npt.NDArray[np.float32]  # of each node's choice under the sampling policy
    ends: list[tuple[int, int, ObservationArrays]] = field(
        default_factory=list
    )  # step, index in batch, last observation

    @classmethod
    def allocate(cls, length: int, env: GpuClusterVectorEnv) -> "Fragment":
        """Allocate a fragment."""
        spec, count = env.batch.spec, env.num_envs
        observations = {
            name: np.empty((length + 1, *array.shape), array.dtype) for name, array in env.batch.observation.items()
        }
        return cls(
            observations,
            np.empty((length, count, spec.num_nodes), np.int64),
            np.empty((length, count)),
            np.empty((length, count)),
            np.empty((length, count, spec.num_nodes), np.float32),
        )

    def longer(self) -> "Fragment":
        """Return a copy with twice the length; ends are kept."""
        length = len(self.rewards)

        def doubled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            result = np.empty((len(array) + length, *array.shape[1:]), array.dtype)
            result[: len(array)] = array
            return result

        return Fragment(
            {name: doubled(array) for name, array in self.observations.items()},
            doubled(self.actions),
            doubled(self.rewards),
            doubled(self.elapsed),
            doubled(self.log_probs),
            self.ends,
        )


class BatchedEnvRunner(SingleAgentEnvRunner):
    """Steps the batch of a `GpuClusterVectorEnv` directly and writes into preallocated arrays.

    RLlib's own vector runner builds episodes step by step, which takes longer than the environment's steps. Rewards are
    divided by `env_config["reward_scale"]` for learning; logged returns are not.
    """

    _begun = False
    _stands_for: int | None = None
    num_samples = 0  # counted by `agents.methods.ppo.ppo`

    @property
    def index(self) -> int:
        """The number of the runner whose episodes these are: its own, unless it stands in for another one."""
        return int(self.worker_index) if self._stands_for is None else self._stands_for

    @property
    def _vector_env(self) -> GpuClusterVectorEnv:
        env = self.env.unwrapped
        assert isinstance(env, GpuClusterVectorEnv)
        return env

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[SingleAgentEpisode]:
        """Sample a fragment of every episode of the batch; `num_episodes` and `random_actions` are not supported."""
        if num_episodes is not None or random_actions:
            raise ValueError("BatchedEnvRunner samples fragments; evaluate by PolicyScheduler instead of num_episodes")
        if force_reset or not self._begun:
            self._begin()
        if num_timesteps is None:
            length = self.config.get_rollout_fragment_length(self.index)
        else:
            length = -(-num_timesteps // self.num_envs)
        with self.metrics.log_time(SAMPLE_TIMER):
            fragment = self._play(length, self.config.explore if explore is None else explore)
            episodes = self._cut(fragment, length)
        self._increase_sampled_metrics(length * self.num_envs, len(fragment.ends))
        return episodes

    def sampling_state(self) -> dict[str, Any]:
        """Return what `continue_sampling` needs to draw the same samples in another process."""
        state: dict[str, Any] = {
            "index": self.index,
            "begun": self._begun,
            "random": random_state(),
            "metrics": self.metrics.get_state(),
            "num_samples": self.num_samples,
            "num_threads": torch.get_num_threads(),
        }
        if self._begun:
            state |= {name: getattr(self, name) for name in CARRIED_OVER}
            state |= {"episodes": self._episodes_state()}
        return copy.deepcopy(state)

    def continue_sampling(self, state: dict[str, Any]) -> None:
        """Continue from the result of `sampling_state` of a runner with the same settings and any number."""
        state = copy.deepcopy(state)  # nobody may write to arrays that Ray has sent
        self._stands_for, self._begun, self.num_samples = state["index"], False, state["num_samples"]
        if state["begun"]:
            self._begin()
            self._continue_episodes(state["episodes"])
            for name in CARRIED_OVER:
                setattr(self, name, state[name])
        self.metrics.set_state(state["metrics"])
        set_random_state(state["random"])

    def _episodes_state(self) -> Any:
        return self._tape.state()

    def _continue_episodes(self, state: Any) -> None:
        self._tape.replay(self._vector_env, state)

    @property
    def workload_seed(self) -> int:
        """The seed of this runner's workloads; RLlib's is a sum, which runners of other runs can share."""
        return derive_seed(self.config.seed, Phase.SAMPLING, worker=self.index)

    def _begin(self) -> None:
        env = self._vector_env
        env.seed_episodes(self.workload_seed)
        self._tape = EpisodeTape(env)
        for b in range(self.num_envs):
            self._tape.begin(env, b)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)
        self._names = [f"{self.index}_{b}_0" for b in range(self.num_envs)]
        self._count = 0
        self._begun = True

    @torch.inference_mode()
    def _play(self, length: int, explore: bool) -> Fragment:
        env, fragment = self._vector_env, Fragment.allocate(length, self._vector_env)
        scale = float(self.config.env_config["reward_scale"])
        for t in range(length):
            self._look(fragment, t)
            self._act(fragment, t, explore)
            rewards, elapsed, ended = env.batch.step(fragment.actions[t])
            fragment.rewards[t] = rewards / scale
            fragment.elapsed[t] = elapsed
            self._returns += rewards
            self._lengths += 1
            for b in np.flatnonzero(ended):
                self._end(fragment, t, int(b))
                self._tape.begin(env, int(b))
        self._look(fragment, length)
        self._tape.add(fragment.actions, [(t, b) for t, b, _ in fragment.ends])
        return fragment

    def _look(self, fragment: Fragment, t: int) -> None:
        for name, array in self._vector_env.batch.observation.items():
            fragment.observations[name][t] = array

    def _act(self, fragment: Fragment, t: int, explore: bool, places: slice | IntArray = slice(None)) -> None:
        """Sample the choices of step `t` at these indices of the batch."""
        observation = {name: torch.from_numpy(array[t, places]) for name, array in fragment.observations.items()}
        module = self.module.unwrapped() if hasattr(self.module, "unwrapped") else self.module
        logits = module._forward_exploration({Columns.OBS: observation})[Columns.ACTION_DIST_INPUTS]
        log_probs = log_probabilities(logits, fragment.actions.shape[2])
        actions = sample(log_probs) if explore else log_probs.argmax(-1)
        fragment.actions[t, places] = actions.numpy()
        fragment.log_probs[t, places] = chosen_log_probabilities(log_probs, actions).numpy()

    def _end(self, fragment: Fragment, t: int, b: int) -> None:
        """Store the last observation of the episode at index `b`, which ended with step `t`."""
        last = {name: array[b].copy() for name, array in self._vector_env.batch.observation.items()}
        fragment.ends.append((t, b, last))
        self._log_episode(b)

    def _log_episode(self, b: int) -> None:
        """Log the figures of a finished episode; reset its counters."""
        batch = self._vector_env.batch
        episode, counters = batch.state.episode[b, 0], batch.counters(b)
        workload = batch.workloads[b]
        assert workload is not None
        self._log_episode_metrics(int(self._lengths[b]), float(self._returns[b]), 0.0)
        window = self.config.metrics_num_episodes_for_smoothing
        values = {
            "mean_jct": episode.job_seconds / len(workload),
            "makespan": episode.time,
            "utilisation": episode.busy_seconds / max(episode.time * episode.num_gpus, 1e-9),
            "conflict_rate": counters["conflicts"] / max(counters["claims"], 1),
            "unfinished": episode.num_active,
        }
        for name, value in values.items():
            self.metrics.log_value(name, float(value), window=window)
        self._returns[b] = 0.0
        self._lengths[b] = 0

    def _cut(self, fragment: Fragment, length: int) -> list[SingleAgentEpisode]:
        """Cut the fragment into episodes, or parts of them."""
        episodes = []
        begins = [0] * self.num_envs
        for t, b, last in fragment.ends:
            episodes.append(self._episode(fragment, b, begins[b], t + 1, last))
            begins[b] = t + 1
            self._rename(b)
        for b, begin in enumerate(begins):
            if begin < length:
                episodes.append(self._episode(fragment, b, begin, length, None))
        return episodes

    def _rename(self, b: int) -> None:
        """Give the next episode at an index a new name."""
        self._count += 1
        self._names[b] = f"{self.index}_{b}_{self._count}"

    def _episode(
        self,
        fragment: Fragment,
        b: int,
        begin: int,
        end: int,
        last: ObservationArrays | None,
        more: Mapping[str, FloatArray] | None = None,
    ) -> SingleAgentEpisode:
        """Return steps `begin` to `end` at index `b`; `last` is the final observation, `more` are columns."""
        observations = {name: array[begin : end + 1, b] for name, array in fragment.observations.items()}
        if last is not None:  # the next row already belongs to the next episode
            observations = {
                name: np.concatenate([array[begin:end, b], last[name][None]])
                for name, array in fragment.observations.items()
            }
        env = self._vector_env
        steps = (slice(begin, end), b)
        return SingleAgentEpisode(
            id_=self._names[b],
            observations=_buffer(observations, env.single_observation_space),
            actions=_buffer(fragment.actions[steps], env.single_action_space),
            rewards=_buffer(fragment.rewards[steps].astype(np.float32)),
            infos=InfiniteLookbackBuffer(data=[{}] * (end - begin + 1), lookback=0),
            terminated=last is not None,
            truncated=False,
            extra_model_outputs={
                NODE_LOGP: _buffer(fragment.log_probs[steps]),
                ELAPSED: _buffer(fragment.elapsed[steps].astype(np.float32)),
                **{name: _buffer(column.astype(np.float32)) for name, column in (more or {}).items()},
            },
            len_lookback_buffer=0,
        )

    def get_metrics(self) -> Any:
        """Return everything logged since the last call."""
        return self.metrics.reduce()


def _buffer(data: Any, space: Any = None) -> InfiniteLookbackBuffer:
    """Wrap finished data in RLlib's buffer without a copy (semi-private API, so the minor version is pinned)."""
    buffer = InfiniteLookbackBuffer(data=data, lookback=0)
    buffer.finalized = True
    buffer.space = space
    return buffer
