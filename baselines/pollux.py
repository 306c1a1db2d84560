"""Pollux: the power mean of all jobs' speedups over their fair shares."""

import math
from typing import Literal

import numpy as np

from baselines.parts.choosing import NODE_LIMIT
from baselines.parts.offers import Offer, OfferTable
from baselines.parts.options import Options
from baselines.parts.programmed import ProgrammedRound, ProgrammedRounds
from baselines.parts.sizing import not_slower
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, JobId, MurmurationError, Seconds

NO_SPEEDUP = 1e-3  # added to every speedup, as in the artifact, so that a job without GPUs has a finite cost
_LARGEST_COST = 1e3  # of a job without GPUs at p = -1; capped for steeper p, since a solver could not resolve more


class Pollux:
    """Elastic jobs sized by goodput, without regard to GPU types (Qiao et al., OSDI'21), in rounds.

    A job's speedup is its goodput over its goodput on its fair share, the GPUs divided by the number of jobs. The
    speedup of a job that would be changed is scaled by the restart factor. The round maximises the power mean of
    speedups (section 4.2), with p = -1 as in the artifact of Sia (SOSP'23), whose code also has the restart factor.

    Differences from the paper:
    - Its genetic algorithm searches GPUs on nodes. Here an integer program with a time limit optimises the same
      objective over sizes; nodes follow by packing.
    - It learns the noise scale, and with it the goodput of a batch size, during the run. Here goodputs are known, with
      a noise scale that is constant over the training (`envs.performance.statistical_efficiency`), and the batch size
      is the best of the offered range's doublings and ends and the usual one. Where the world offers no choice, goodput
      is throughput. Learning rates are no part of this world.
    - It learns throughputs during the run, and therefore at most doubles a job's GPUs at a time. Here throughputs are
      known, and `growth` limits nothing unless set.
    - It ignores GPU types: a size counts at the mean of the throughputs on the types where the job runs with it.

    As many waiting jobs take part as there are GPUs. Between rounds, and on GPUs that the program leaves idle, waiting
    jobs start as requested, or at their least size.

    Args:
        power: p of the mean, negative; more negative is fairer.
        growth: a job may have at most this multiple of the most GPUs that it has had; 2 in the paper.
        round_length: seconds of a round.
        node_limit: nodes of the search tree for each program; a stopped program gives the best choice found.
        batch: "best" chooses the batch size of highest goodput, "usual" leaves it to the world.

    Attributes:
        counters: of the solver; see `choosing.Solver`.
    """

    information = "none"
    preemptive = True
    elastic = True

    def __init__(
        self,
        power: float = -1.0,
        growth: float = math.inf,
        round_length: Seconds = 60.0,
        node_limit: int = NODE_LIMIT,
        batch: Literal["usual", "best"] = "best",
    ) -> None:
        if not (power < 0 and math.isfinite(power)):
            raise MurmurationError(f"Pollux: power is {power}; it must be negative and finite")
        if not growth >= 1:
            raise MurmurationError(f"Pollux: growth is {growth}; it must be at least 1 (.inf: no limit)")
        self.power, self.growth = power, growth
        self._rounds = ProgrammedRounds(  # a size costs the same on all types, so choices tie
            "Pollux", round_length, node_limit, self._offer, self._options, batch, expect_ties=True
        )

    @property
    def counters(self) -> dict[str, int]:
        """Return the solver's counters of this episode."""
        return self._rounds.solver.counters

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._rounds.forget(cluster)

    def schedule(self, view: ClusterView) -> Allocation:
        """Apply the round's sizes; between rounds keep running jobs."""
        return self._rounds.schedule(view)

    def _offer(self, view: ClusterView, job: JobId) -> Offer:
        """Offer all sizes on all types that are not slower than smaller ones, worth the mean goodput over the types."""
        goodput = not_slower(self._rounds.goodputs(view, job))
        gpu_type, size = np.nonzero(goodput)
        return Offer(gpu_type, size, average_over_types(goodput)[size])

    def _options(self, now: ProgrammedRound) -> Options:
        """List every size of every type, at the term that its speedup adds to the mean."""
        offered = now.offered
        fair = fair_throughputs(offered, len(now.jobs), math.ceil(now.gpus / max(len(now.jobs), 1)))
        cost = self._cost(now.worth / fair[offered.job])
        allowed = np.arange(len(cost))
        if math.isfinite(self.growth):
            allowed = np.flatnonzero(offered.num_gpus <= self._most(now)[offered.job])
        idle = np.full(len(now.jobs), self._cost(np.zeros(1))[0])
        return Options(offered.job, offered.gpu_type, offered.num_gpus, cost, idle).only(allowed)

    def _cost(self, speedup: FloatArray) -> FloatArray:
        """Return the terms of the mean; less is better, since p is negative."""
        cost: FloatArray = np.minimum((speedup + NO_SPEEDUP) ** self.power, _LARGEST_COST)
        return cost

    def _most(self, now: ProgrammedRound) -> FloatArray:
        """float64[num_jobs]: the most GPUs that a job may have now; at least its least size."""
        least = np.full(len(now.jobs), np.inf)
        np.minimum.at(least, now.offered.job, now.offered.num_gpus)
        most: FloatArray = np.maximum(least, np.floor(self.growth * now.most))
        return most


def average_over_types(table: FloatArray) -> FloatArray:
    """float64[sizes]: the mean throughput over the types on which a job runs with so many GPUs; 0 where on none.

    The mean could fall with the size where types drop out; it is made monotone.
    """
    runs = table > 0
    mean = np.divide(table.sum(axis=0), runs.sum(axis=0), out=np.zeros(table.shape[1]), where=runs.any(axis=0))
    grown: FloatArray = np.where(runs.any(axis=0), np.maximum.accumulate(mean), 0.0)
    return grown


def fair_throughputs(offered: OfferTable, num_jobs: int, fair: int) -> FloatArray:
    """float64[num_jobs]: the throughput on the largest offered size within a fair share, else on the least size.

    Args:
        offered: the offers of the jobs, worth a throughput that does not fall with the size.
        num_jobs: number of jobs.
        fair: GPUs of a fair share.
    """
    within, least = np.zeros(num_jobs), np.full(num_jobs, np.inf)
    small = offered.num_gpus <= fair
    np.maximum.at(within, offered.job[small], offered.worth[small])
    np.minimum.at(least, offered.job, offered.worth)
    throughput: FloatArray = np.where(within > 0, within, least)
    return throughput
