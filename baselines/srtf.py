"""Shortest remaining time first."""

from functools import partial
from typing import Literal

import numpy as np

from baselines.compiled.gang import gangs_of
from baselines.compiled.srtf import play_srtf
from baselines.parts.estimates import remaining_time, require_remaining_work
from baselines.parts.priority import jobs_present, keep_and_displace, plan_anew, ranked
from envs.scheduling import ClusterView
from envs.simulation import SimulatedEpisode
from envs.simulation.world.kernels import LOG_FULL
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, MurmurationError


class Srtf:
    """Preemptive gangs in order of remaining time; a job that does not fit is skipped.

    This is optimal for the mean completion time on one machine (Schrage 1968), and the usual clairvoyant reference on
    clusters. By GPU-time it is the SRSF of Tiresias and Muri (SIGCOMM'22, section 6). Remaining time is the time on
    the requested GPUs of the job's fastest type, so it does not depend on where the job runs. Ties are broken by
    submission.

    Args:
        by: "time" orders by remaining seconds, "gpu_time" by remaining seconds times GPUs.
        sticky: running jobs that are chosen again stay where they are, unless a move to a faster type pays for its
            restart, and only jobs in the way of a shorter job are stopped. If False, all jobs are placed anew in each
            round, first fit, as Muri's simulator does.
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
        """Do nothing: no state is kept between rounds."""

    def play(self, simulator: SimulatedEpisode) -> bool:
        """Play a whole episode in compiled code; False if not sticky or if work is hidden: these need `schedule`."""
        known = simulator.scenario.information.work != "none"
        gangs = gangs_of(simulator) if self.sticky and known else None
        if gangs is None:
            return False
        while play_srtf(simulator.world, gangs, self.by == "gpu_time") == LOG_FULL:
            simulator.grow_log()
        return True

    def schedule(self, view: ClusterView) -> Allocation:
        """Run as many jobs as fit, shortest first.

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


def _seconds_left(view: ClusterView, jobs: IntArray, throughputs: FloatArray) -> FloatArray:
    """Return the seconds that running jobs still need where they are."""
    return require_remaining_work(view, jobs, "Srtf") / throughputs
