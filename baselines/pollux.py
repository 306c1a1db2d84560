"""Pollux: the power mean of all jobs' speedups over their fair shares."""

import math

import numpy as np

from baselines.parts.offers import Offer, Offered
from baselines.parts.options import Options
from baselines.parts.programmed import ProgrammedRounds, Round
from baselines.parts.sizing import speeds
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, JobId, MurmurationError, Seconds

NO_SPEEDUP = 1e-3  # added to every speedup, as in the artifact, so that a job without GPUs has a finite cost
LARGEST_COST = 1e3  # that cost at p = -1; a steeper p does not raise it, which a program could not resolve


class Pollux:
    """Elastic jobs sized by goodput, blind to types of GPU (Qiao et al., OSDI'21), in rounds.

    A job's speedup is its goodput over that on its fair share, the GPUs divided by the number of jobs; a job that would
    be changed has it scaled by the restart factor. The round maximises the power mean of speedups (section 4.2), with
    p = -1 as in the artifact of Sia (SOSP'23), in whose code the restart factor stands too.

    What differs from the paper. Its genetic algorithm searches GPUs on nodes; here the same objective is optimised over
    sizes by an integer program within a time limit, and nodes follow by packing. It co-tunes batch size and learning
    rate; in this world a batch size within a job's range does not change its accuracy, so goodput is throughput. It
    learns speeds as it goes, for which it at most doubles a job's GPUs at a time; here they are known, and `growth`
    limits nothing unless set. It is blind to GPU types: a size counts at the mean of the speeds on the types where the
    job runs with it. Of the waiting jobs as many take part as there are GPUs; between rounds, and on what the program
    leaves idle, waiting jobs start as requested, or at their least size.

    Args:
        power: p of the mean, negative; the more so, the fairer.
        growth: a job may have at most so many times the most GPUs that it has had; 2 in the paper.
        round_length: seconds of a round.
        time_limit: wall-clock seconds for each program.

    Attributes:
        counters: of the solver; see `choosing.Solver`. A run is repeatable where no program was stopped.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(
        self,
        power: float = -1.0,
        growth: float = math.inf,
        round_length: Seconds = 60.0,
        time_limit: Seconds = 2.0,
    ) -> None:
        if not (power < 0 and math.isfinite(power)):
            raise MurmurationError(f"Pollux: power is {power}; it must be negative and finite")
        if not growth >= 1:
            raise MurmurationError(f"Pollux: growth is {growth}; it must be at least 1 (.inf: no limit)")
        self.power, self.growth = power, growth
        self._rounds = ProgrammedRounds("Pollux", round_length, time_limit, _offer, self._options)

    @property
    def counters(self) -> dict[str, int]:
        """What the solver did in this episode."""
        return self._rounds.solver.counters

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._rounds.forget()

    def schedule(self, view: ClusterView) -> Allocation:
        """The round's sizes; between rounds what runs goes on."""
        return self._rounds.schedule(view)

    def _options(self, now: Round) -> Options:
        """Every size of every type, at what its speedup adds to the mean."""
        offered = now.offered
        fair = fair_speeds(offered, len(now.jobs), math.ceil(now.gpus / max(len(now.jobs), 1)))
        cost = self._cost(now.worth / fair[offered.job])
        allowed = np.arange(len(cost))
        if math.isfinite(self.growth):
            allowed = np.flatnonzero(offered.num_gpus <= self._most(now)[offered.job])
        idle = np.full(len(now.jobs), self._cost(np.zeros(1))[0])
        return Options(offered.job, offered.gpu_type, offered.num_gpus, cost, idle).only(allowed)

    def _cost(self, speedup: FloatArray) -> FloatArray:
        """What the mean is over; less is better, since p is negative."""
        cost: FloatArray = np.minimum((speedup + NO_SPEEDUP) ** self.power, LARGEST_COST)
        return cost

    def _most(self, now: Round) -> FloatArray:
        """float64[num_jobs]: the most GPUs that a job may have now; never fewer than it runs on."""
        least = np.full(len(now.jobs), np.inf)
        np.minimum.at(least, now.offered.job, now.offered.num_gpus)
        most: FloatArray = np.maximum(least, np.floor(self.growth * now.most))
        return most


def _offer(view: ClusterView, job: JobId) -> Offer:
    """All sizes on all types on which a job runs, worth what it does with so many GPUs of any."""
    speed = speeds(view, job)
    kind, size = np.nonzero(speed)
    return Offer(kind, size, blind(speed)[size])


def blind(table: FloatArray) -> FloatArray:
    """float64[sizes]: the mean speed over the types on which a job runs with so many GPUs; 0 where on none.

    Made not to fall with the size, which it may where types drop out.
    """
    runs = table > 0
    mean = np.divide(table.sum(axis=0), runs.sum(axis=0), out=np.zeros(table.shape[1]), where=runs.any(axis=0))
    grown: FloatArray = np.where(runs.any(axis=0), np.maximum.accumulate(mean), 0.0)
    return grown


def fair_speeds(offered: Offered, num_jobs: int, fair: int) -> FloatArray:
    """float64[num_jobs]: the speed on a fair share of GPUs: on the most that a job may have within it, else its least.

    Args:
        offered: what jobs may have, worth a speed that does not fall with the size.
        num_jobs: who asked.
        fair: GPUs.
    """
    within, least = np.zeros(num_jobs), np.full(num_jobs, np.inf)
    small = offered.num_gpus <= fair
    np.maximum.at(within, offered.job[small], offered.worth[small])
    np.minimum.at(least, offered.job, offered.worth)
    speed: FloatArray = np.where(within > 0, within, least)
    return speed
