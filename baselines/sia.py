"""Sia: one configuration of GPU type and size for each job, by an integer program."""

import math
from typing import Literal

import numpy as np

from baselines.parts.choosing import NODE_LIMIT
from baselines.parts.offers import Offer
from baselines.parts.options import Options
from baselines.parts.programmed import ProgrammedRound, ProgrammedRounds
from baselines.parts.sizing import configurations
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, JobId, MurmurationError, Seconds

_LARGEST_COST = 200.0  # cap on the cost of a configuration, as in the artifact


class Sia:
    """Elastic jobs on several types of GPU (Subramanya et al., SOSP'23): sizes and types together, in rounds.

    A job may have 1, 2, 4, ... GPUs of a node, or whole nodes, of one type. The value of a configuration is its goodput
    over the job's least goodput, times the restart factor unless the job has it now. The round's program minimises the
    sum of values to the power p over the configurations chosen, plus a penalty for each job that has none (section
    3.3).

    The goodput of a configuration is that of its best batch size, as in the paper: the best of the offered range's
    doublings and ends and the usual one, see `envs.performance.statistical_efficiency`. Where the world offers no
    choice, goodput is throughput. The view gives goodputs; Sia fits throughputs from profiles and learns the noise
    scale, which changes during training. A job's requested size is a configuration too; so is its least size
    if no other configuration lies within its range. As many waiting jobs take part as there are GPUs. Between rounds,
    and on GPUs that the program leaves idle, waiting jobs start as requested, or at their least size. A gang larger
    than every type starts on nodes of several types when they are free and is not interrupted.

    Args:
        power: p, negative; nearer to 0 it favours throughput over fairness.
        idle_penalty: lambda_n, for a job without GPUs; a configuration at the least goodput costs 1.
        change_penalty: lambda_a, for each configuration taken or given up.
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
        power: float = -0.5,
        idle_penalty: float = 1.1,
        change_penalty: float = 0.01,
        round_length: Seconds = 60.0,
        node_limit: int = NODE_LIMIT,
        batch: Literal["usual", "best"] = "best",
    ) -> None:
        if not (power < 0 and math.isfinite(power)):
            raise MurmurationError(f"Sia: power is {power}; it must be negative and finite")
        for name, value in (("idle_penalty", idle_penalty), ("change_penalty", change_penalty)):
            if not (value >= 0 and math.isfinite(value)):
                raise MurmurationError(f"Sia: {name} is {value}; it must be finite and not negative")
        self.power, self.idle_penalty, self.change_penalty = power, idle_penalty, change_penalty
        self._rounds = ProgrammedRounds("Sia", round_length, node_limit, self._offer, self._options, batch)

    @property
    def counters(self) -> dict[str, int]:
        """Return the solver's counters of this episode."""
        return self._rounds.solver.counters

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._rounds.forget(cluster)

    def schedule(self, view: ClusterView) -> Allocation:
        """Apply the round's configurations; between rounds keep running jobs."""
        return self._rounds.schedule(view)

    def _offer(self, view: ClusterView, job: JobId) -> Offer:
        """Offer a job's configurations, worth their goodput over the least goodput."""
        goodputs = self._rounds.goodputs(view, job)
        table = np.array([(grant.gpu_type, grant.num_gpus) for grant in configurations(view, job)], dtype=np.int64)
        gpu_type, size = table.reshape(-1, 2).T
        runs = goodputs[gpu_type, size] > 0
        gpu_type, size = gpu_type[runs], size[runs]
        goodput = goodputs[gpu_type, size]
        return Offer(gpu_type, size, goodput / goodput.min(initial=np.inf))

    def _options(self, now: ProgrammedRound) -> Options:
        """List the configurations at their cost: their worth to the power p, plus the penalty of a change."""
        worth, offered = now.worth, now.offered
        cost = np.full(len(worth), np.inf)
        np.power(worth, self.power, out=cost, where=worth > 0)  # a change is worth 0 if restarts took all the time
        cost = np.minimum(cost, _LARGEST_COST)
        cost += 2 * self.change_penalty * now.changes
        idle = np.where(now.runs, self.idle_penalty + self.change_penalty, self.idle_penalty).astype(np.float64)
        return Options(offered.job, offered.gpu_type, offered.num_gpus, cost, idle)
