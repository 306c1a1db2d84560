"""Sampling: whole fragments of a batch of episodes as arrays, cut into RLlib's episodes once at the end."""

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

from agents.rllib.advantage import ELAPSED
from agents.rllib.distribution import chosen, log_probabilities, sample
from envs.gpu_cluster.vector import GpuClusterVectorEnv

Arrays = dict[str, npt.NDArray[Any]]


@dataclass
class Fragment:
    """`length` steps of `num_envs` episodes as arrays [length, num_envs, ...]; observations have one step more."""

    observations: Arrays
    actions: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float32]
    elapsed: npt.NDArray[np.float32]
    logits: npt.NDArray[np.float32]
    log_probs: npt.NDArray[np.float32]
    ends: list[tuple[int, int, Arrays]] = field(default_factory=list)  # step, place in the batch, last observation

    @classmethod
    def allocate(cls, length: int, env: GpuClusterVectorEnv) -> "Fragment":
        """Room for a fragment."""
        spec, count = env.batch.spec, env.num_envs
        observations = {
            name: np.empty((length + 1, *array.shape), array.dtype) for name, array in env.batch.observation.items()
        }
        return cls(
            observations,
            np.empty((length, count, spec.num_servers), np.int64),
            np.empty((length, count), np.float32),
            np.empty((length, count), np.float32),
            np.empty((length, count, spec.num_servers * spec.num_actions), np.float32),
            np.empty((length, count), np.float32),
        )


class BatchedEnvRunner(SingleAgentEnvRunner):
    """Steps `GpuClusterVectorEnv`'s batch directly and writes into preallocated arrays.

    RLlib's own vector runner builds episodes step by step, which costs more than the environment does. Rewards are
    divided by `env_config["reward_scale"]` for learning; logged returns are not.
    """

    _begun = False

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
        """A fragment from every episode of the batch; `num_episodes` and `random_actions` are not offered."""
        if num_episodes is not None or random_actions:
            raise ValueError("BatchedEnvRunner samples fragments; evaluate by agents.scheduler instead of num_episodes")
        if force_reset or not self._begun:
            self._begin()
        if num_timesteps is None:
            length = self.config.get_rollout_fragment_length(self.worker_index)
        else:
            length = -(-num_timesteps // self.num_envs)
        with self.metrics.log_time(SAMPLE_TIMER):
            fragment = self._play(length, self.config.explore if explore is None else explore)
            episodes = self._cut(fragment, length)
        self._increase_sampled_metrics(length * self.num_envs, len(fragment.ends))
        return episodes

    def _begin(self) -> None:
        self._vector_env.reset(seed=self._seed)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)
        self._names = [f"{self.worker_index}_{b}_0" for b in range(self.num_envs)]
        self._count = 0
        self._begun = True

    @torch.inference_mode()
    def _play(self, length: int, explore: bool) -> Fragment:
        env, fragment = self._vector_env, Fragment.allocate(length, self._vector_env)
        scale = float(self.config.env_config["reward_scale"])
        for t in range(length):
            observation = env.batch.observation
            for name, array in observation.items():
                fragment.observations[name][t] = array
            self._act(fragment, t, explore)
            rewards, elapsed, ended = env.batch.step(fragment.actions[t])
            fragment.rewards[t] = rewards / scale
            fragment.elapsed[t] = elapsed
            self._returns += rewards
            self._lengths += 1
            for b in np.flatnonzero(ended):
                last = {name: array[b].copy() for name, array in env.batch.observation.items()}
                fragment.ends.append((t, int(b), last))
                self._log_episode(int(b))
                env.begin(int(b))
        for name, array in env.batch.observation.items():
            fragment.observations[name][length] = array
        return fragment

    def _act(self, fragment: Fragment, t: int, explore: bool) -> None:
        observation = {name: torch.from_numpy(array[t]) for name, array in fragment.observations.items()}
        module = self.module.unwrapped() if hasattr(self.module, "unwrapped") else self.module
        logits = module._forward_exploration({Columns.OBS: observation})[Columns.ACTION_DIST_INPUTS]
        log_probs = log_probabilities(logits, fragment.actions.shape[2])
        actions = sample(log_probs) if explore else log_probs.argmax(-1)
        fragment.actions[t] = actions.numpy()
        fragment.logits[t] = logits.numpy()
        fragment.log_probs[t] = chosen(log_probs, actions).sum(-1).numpy()

    def _log_episode(self, b: int) -> None:
        """Log what a finished episode was worth; reset its counters."""
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
        episodes = []
        begins = [0] * self.num_envs
        for t, b, last in fragment.ends:
            episodes.append(self._episode(fragment, b, begins[b], t + 1, last))
            begins[b] = t + 1
            self._count += 1
            self._names[b] = f"{self.worker_index}_{b}_{self._count}"
        for b, begin in enumerate(begins):
            if begin < length:
                episodes.append(self._episode(fragment, b, begin, length, None))
        return episodes

    def _episode(self, fragment: Fragment, b: int, begin: int, end: int, last: Arrays | None) -> SingleAgentEpisode:
        observations = {name: array[begin : end + 1, b] for name, array in fragment.observations.items()}
        if last is not None:  # the next row belongs to the next episode already
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
            rewards=_buffer(fragment.rewards[steps]),
            infos=InfiniteLookbackBuffer(data=[{}] * (end - begin + 1), lookback=0),
            terminated=last is not None,
            truncated=False,
            extra_model_outputs={
                Columns.ACTION_DIST_INPUTS: _buffer(fragment.logits[steps]),
                Columns.ACTION_LOGP: _buffer(fragment.log_probs[steps]),
                ELAPSED: _buffer(fragment.elapsed[steps]),
            },
            len_lookback_buffer=0,
        )

    def get_metrics(self) -> Any:
        """Everything logged since the last call."""
        return self.metrics.reduce()


def _buffer(data: Any, space: Any = None) -> InfiniteLookbackBuffer:
    """Finished data as RLlib's buffer, without a copy (semi-private interface: hence the pinned minor version)."""
    buffer = InfiniteLookbackBuffer(data=data, lookback=0)
    buffer.finalized = True
    buffer.space = space
    return buffer
