"""RLlib's PPO with samples that depend neither on lost runners nor on the time that anything takes.

RLlib goes on without a runner that has died, or that needs longer than `sample_timeout_s`, so its samples depend on
the machine. Here the driver keeps the state that each runner had after its last sample. Other runners sample from this
state what a lost one would have sampled, to the bit; Ray starts the lost one again, and it continues from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from ray.rllib.algorithms.ppo import PPO
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    SYNCH_WORKER_WEIGHTS_TIMER,
    TIMERS,
)

from agents.methods.ppo.runner import BatchedEnvRunner

SamplingStates = Mapping[int, dict[str, Any]]  # by the number of the runner


@dataclass(frozen=True)
class Sample:
    """The samples of one call of a runner."""

    episodes: list[SingleAgentEpisode]
    metrics: Any
    state: dict[str, Any]  # of the runner after it, see `BatchedEnvRunner.sampling_state`

    @property
    def num_steps(self) -> int:
        """Steps of the environment."""
        return sum(map(len, self.episodes))


class SteadyPPO(PPO):
    """PPO on runners that may die.

    Attributes:
        sampling: the state of each runner after its last sample, by its number.
    """

    def setup(self, config: Any) -> None:
        """Start the workers."""
        super().setup(config)
        self._alone = self.config.num_env_runners == 0
        self.sampling = dict(self.env_runner_group.foreach_env_runner(sampling_of, local_env_runner=self._alone))

    def training_step(self) -> None:
        """Sample a batch, update the weights from it, and send them to all runners."""
        with self.metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            samples = self._sample_batch()
            self.metrics.aggregate([sample.metrics for sample in samples], key=ENV_RUNNER_RESULTS)
        with self.metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            steps = self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME))
            learned = self.learner_group.update(
                episodes=[episode for sample in samples for episode in sample.episodes],
                timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: steps},
                num_epochs=self.config.num_epochs,
                minibatch_size=self.config.minibatch_size,
                shuffle_batch_per_epoch=self.config.shuffle_batch_per_epoch,
            )
            self.metrics.aggregate(learned, key=LEARNER_RESULTS)
        with self.metrics.log_time((TIMERS, SYNCH_WORKER_WEIGHTS_TIMER)):
            self.send_weights()

    def send_weights(self) -> None:
        """Send the learner's weights to all runners and wait: RLlib's `sync_weights` drops them in a queue."""
        state = {COMPONENT_RL_MODULE: self.learner_group.get_weights()}
        self.env_runner_group.foreach_env_runner(lambda runner: runner.set_state(state))

    def continue_sampling(self, states: SamplingStates) -> None:
        """Continue all runners from these states; a runner without one begins anew."""
        self.sampling |= {index: state for index, state in states.items() if index in self.sampling}
        self.env_runner_group.foreach_env_runner(partial(continue_runner, states=self.sampling))

    def _sample_batch(self) -> list[Sample]:
        """Sample from all runners, in the order of their numbers, until the batch has enough steps."""
        samples: list[Sample] = []
        while sum(sample.num_steps for sample in samples) < self.config.total_train_batch_size:
            found = self._sample_once()
            self.sampling |= {index: sample.state for index, sample in found.items()}
            samples += [found[index] for index in sorted(found)]
        return samples

    def _sample_once(self) -> dict[int, Sample]:
        """Return one sample of each runner, by its number."""
        group = self.env_runner_group
        if self._alone:
            return {0: take_sample(group.local_env_runner)}
        counts = {index: state["num_samples"] for index, state in self.sampling.items()}
        calls = group.foreach_env_runner(partial(sample_in_turn, counts=counts), local_env_runner=False)
        found = {index: sample for index, sample in calls if sample is not None}
        if behind := [index for index, sample in calls if sample is None]:
            weights = group.local_env_runner.get_state(components=COMPONENT_RL_MODULE)
            catch_up = partial(continue_runner, states=self.sampling, weights=weights)
            group.foreach_env_runner(catch_up, remote_worker_ids=behind, local_env_runner=False)
        return found | self._sample_lost(sorted(self.sampling.keys() - found.keys()))

    def _sample_lost(self, lost: list[int]) -> dict[int, Sample]:
        """Sample what these runners would have sampled: by the other runners, and what they do not, by the driver."""
        group = self.env_runner_group
        found: dict[int, Sample] = {}
        if lost and (helpers := group.healthy_env_runner_ids()):
            shares = [{index: self.sampling[index] for index in lost[i :: len(helpers)]} for i in range(len(helpers))]
            calls = [partial(sample_for, states=share) for share in shares]
            for part in group.foreach_env_runner(calls, remote_worker_ids=helpers, local_env_runner=False):
                found |= part
        left = {index: self.sampling[index] for index in lost if index not in found}
        return found | sample_for(group.local_env_runner, left)


# Functions and not methods, because RLlib sends them to the workers.


def sampling_of(runner: BatchedEnvRunner) -> tuple[int, dict[str, Any]]:
    """Return a runner's number and its state."""
    return runner.worker_index, runner.sampling_state()


def continue_runner(runner: BatchedEnvRunner, states: SamplingStates, weights: Mapping[str, Any] | None = None) -> None:
    """Continue a runner from its own state, with other weights if they are given."""
    if weights is not None:
        runner.set_state(weights)
    if runner.worker_index in states:
        runner.continue_sampling(states[runner.worker_index])


def take_sample(runner: BatchedEnvRunner) -> Sample:
    """Sample once."""
    episodes = runner.sample()
    runner.num_samples += 1
    return Sample(episodes, runner.get_metrics(), runner.sampling_state())


def sample_in_turn(runner: BatchedEnvRunner, counts: Mapping[int, int]) -> tuple[int, Sample | None]:
    """Return a runner's number and its sample; none if it has not taken `counts` samples, so that it is a new one."""
    in_turn = runner.num_samples == counts[runner.worker_index]
    return runner.worker_index, take_sample(runner) if in_turn else None


def sample_for(runner: BatchedEnvRunner, states: SamplingStates) -> dict[int, Sample]:
    """Sample once in place of each of the runners with these states; the runner's own state stays what it is."""
    found: dict[int, Sample] = {}
    if not states:
        return found
    own, threads = runner.sampling_state(), torch.get_num_threads()
    try:
        for index, state in states.items():
            runner.continue_sampling(state)
            torch.set_num_threads(state["num_threads"])  # sums depend on it
            found[index] = take_sample(runner)
    finally:
        torch.set_num_threads(threads)
        runner.continue_sampling(own)
    return found
