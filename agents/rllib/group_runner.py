"""Sampling in groups: whole episodes that begin together, each compared with the others of its workload."""

from typing import Any

import numpy as np
import torch
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import SAMPLE_TIMER

from agents.rllib.columns import AGAINST_GROUP
from agents.rllib.groups import Course, explained_variance, group_advantages
from agents.rllib.runner import BatchedEnvRunner, Fragment
from envs.types import FloatArray

FIRST_ROOM = 256  # steps; doubled when episodes are longer


class GroupRunner(BatchedEnvRunner):
    """Plays one whole episode in every place, as often as it takes to reach the number of steps that is asked for.

    `env_config["group_size"]` neighbouring places play one workload. They begin together, and a place whose episode has
    ended waits for the last one: fragments of fixed length would begin workloads at different times in one group. The
    advantages are found here, where a group is whole; learners may share its episodes among them.
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
        """Whole episodes of at least `num_timesteps` steps in all, else of this runner's share of a training batch."""
        if num_episodes is not None or random_actions:
            raise ValueError("GroupRunner samples whole groups; evaluate by agents.scheduler instead of num_episodes")
        least = num_timesteps or self.num_envs * self.config.get_rollout_fragment_length(self.worker_index)
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

    @torch.inference_mode()
    def _play_whole(self, explore: bool) -> Fragment:
        """One episode in every place, from its beginning to its end; rows after an end are nobody's."""
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
            fragment.actions[t] = 0  # who has ended waits
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
        """The episodes of all places, with their advantages against their groups."""
        ends = sorted(fragment.ends, key=lambda end: end[1])
        time_constant = self.config.learner_config_dict["time_constant"]
        courses = [
            Course.of(fragment.rewards[: t + 1, b], fragment.elapsed[: t + 1, b], time_constant) for t, b, _ in ends
        ]
        size = self._vector_env.group_size
        found: list[FloatArray] = []
        for first in range(0, len(courses), size):
            found += group_advantages(courses[first : first + size])
        self.metrics.log_value("group_explained_variance", explained_variance(courses, found), window=1)
        episodes: list[Any] = []
        for (t, b, last), advantage in zip(ends, found, strict=True):
            episodes.append(self._episode(fragment, b, 0, t + 1, last, {AGAINST_GROUP: advantage}))
            self._rename(b)
        return episodes
