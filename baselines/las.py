"""Least attained service."""

from typing import Literal

import numpy as np

from baselines.parts.estimates import as_long_again
from baselines.parts.priority import jobs_present, keep_and_displace, ranked
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, MurmurationError


class Las:
    """Preemptive gangs in order of attained service, without knowledge of remaining work.

    This favours young jobs, which on heavy-tailed work are mostly short ones (Nuijens and Wierman 2008). Counted in
    GPU-seconds it is the two-dimensional LAS of Tiresias (NSDI'19, section 3.2), before its queues are made discrete.
    Decisions are taken at rounds only. If rounds fall at events alone, two equal jobs take turns only when other jobs
    arrive or end; `rounds.interval` adds rounds. Ties are broken by submission.

    Args:
        by: "gpu_time" orders by GPU-seconds received, "time" by seconds on the requested GPUs.
    """

    information = "none"
    preemptive = True
    elastic = False

    def __init__(self, by: Literal["gpu_time", "time"] = "gpu_time") -> None:
        if by not in ("gpu_time", "time"):
            raise MurmurationError(f"Las: by is {by!r}; it must be gpu_time or time")
        self.by = by

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Do nothing: the view counts attained service."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Run as many jobs as fit, least service first; running jobs that are chosen again stay where they are."""
        jobs = jobs_present(view)
        service = view.attained_service(jobs)
        if self.by == "time":
            service = service / view.num_gpus[jobs]
        return keep_and_displace(
            view, ranked(jobs, service), lambda running, _throughputs: as_long_again(view, running)
        )
