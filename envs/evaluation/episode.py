"""The part of a run that a comparison needs, whether it was just played or recorded earlier."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.metrics import (
    Summary,
    departures,
    figures_of_jobs,
    finish_time_fairness,
    finished_jobs,
    job_completion_times,
    slowdowns,
    summarise,
    times_to_start,
    waits,
)
from envs.simulation import RunResult
from envs.types import FloatArray, IntArray, Seconds
from envs.workloads import Workload

JOB = np.dtype(  # the first five fields are those of `envs.simulation.result.RECORD`
    [
        ("job", np.int64),
        ("submit_time", np.float64),  # all times in seconds; NaN for an event that never happened
        ("start_time", np.float64),
        ("finish_time", np.float64),
        ("ideal_duration", np.float64),
        ("wait", np.float64),  # time without GPUs
        ("rho", np.float64),  # finish-time fairness; NaN if it was not recorded
    ]
)

MEANS_OF_JOBS: Mapping[str, Callable[[npt.NDArray[np.void]], FloatArray]] = {  # of rows of dtype `JOB`
    "mean_jct": job_completion_times,
    "mean_wait": itemgetter("wait"),
    "mean_time_to_start": times_to_start,
    "mean_slowdown": slowdowns,
}
OF_RHO = ("mean_fairness", "worst_fairness", "jain_index")  # fields of `Summary` that need finish-time fairness by job


class Remark(NamedTuple):
    """A note on figures that were recorded earlier."""

    mark: str  # one character, which stands beside the scheduler's name
    text: str


@dataclass(frozen=True)
class EpisodeFigures:
    """The figures of one workload under one scheduler, from which means over any of its finished jobs follow.

    Attributes:
        workload: the workload.
        jobs: the measured jobs that were submitted before the end (dtype `JOB`), in order of submission.
        own: the metrics over all jobs that this scheduler finished.
        num_late: number of measured jobs that ended after the last submission, or never.
        stay: seconds that all measured jobs were in the system.
        beyond: the part of `stay` after the last submission, in seconds.
        num_rounds: rounds of the whole run.
        decision_seconds: CPU time of the scheduler.
        chose_batches: whether the scheduler chose a batch size.
        named_plans: whether the scheduler named an execution plan.
        at_limit: by the place in `jobs` of each job that ended at its time limit, its seconds in the system.
        never_ran: the same of each job that left as a dependency could no longer be met.
        remark: what is to be said of figures that were recorded earlier, if anything.
    """

    workload: Workload
    jobs: npt.NDArray[np.void]
    own: Summary
    num_late: int
    stay: Seconds
    beyond: Seconds
    num_rounds: int
    decision_seconds: float
    chose_batches: bool
    named_plans: bool = False
    at_limit: Mapping[int, Seconds] = field(default_factory=dict)
    never_ran: Mapping[int, Seconds] = field(default_factory=dict)
    remark: Remark | None = None

    @classmethod
    def of(cls, run: RunResult) -> "EpisodeFigures":
        """Compute the figures of a run."""
        measured = run.records["measured"]
        records = run.records[measured]
        jobs = np.zeros(len(records), JOB)
        for name in ("job", "submit_time", "start_time", "finish_time", "ideal_duration"):
            jobs[name] = records[name]
        jobs["wait"], jobs["rho"] = waits(run)[measured], finish_time_fairness(run)[measured]
        last = run.workload.jobs["submit_time"][-1]
        finish = departures(run)[measured]
        stays = finish - jobs["submit_time"]
        return cls(
            workload=run.workload,
            jobs=jobs,
            own=summarise(run, finished_jobs(run)),
            num_late=int((finish > last).sum()),
            stay=float(stays.sum()),
            beyond=float(np.maximum(finish - last, 0.0).sum()),
            num_rounds=run.num_rounds,
            decision_seconds=run.decision_seconds,
            chose_batches=bool((run.log.events["batch_size"] > 0).any()),
            named_plans=bool((run.log.events["plan"] >= 0).any()),
            at_limit={place: float(stays[place]) for place in np.flatnonzero(run.at_limit[measured]).tolist()},
            never_ran={place: float(stays[place]) for place in np.flatnonzero(run.never_ran[measured]).tolist()},
        )

    @cached_property
    def finished(self) -> IntArray:
        """int64[n]: ids of the measured jobs that finished, ascending."""
        return np.sort(self.jobs["job"][~np.isnan(self.jobs["finish_time"])])

    def rows(self, compared: IntArray) -> npt.NDArray[np.void]:
        """Return the rows of some jobs, by their ids."""
        return self.jobs[np.isin(self.jobs["job"], compared)]

    def summary(self, compared: IntArray) -> Summary:
        """Return the metrics over some of the jobs that finished, by their ids.

        Finish-time fairness is over all jobs that finished if it is not known by job.

        Raises:
            ValueError: a compared job is not measured and finished in this run.
        """
        if not np.isin(compared, self.finished).all():
            alien = int(np.setdiff1d(compared, self.finished)[0])
            raise ValueError(f"{self.workload.name}: job {alien} is not measured and finished")
        if len(compared) == len(self.finished):
            return self.own
        rows = self.rows(compared)
        rho: FloatArray = rows["rho"]
        figures = figures_of_jobs(rows, rho, rows["wait"])
        unknown = OF_RHO * bool(np.isnan(rho).any())
        return replace(self.own, **{name: value for name, value in figures.items() if name not in unknown})
