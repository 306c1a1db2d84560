"""Pollux: the power mean of all jobs' speedups over their fair shares."""

import math

import numpy as np

from baselines.parts.choosing import Options, Solver
from baselines.parts.grants import held_grants, place_grants
from baselines.parts.marginal_gain import Grant
from baselines.parts.pace import Pace
from baselines.parts.sizing import History, fill, programmed, restart_factor, speeds
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Seconds

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
        if not time_limit > 0:
            raise MurmurationError(f"Pollux: time_limit is {time_limit} s; it must be positive")
        self.power, self.growth = power, growth
        self._pace = Pace("Pollux", round_length)
        self._solver = Solver(time_limit)
        self._history = History()

    @property
    def counters(self) -> dict[str, int]:
        """What the solver did in this episode."""
        return self._solver.counters

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Forget the jobs of the last episode."""
        self._pace.forget()
        self._solver.forget()
        self._history = History()

    def schedule(self, view: ClusterView) -> Allocation:
        """The round's sizes; between rounds what runs goes on."""
        wish = view.allocation(keep_running=True)
        if self._pace.begin(view.time):
            place_grants(view, wish, *programmed(view, self._solver, self._options))
        fill(view, wish)
        self._history.remember(view, wish)
        return wish

    def _options(self, view: ClusterView, jobs: IntArray) -> Options:
        held = held_grants(view)
        fair = math.ceil(int(view.capacity.sum()) / max(len(jobs), 1))
        rows: list[tuple[int, int, int]] = []
        costs: list[float] = []
        for place, job in enumerate(jobs.tolist()):
            speed = speeds(view, job)
            speedup = blind(speed) / fair_speed(blind(speed), fair)
            age, restart = view.time - float(view.submit_time[job]), float(view.restart_delay[job])
            factor = restart_factor(age, self._history.changes(job), restart)
            now = held.get(job)
            most = self._most(job, speed)
            for kind, size in np.argwhere(speed[:, : most + 1] > 0).tolist():
                changes = now is not None and Grant(kind, size) != now
                rows.append((place, kind, size))
                costs.append(self._cost(float(speedup[size]) * (factor if changes else 1.0)))
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        idle = np.full(len(jobs), self._cost(0.0))
        return Options(table[:, 0], table[:, 1], table[:, 2], np.array(costs, dtype=np.float64), idle)

    def _cost(self, speedup: float) -> float:
        """What the mean is over; less is better, since p is negative."""
        return float(min((speedup + NO_SPEEDUP) ** self.power, LARGEST_COST))

    def _most(self, job: JobId, speed: FloatArray) -> int:
        """The most GPUs that a job may have now; never fewer than it runs on."""
        if math.isinf(self.growth):
            return int(speed.shape[1]) - 1
        least = int((speed.max(axis=0) > 0).argmax())
        return max(least, math.floor(self.growth * self._history.most_gpus(job)))


def blind(table: FloatArray) -> FloatArray:
    """float64[sizes]: the mean speed over the types on which a job runs with so many GPUs; 0 where on none.

    Made not to fall with the size, which it may where types drop out.
    """
    runs = table > 0
    mean = np.divide(table.sum(axis=0), runs.sum(axis=0), out=np.zeros(table.shape[1]), where=runs.any(axis=0))
    grown: FloatArray = np.where(runs.any(axis=0), np.maximum.accumulate(mean), 0.0)
    return grown


def fair_speed(speed: FloatArray, fair: int) -> float:
    """The speed on a fair share of GPUs: the largest size on which the job runs within it, else its least size."""
    sizes = np.flatnonzero(speed > 0)
    within = sizes[sizes <= fair]
    return float(speed[within[-1] if within.size else sizes[0]])
