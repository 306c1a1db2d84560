"""Protection of restarted jobs: for some time after a restart, a job is not changed again."""

import math

import numpy as np

from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, IntArray, JobId, MurmurationError, Seconds


class RestartProtection:
    """The restarts of one episode, and the jobs that they protect.

    Args:
        scheduler: name for errors.
        multiple: a restarted job is protected for so many of its restart delays.

    Raises:
        MurmurationError: the multiple is negative or not finite.
    """

    def __init__(self, scheduler: str, multiple: float) -> None:
        if not (multiple >= 0 and math.isfinite(multiple)):
            raise MurmurationError(f"{scheduler}: protection is {multiple}; it must be finite and not negative")
        self.multiple = multiple
        self._restarted: dict[JobId, Seconds] = {}  # the last restart of jobs that were restarted

    def reset(self) -> None:
        """Begin an episode."""
        self._restarted = {}

    def protected(self, view: ClusterView, jobs: IntArray) -> BoolArray:
        """bool[len(jobs)]: the running jobs that were restarted too short a time ago to be changed."""
        restarted = np.array([self._restarted.get(job, -math.inf) for job in jobs.tolist()])
        until = restarted + self.multiple * view.restart_delay[jobs]
        found: BoolArray = np.isin(jobs, view.running) & (view.time < until)
        return found

    def remember(self, view: ClusterView, allocation: Allocation) -> None:
        """Record the restarts of an allocation."""
        served = view.attained_service(np.arange(len(view.num_gpus))) > 0
        for job, placement in allocation.changes.items():
            if placement and served[job]:
                self._restarted[job] = view.time
