"""Predictions of work in a batch of episodes: between rounds Python asks the predictor, as `Simulator` does."""

import numpy as np

from envs.simulation import Setup, ThroughputTable
from envs.simulation.compiled.jit import RepeatedKernel, kernel
from envs.simulation.known.predictions import (
    QUARTILES,
    Predictions,
    list_jobs_present,
    quantiles_left,
    remaining_outcomes,
    show_predicted,
)
from envs.simulation.world.arrays import World, episode_of
from envs.simulation.world.clock import advance
from envs.simulation.world.kernels import LOG_FULL, ROUND, settle
from envs.types import FloatArray, IntArray
from envs.workloads import Workload


@kernel
def reach_round_to_predict(batch: World, b: int, present: IntArray, done: FloatArray, count: IntArray) -> int:
    """End a round of an episode, advance time to the next one, and list the jobs in the system.

    Args:
        batch: all episodes.
        b: the episode.
        present, done: see `envs.simulation.known.predictions.list_jobs_present`.
        count: int64[1], overwritten by their number.

    Returns:
        The result code; LOG_FULL asks for a longer log and for another call.
    """
    world = episode_of(batch, b)
    if settle(world) < 0:
        return LOG_FULL
    outcome = advance(world)
    count[0] = list_jobs_present(world, present, done)
    return int(outcome)


@kernel
def show_predictions(batch: World, b: int, present: IntArray, work: FloatArray) -> None:
    """Call `envs.simulation.known.predictions.show_predicted` for an episode."""
    show_predicted(episode_of(batch, b), present, work)


class PredictedEpisodes:
    """The predictions about each episode of a batch.

    Args:
        setup: lets work be predicted.
        num_jobs: the largest number of jobs of one episode.
        batch_size: number of episodes.

    Attributes:
        quartiles: whether `left` is kept up to date.
        left: float64[batch_size, num_jobs, 2], of the jobs in the system at each round, see `quantiles_left`.
    """

    def __init__(self, setup: Setup, num_jobs: int, batch_size: int) -> None:
        self._setup = setup
        self._predictions: list[Predictions | None] = [None] * batch_size
        self.quartiles = False
        self.left = np.zeros((batch_size, num_jobs, len(QUARTILES)))
        self._present, self._done = np.zeros(num_jobs, np.int64), np.zeros(num_jobs)
        self._count = np.zeros(1, np.int64)
        self._reach, self._show = RepeatedKernel(reach_round_to_predict), RepeatedKernel(show_predictions)

    def load(self, b: int, workload: Workload, table: ThroughputTable) -> None:
        """Begin an episode."""
        self._predictions[b] = Predictions(self._setup, workload, table)

    def work(self, b: int) -> FloatArray:
        """float64[num_jobs, NUM_OUTCOMES]: see `envs.simulation.known.predictions.Predictions`."""
        return self._of(b).work

    def pass_time(self, b: int, batch: World) -> int:
        """End a round, advance to the next one, and show what is predicted there; return the result code."""
        outcome = self._reach(batch, b, self._present, self._done, self._count)
        if outcome == ROUND:
            present, done = self._present[: self._count[0]], self._done[: self._count[0]]
            predictions = self._of(b)
            predictions.look(int(batch.episode[b, 0].next_job), present, done)
            self._show(batch, b, present, predictions.work)
            if self.quartiles:
                self.left[b, present] = quantiles_left(remaining_outcomes(predictions.work[present], done))
        return int(outcome)

    def copy_episodes(self, places: IntArray, other: "PredictedEpisodes", episodes: IntArray) -> None:
        """Copy the predictions of running episodes of another batch."""
        for place, episode in zip(places.tolist(), episodes.tolist(), strict=True):
            predictions = other._predictions[episode]
            self._predictions[place] = predictions and predictions.copy()
            self.left[place] = other.left[episode]

    def _of(self, b: int) -> Predictions:
        predictions = self._predictions[b]
        assert predictions is not None, "the episode has not begun"
        return predictions
