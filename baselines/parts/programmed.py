"""Rounds in which an integer program chooses one of the offers to each job."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from baselines.parts.choosing import Solver
from baselines.parts.grants import Grant, held_grants, place_grants
from baselines.parts.offers import OfferCache, OfferOf, OfferTable
from baselines.parts.options import Options
from baselines.parts.priority import jobs_present
from baselines.parts.round_timer import RoundTimer
from baselines.parts.scalability import AnalysedJobs, Analyser
from baselines.parts.sizing import History, participants, restart_factor, room_for, start_queued
from baselines.parts.submitted import SubmittedJobs
from envs.scheduling import ClusterView
from envs.types import Allocation, BoolArray, ClusterSpec, FloatArray, IntArray, JobId, MurmurationError, Seconds


@dataclass(frozen=True)
class ProgrammedRound:
    """The jobs that take part in a round, and their offers.

    Attributes:
        jobs: int64[num_jobs], ascending.
        offered: the offers to these jobs.
        runs: bool[num_jobs], whether a job has GPUs now.
        changes: bool[num_options], whether the job runs and holds another size or type now.
        factor: float64[num_jobs], by which a change scales the worth of a job's GPUs.
        gpus: GPUs that are up.
        most: int64[num_jobs], the most GPUs that a job has had; 0 if it never ran.
    """

    jobs: IntArray
    offered: OfferTable
    runs: BoolArray
    changes: BoolArray
    factor: FloatArray
    gpus: int
    most: IntArray

    @property
    def worth(self) -> FloatArray:
        """float64[num_options]: the worth of each offer, scaled by the factor if it changes the job."""
        worth: FloatArray = self.offered.worth * np.where(self.changes, self.factor[self.offered.job], 1.0)
        return worth


OptionsOf: TypeAlias = Callable[[ProgrammedRound], Options]


class ProgrammedRounds:
    """Rounds of the schedulers that size jobs by an integer program.

    As many waiting jobs take part as there are GPUs (`sizing.participants`). Between rounds running jobs continue.
    Then, and on GPUs that the program leaves idle, waiting jobs start as requested, or at their least size. A gang
    larger than every type starts on nodes of several types when they are free and is not interrupted.

    With batch sizes "best", a job on one GPU type runs at the batch size of highest goodput that is offered for its
    GPUs, see `baselines.parts.scalability`; gangs over several types run at the usual one.

    Args:
        scheduler: its name, for error messages.
        round_length: seconds of a round.
        node_limit: nodes of the search tree for each program.
        offer_of: computes the offer of a job.
        options_of: computes the options of a round, with their costs.
        batch: "usual" leaves batch sizes to the world, "best" chooses them.
        expect_ties: whether many choices cost the same as a rule, see `choosing.Solver`.
    """

    def __init__(
        self,
        scheduler: str,
        round_length: Seconds,
        node_limit: int,
        offer_of: OfferOf,
        options_of: OptionsOf,
        batch: Literal["usual", "best"] = "usual",
        *,
        expect_ties: bool = False,
    ) -> None:
        if batch not in ("usual", "best"):
            raise MurmurationError(f"{scheduler}: batch is {batch!r}; it must be usual or best")
        self.solver = Solver(scheduler, node_limit, expect_ties=expect_ties)
        self.batch = batch
        self._timer = RoundTimer(scheduler, round_length)
        self._offer_of, self._options_of = offer_of, options_of
        self.forget()

    def forget(self, cluster: ClusterSpec | None = None) -> None:
        """Begin an episode on a cluster."""
        self._timer.forget()
        self.solver.forget()
        self._history = History()
        analysed = AnalysedJobs(Analyser("best"), cluster) if self.batch == "best" and cluster is not None else None
        self._submitted = SubmittedJobs(analysed)
        self._offers = OfferCache(self._offer_of, self._submitted)

    def schedule(self, view: ClusterView) -> Allocation:
        """Place the round's grants, if a round is due; then start jobs that fit beside them."""
        allocation = view.allocation(keep_running=True)
        self._submitted.look_up(view)
        if self._timer.begin(view.time):
            place_grants(view, allocation, *self.grants(view))
        start_queued(view, allocation)
        self._submitted.name_batches(allocation)
        self._history.remember(view, allocation)
        return allocation

    def goodputs(self, view: ClusterView, job: JobId) -> FloatArray:
        """float64[num_gpu_types, sizes]: useful samples/s at the batch sizes that the rounds choose; 0 out of range."""
        table: FloatArray = self._submitted.throughput(view, np.array([job]))[0]
        return table

    def grants(self, view: ClusterView) -> tuple[dict[JobId, Grant], list[JobId]]:
        """Return the grants of a round, and the jobs that run on no one type, which keep the GPUs that they hold."""
        self._submitted.look_up(view)
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
        return {job: Grant(gpu_type, size) for job, gpu_type, size in rows}, spanning.tolist()

    def _round(self, view: ClusterView, jobs: IntArray) -> ProgrammedRound:
        offered = self._offers.of(jobs)
        gpu_type, size = np.full(len(jobs), -1), np.zeros(len(jobs), np.int64)
        held = held_grants(view)
        for place in np.flatnonzero(np.isin(jobs, view.running)).tolist():
            now = held[int(jobs[place])]
            gpu_type[place], size[place] = now.gpu_type, now.num_gpus
        same = (gpu_type[offered.job] == offered.gpu_type) & (size[offered.job] == offered.num_gpus)
        age = view.time - view.submit_time[jobs]
        factor = restart_factor(age, self._history.changes(jobs), view.restart_delay[jobs])
        runs = gpu_type >= 0
        gpus, most = int(view.capacity.sum()), self._history.most_gpus(jobs)
        return ProgrammedRound(jobs, offered, runs, runs[offered.job] & ~same, factor, gpus, most)
