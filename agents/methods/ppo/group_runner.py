"""Sampling in groups: whole episodes that begin together, each compared with others of the same workload."""

from typing import Any

import numpy as np
import torch
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import SAMPLE_TIMER

from agents.methods.ppo.columns import AGAINST_GROUP
from agents.methods.ppo.groups import ReturnCurve, explained_variance, group_advantages
from agents.methods.ppo.runner import BatchedEnvRunner, Fragment
from envs.gpu_cluster.columns import PASS
from envs.types import FloatArray

FIRST_ROOM = 256  # steps for which arrays are allocated; doubled for longer episodes


class GroupRunner(BatchedEnvRunner):
    """Plays whole episodes, one per environment, until the requested number of steps is reached.

    `env_config["group_size"]` consecutive environments play one workload. They begin together, and one whose episode
    has ended waits for the others: with fragments of fixed length, the members of a group would begin a workload at
    different times. The advantages are computed here, where groups are complete; learners may divide their episodes.
    """

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[SingleAgentEpisode]:
        """Sample whole episodes: at least `num_timesteps` steps, by default this runner's share of a training batch."""
        if num_episodes is not None or random_actions:
            raise ValueError("GroupRunner samples whole groups; evaluate by PolicyScheduler instead of num_episodes")
        least = num_timesteps or self.num_envs * self.config.get_rollout_fragment_length(self.index)
        if force_reset:
            self._begun = False
        episodes: list[SingleAgentEpisode] = []
        steps = 0
        with self.metrics.log_time(SAMPLE_TIMER):
            while steps < least:
                fragment = self._play_whole(self.config.explore if explore is None else explore)
                episodes += self._compared(fragment)
                steps += sum(t + 1 for t, _, _ in fragment.ends)
        self._increase_sampled_metrics(steps, len(episodes))
        return episodes

    def _episodes_state(self) -> Any:
        """All episodes have ended; only the generators of the next ones are left."""
        return [self._vector_env.rng_state(b) for b in range(self.num_envs)]

    def _continue_episodes(self, state: Any) -> None:
        for b, rng_state in enumerate(state):
            self._vector_env.set_rng_state(b, rng_state)

    @torch.inference_mode()
    def _play_whole(self, explore: bool) -> Fragment:
        """Play one episode per environment from beginning to end; rows after an end are unused."""
        env = self._vector_env
        if self._begun:
            for b in range(self.num_envs):
                env.begin(b)
        else:
            self._begin()
        fragment = Fragment.allocate(FIRST_ROOM, env)
        scale = float(self.config.env_config["reward_scale"])
        going = np.ones(self.num_envs, bool)
        t = 0
        while going.any():
            if t == len(fragment.rewards):
                fragment = fragment.longer()
            self._look(fragment, t)
            fragment.actions[t] = PASS  # ended episodes wait
            self._act(fragment, t, explore, np.flatnonzero(going))
            rewards, elapsed, ended = env.batch.step(fragment.actions[t])
            fragment.rewards[t] = rewards / scale
            fragment.elapsed[t] = elapsed
            self._returns += np.where(going, rewards, 0.0)
            self._lengths += going
            for place in np.flatnonzero(ended & going):
                self._end(fragment, t, int(place))
            going &= ~ended
            t += 1
        return fragment

    def _compared(self, fragment: Fragment) -> list[SingleAgentEpisode]:
        """Return the episodes of all environments, with their advantages against their groups."""
        ends = sorted(fragment.ends, key=lambda end: end[1])
        time_constant = self.config.learner_config_dict["time_constant"]
        curves = [
            ReturnCurve.of(fragment.rewards[: t + 1, b], fragment.elapsed[: t + 1, b], time_constant)
            for t, b, _ in ends
        ]
        size = self._vector_env.group_size
        found: list[FloatArray] = []
        for first in range(0, len(curves), size):
            found += group_advantages(curves[first : first + size])
        self.metrics.log_value("group_explained_variance", explained_variance(curves, found), window=1)
        episodes: list[Any] = []
        for (t, b, last), advantage in zip(ends, found, strict=True):
            episodes.append(self._episode(fragment, b, 0, t + 1, last, {AGAINST_GROUP: advantage}))
            self._rename(b)
        return episodes
