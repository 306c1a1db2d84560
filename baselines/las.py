"""Least attained service."""

from typing import Literal

import numpy as np

from baselines.parts.estimates import as_long_again
from baselines.parts.priority import jobs_present, keep_and_displace, ranked
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, MurmurationError


class Las:
    """Preemptive gangs in order of the service that they have had; knows nothing of what is left.

    Favours the young, which on heavy-tailed work are mostly the short (Nuijens and Wierman 2008). Counted in GPU-
    seconds it is the two-dimensional LAS of Tiresias (NSDI'19, section 3.2), before its queues are made discrete.
    Decisions fall at rounds only: with rounds at events alone two equal jobs take turns no finer than others come and
    go; `rounds.interval` sets a finer grain. Ties go by submission.

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
        """Nothing to remember: the view keeps count of service."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Least served first, as many as fit; running jobs stay where they are while they are chosen."""
        jobs = jobs_present(view)
        service = view.attained_service(jobs)
        if self.by == "time":
            service = service / view.num_gpus[jobs]
        return keep_and_displace(view, ranked(jobs, service), lambda running, _speeds: as_long_again(view, running))
