"""A model of the jobs to come, fitted on those that have been submitted so far."""

from dataclasses import replace

import numpy as np

from envs.scheduling import ClusterView
from envs.types import FloatArray, JobSpec, Seconds

LEAST_JOBS = 5  # fewer say nothing about the rate
MOST_JOBS = 200  # drawn at once


class ArrivalModel:
    """Poisson arrivals at the mean rate so far, of jobs resampled from those submitted so far; for one episode.

    A resampled job keeps its model, its GPUs and its range. Its work is what was known when it was submitted: exact,
    estimated, or as guessed by the caller.
    """

    def __init__(self) -> None:
        self._work: list[float] = []

    def reset(self) -> None:
        """Forget the jobs of the last episode."""
        self._work = []

    def observe(self, view: ClusterView, assumed: FloatArray | None) -> None:
        """Note the work of the jobs submitted since the last call.

        Args:
            view: a round.
            assumed: float64[num_submitted], samples left where the scenario hides them.
        """
        jobs = np.arange(len(self._work), len(view.num_gpus))
        left = view.remaining_work(jobs)
        if assumed is not None:
            left = np.where(np.isnan(left), assumed[jobs], left)
        self._work.extend(left.tolist())

    def knows(self, view: ClusterView, until: Seconds) -> bool:
        """Whether enough jobs have been submitted to draw others, and `until` is finite."""
        count = len(self._work)
        return (
            count >= LEAST_JOBS
            and view.time > view.submit_time[0]
            and bool(np.isfinite(until))
            and bool(self._usable())
        )

    def draw(self, view: ClusterView, until: Seconds, rng: np.random.Generator) -> list[JobSpec]:
        """Return jobs that might be submitted between now and `until`, in order of submission; none if unknown."""
        if not self.knows(view, until):
            return []
        count, known = len(self._work), self._usable()
        span = view.time - float(view.submit_time[0])
        number = min(int(rng.poisson(count / span * (until - view.time))), MOST_JOBS)
        times = np.sort(rng.uniform(view.time, until, number))
        drawn = rng.choice(known, number)
        return [
            replace(view.job(job), submit_time=float(at), work=self._work[job], name="")
            for at, job in zip(times, drawn.tolist(), strict=True)
        ]

    def _usable(self) -> list[int]:
        """Jobs whose work is known."""
        return [job for job, work in enumerate(self._work) if np.isfinite(work) and work > 0]
