"""Sia: one configuration of GPU type and size for each job, by an integer program."""

import math

import numpy as np

from baselines.parts.choosing import Options, Solver
from baselines.parts.grants import held_grants, place_grants
from baselines.parts.pace import Pace
from baselines.parts.sizing import History, configurations, fill, programmed, restart_factor, speeds
from envs.scheduling import ClusterView
from envs.types import Allocation, ClusterSpec, IntArray, MurmurationError, Seconds

LARGEST_COST = 200.0  # of a configuration, as in the artifact: beyond it all are equally bad


class Sia:
    """Elastic jobs on several types of GPU (Subramanya et al., SOSP'23): sizes and types together, in rounds.

    A job may have 1, 2, 4, ... GPUs of a node, or whole nodes, of one type. The value of a configuration is its goodput
    over the job's least one, times the restart factor unless the job has it now. The round's program minimises the sum
    of values to the power p over the configurations chosen, plus a penalty for every job that has none (section 3.3).

    Goodput is throughput here: in this world a batch size within a job's range does not change its accuracy. Speeds are
    those of the view, where Sia fits them from profiles. A job's requested size, and its least one if no configuration
    lies within its range, are configurations too. Of the waiting jobs as many take part as there are GPUs. Between
    rounds, and on what the program leaves idle, waiting jobs start as requested, or at their least size. A gang larger
    than every type starts on nodes of several when they are free and is not interrupted.

    Args:
        power: p; negative, the nearer to 0 the more it favours throughput over fairness.
        idle_penalty: lambda_n, for a job without GPUs; a configuration at the least goodput costs 1.
        change_penalty: lambda_a, for each configuration taken or given up.
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
        power: float = -0.5,
        idle_penalty: float = 1.1,
        change_penalty: float = 0.01,
        round_length: Seconds = 60.0,
        time_limit: Seconds = 2.0,
    ) -> None:
        if not (power < 0 and math.isfinite(power)):
            raise MurmurationError(f"Sia: power is {power}; it must be negative and finite")
        for name, value in (("idle_penalty", idle_penalty), ("change_penalty", change_penalty)):
            if not (value >= 0 and math.isfinite(value)):
                raise MurmurationError(f"Sia: {name} is {value}; it must be finite and not negative")
        if not time_limit > 0:
            raise MurmurationError(f"Sia: time_limit is {time_limit} s; it must be positive")
        self.power, self.idle_penalty, self.change_penalty = power, idle_penalty, change_penalty
        self._pace = Pace("Sia", round_length)
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
        """The round's configurations; between rounds what runs goes on."""
        wish = view.allocation(keep_running=True)
        if self._pace.begin(view.time):
            place_grants(view, wish, *programmed(view, self._solver, self._options))
        fill(view, wish)
        self._history.remember(view, wish)
        return wish

    def _options(self, view: ClusterView, jobs: IntArray) -> Options:
        held = held_grants(view)
        rows: list[tuple[int, int, int]] = []
        costs: list[float] = []
        idle = np.full(len(jobs), self.idle_penalty)
        for place, job in enumerate(jobs.tolist()):
            speed = speeds(view, job)
            own = configurations(view, job)
            least = min(speed[grant.gpu_type, grant.num_gpus] for grant in own)
            age, restart = view.time - float(view.submit_time[job]), float(view.restart_delay[job])
            factor = restart_factor(age, self._history.changes(job), restart)
            now = held.get(job)
            idle[place] += self.change_penalty if now else 0.0
            for grant in own:
                changes = now is not None and grant != now
                worth = float(speed[grant.gpu_type, grant.num_gpus] / least) * (factor if changes else 1.0)
                cost = min(worth**self.power, LARGEST_COST) if worth > 0 else LARGEST_COST
                rows.append((place, grant.gpu_type, grant.num_gpus))
                costs.append(cost + 2 * self.change_penalty * changes)
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return Options(table[:, 0], table[:, 1], table[:, 2], np.array(costs, dtype=np.float64), idle)
