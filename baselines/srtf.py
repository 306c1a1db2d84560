"""Shortest remaining time first."""

from functools import partial
from typing import Literal

import numpy as np

from baselines.compiled.gang import gangs_of
from baselines.compiled.srtf import play_srtf
from baselines.parts.estimates import remaining_time, remaining_work
from baselines.parts.priority import jobs_present, keep_and_displace, plan_anew, ranked
from envs.scheduling import ClusterView
from envs.simulation import Simulator
from envs.simulation.kernels import LOG_FULL
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, MurmurationError


class Srtf:
    """Preemptive gangs in order of the time that they still need; what does not fit is skipped.

    Optimal for the mean completion time on one machine (Schrage 1968), the usual clairvoyant yardstick on clusters;
    by GPU-time it is the SRSF of Tiresias and Muri (SIGCOMM'22, section 6). Remaining time counts on the
    requested GPUs of the job's fastest type, so it does not change by where the job happens to run. Ties go by
    submission.

    Args:
        by: "time" orders by remaining seconds, "gpu_time" by remaining seconds times GPUs.
        sticky: running jobs stay where they are while they are chosen, unless a move to a faster type pays for its
            restart, and only what is in the way of a shorter job
            makes room. If False, everything is placed anew each round, first fit, as Muri's simulator does.
    """

    information = "estimate"
    preemptive = True
    elastic = False

    def __init__(self, by: Literal["time", "gpu_time"] = "time", sticky: bool = True) -> None:
        if by not in ("time", "gpu_time"):
            raise MurmurationError(f"Srtf: by is {by!r}; it must be time or gpu_time")
        self.by = by
        self.sticky = sticky

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Nothing to remember."""

    def play(self, simulator: Simulator) -> bool:
        """A whole episode in compiled code; placed anew, or with hidden work, only `schedule` plays."""
        told = simulator.scenario.information.work != "none"
        gangs = gangs_of(simulator) if self.sticky and told else None
        if gangs is None:
            return False
        while play_srtf(simulator.world, gangs, self.by == "gpu_time") == LOG_FULL:
            simulator.grow_log()
        return True

    def schedule(self, view: ClusterView) -> Allocation:
        """Shortest first, as many as fit.

        Raises:
            MurmurationError: the scenario hides remaining work.
        """
        jobs = jobs_present(view)
        left = remaining_time(view, jobs, "Srtf")
        if self.by == "gpu_time":
            left = left * view.num_gpus[jobs]
        order = ranked(jobs, left)
        if not self.sticky:
            return plan_anew(view, order)
        return keep_and_displace(view, order, partial(_seconds_left, view))


def _seconds_left(view: ClusterView, jobs: IntArray, speeds: FloatArray) -> FloatArray:
    """What running jobs need yet where they are."""
    return remaining_work(view, jobs, "Srtf") / speeds
