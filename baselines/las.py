"""Least attained service."""

from typing import Literal

import numpy as np

from baselines.parts.estimates import as_long_again
from baselines.parts.priority import jobs_present, keep_and_displace, ranked
from baselines.parts.protection import RestartProtection
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, MurmurationError


class Las:
    """Preemptive gangs in order of attained service, without knowledge of remaining work.

    This favours young jobs, which on heavy-tailed work are mostly short ones (Nuijens and Wierman 2008). Counted in
    GPU-seconds it is the two-dimensional LAS of Tiresias (NSDI'19, section 3.2), before its queues are made discrete.
    Decisions are taken at rounds only. If rounds fall at events alone, two equal jobs take turns only when other jobs
    arrive or end; `rounds.interval` adds rounds. Ties are broken by submission.

    A job that was restarted is not displaced for some multiple of its restart delay. Otherwise, where a round is
    shorter than a restart, jobs of about equal service displace each other while they restart, and none makes progress.

    Args:
        by: "gpu_time" orders by GPU-seconds received, "time" by seconds on the requested GPUs.
        protection: the multiple; with 2 a restarted job works for at least as long as its restart took. With 0 the
            order alone decides.
    """

    information = "none"
    preemptive = True
    elastic = False

    def __init__(self, by: Literal["gpu_time", "time"] = "gpu_time", protection: float = 2.0) -> None:
        if by not in ("gpu_time", "time"):
            raise MurmurationError(f"Las: by is {by!r}; it must be gpu_time or time")
        self.by, self.protection = by, protection
        self._protection = RestartProtection("Las", protection)

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the restarts of the last episode."""
        self._protection.reset()

    def schedule(self, view: ClusterView) -> Allocation:
        """Run as many jobs as fit, least service first; running jobs that are chosen again stay where they are."""
        jobs = jobs_present(view)
        service = view.attained_service(jobs)
        if self.by == "time":
            service = service / view.num_gpus[jobs]
        service[self._protection.protected(view, jobs)] = -1.0  # before all others
        allocation = keep_and_displace(
            view, ranked(jobs, service), lambda running, _throughputs: as_long_again(view, running)
        )
        self._protection.remember(view, allocation)
        return allocation
