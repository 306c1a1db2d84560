"""What users have used so far, and the fair share that follows; brought up to date every PriorityCalcPeriod."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from baselines.slurm.fair_share import FairShare
from baselines.slurm.job_table import JobTable
from baselines.slurm.settings import SlurmSettings
from envs.types import FloatArray, IntArray, JobId, Seconds


class ServiceView(Protocol):
    """The part of a view that usage needs."""

    @property
    def time(self) -> Seconds:
        """The present time."""
        ...

    @property
    def running(self) -> IntArray:
        """int64[num_running]: jobs that hold GPUs."""
        ...

    def attained_service(self, jobs: IntArray) -> FloatArray:
        """Return the GPU-seconds that each of these jobs has received."""
        ...


class Usage:
    """Fair-share factors of the users of an episode, by the core-seconds of their jobs.

    Slurm brings usage up to date at every multiple of the period; here it is the first round at or after it.

    Args:
        settings: the settings in force.
        table: the jobs.

    Attributes:
        factors: of each association of the table, from 0 to 1.
    """

    def __init__(self, settings: SlurmSettings, table: JobTable) -> None:
        self._fair, self._table = FairShare(settings), table
        self._counted: dict[JobId, float] = {}  # GPU-seconds of a job that have been counted
        self.factors: list[float] = []

    def add(self, associations: Sequence[tuple[str, str]]) -> None:
        """Add new associations, which changes the ranks of all."""
        for account, user in associations:
            self._fair.find(account, user)
        self.factors = self._fair.rank()

    def update(self, view: ServiceView, held: Sequence[JobId]) -> list[JobId]:
        """Count what jobs have used, and rank all users anew.

        Args:
            view: the round.
            held: jobs that have held GPUs since the last call, each once.

        Returns:
            Those of them that still hold GPUs.
        """
        running = set(view.running.tolist())
        used = []
        for job, service in zip(held, view.attained_service(np.array(held, np.int64)).tolist(), strict=True):
            more = (service - self._counted.get(job, 0.0)) * self._table.cores[job]
            used.append((self._table.association[job], more))
            self._counted[job] = service
        self._fair.use(view.time, used)
        self.factors = self._fair.rank()
        return [job for job in held if job in running]
