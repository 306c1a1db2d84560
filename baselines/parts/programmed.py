"""Rounds in which an integer program gives every job one of the things that it may have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from baselines.parts.choosing import Solver
from baselines.parts.grants import held_grants, place_grants
from baselines.parts.marginal_gain import Grant
from baselines.parts.offers import Offered, OfferOf, Offers
from baselines.parts.options import Options
from baselines.parts.pace import Pace
from baselines.parts.priority import jobs_present
from baselines.parts.sizing import History, fill, participants, restart_factor, room_for
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, FloatArray, IntArray, JobId, MurmurationError, Seconds


@dataclass(frozen=True)
class Round:
    """Who takes part in a round, and for what.

    Attributes:
        jobs: int64[num_jobs], ascending.
        offered: what they may have.
        runs: bool[num_jobs], whether a job has GPUs now.
        changes: bool[num_options], whether the job runs and has something else now.
        factor: float64[num_jobs], by which a change lowers what a job makes of its GPUs.
        gpus: that are up.
        most: int64[num_jobs], the most GPUs that a job has had; 0 if it never ran.
    """

    jobs: IntArray
    offered: Offered
    runs: BoolArray
    changes: BoolArray
    factor: FloatArray
    gpus: int
    most: IntArray

    @property
    def worth(self) -> FloatArray:
        """float64[num_options]: what is offered, in the unit of its worth, after a change if it is one."""
        worth: FloatArray = self.offered.worth * np.where(self.changes, self.factor[self.offered.job], 1.0)
        return worth


OptionsOf: TypeAlias = Callable[[Round], Options]


class ProgrammedRounds:
    """What the schedulers share that size jobs by an integer program in rounds of their own.

    As many waiting jobs take part as there are GPUs (`sizing.participants`). Between rounds what runs goes on; then,
    and on what the program leaves idle, waiting jobs start as requested, or at their least size. A gang larger than
    every type starts on nodes of several when they are free and is not interrupted.

    Args:
        scheduler: its name, for complaints.
        round_length: seconds of a round.
        time_limit: wall-clock seconds for each program.
        offer_of: what a job may have.
        options_of: what that costs in a round.
    """

    def __init__(
        self, scheduler: str, round_length: Seconds, time_limit: Seconds, offer_of: OfferOf, options_of: OptionsOf
    ) -> None:
        if not time_limit > 0:
            raise MurmurationError(f"{scheduler}: time_limit is {time_limit} s; it must be positive")
        self.solver = Solver(time_limit)
        self._pace = Pace(scheduler, round_length)
        self._offer_of, self._options_of = offer_of, options_of
        self.forget()

    def forget(self) -> None:
        """Begin an episode."""
        self._pace.forget()
        self.solver.forget()
        self._history = History()
        self._offers = Offers(self._offer_of)

    def schedule(self, view: ClusterView) -> Allocation:
        """The round's grants, if one is due, then whoever fits beside them."""
        wish = view.allocation(keep_running=True)
        if self._pace.begin(view.time):
            place_grants(view, wish, *self.grants(view))
        fill(view, wish)
        self._history.remember(view, wish)
        return wish

    def grants(self, view: ClusterView) -> tuple[dict[JobId, Grant], list[JobId]]:
        """The grants of a round, and the jobs that run on no one type, for which the program leaves what they hold."""
        self._offers.look_up(view)
        present = jobs_present(view)
        typed = self._offers.count(present) > 0
        jobs, spanning = participants(view, present[typed]), present[~typed]
        options = self._options_of(self._round(view, jobs))
        chosen = self.solver.choose(options, room_for(view, spanning)).chosen
        winners = np.flatnonzero(chosen >= 0)
        picked = chosen[winners]
        rows = zip(
            jobs[winners].tolist(), options.gpu_type[picked].tolist(), options.num_gpus[picked].tolist(), strict=True
        )
        return {job: Grant(kind, size) for job, kind, size in rows}, spanning.tolist()

    def _round(self, view: ClusterView, jobs: IntArray) -> Round:
        offered = self._offers.of(jobs)
        kind, size = np.full(len(jobs), -1), np.zeros(len(jobs), np.int64)
        held = held_grants(view)
        for place in np.flatnonzero(np.isin(jobs, view.running)).tolist():
            now = held[int(jobs[place])]
            kind[place], size[place] = now.gpu_type, now.num_gpus
        same = (kind[offered.job] == offered.gpu_type) & (size[offered.job] == offered.num_gpus)
        age = view.time - view.submit_time[jobs]
        factor = restart_factor(age, self._history.changes(jobs), view.restart_delay[jobs])
        runs = kind >= 0
        gpus, most = int(view.capacity.sum()), self._history.most_gpus(jobs)
        return Round(jobs, offered, runs, runs[offered.job] & ~same, factor, gpus, most)
