"""The result of one run."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from envs.simulation.log import EventKind, EventLog
from envs.types import ClusterSpec, ConservationError, FloatArray, IntArray, JobRecord, Seconds
from envs.workloads import Workload


class EndReason(IntEnum):
    """Why an episode ended; `docs/world.md` has the rules."""

    NOT_ENDED = 0
    DONE = 1  # all jobs are done, or the horizon is reached
    STALLED = 2  # jobs wait, no job will end, and the scheduler started none in `max_stalls` rounds
    NO_PROGRESS = 3  # jobs restart again and again, and none comes closer to its end


NAMED_JOBS = 8  # of the unfinished jobs of a run, those that a message names

RECORD = np.dtype(
    [
        ("job", np.int64),
        ("submit_time", np.float64),  # all times in seconds; NaN for an event that never happened
        ("start_time", np.float64),
        ("finish_time", np.float64),
        ("attained_service", np.float64),  # GPU-seconds
        ("num_restarts", np.int64),
        ("num_preemptions", np.int64),
        ("num_interruptions", np.int64),  # failures of its nodes
        ("num_gpus", np.int64),  # requested
        (
            "ideal_duration",
            np.float64,
        ),  # the job alone on its requested GPUs, consolidated, on its fastest type
        ("measured", np.bool_),  # submitted within the workload's measurement window
    ]
)


@dataclass(frozen=True, slots=True)
class LimitedTime:
    """What limited running jobs, as job-seconds within the workload's window, and the rounds that left a queue.

    A job runs while it holds GPUs, also while it starts. Its *cores factor* is the fraction of its throughput that its
    cores would leave it with ample memory (times the worst-case factor of its CPU stages); its *memory factor* is that
    of its memory with ample cores; its *network factor* is that of the limit by links, times that of contention for
    them. All three are those of `docs/world.md`. The smallest factor limits the job, in a tie the first in this order.
    If none takes more than 1 % of the throughput, the job is limited by its GPUs.
    """

    running: float  # job-seconds of all running jobs; NaN, and nothing measured, where jobs share GPUs alone
    cpus: float  # of these, limited by cores
    memory: float
    network: float
    num_rounds: int  # rounds within the window
    num_queue_rounds: int  # of these, the ones after which a job waited


@dataclass(frozen=True)
class RunResult:
    """Records and event log of one workload under one scheduler.

    `records` (dtype `RECORD`) has one row for every job that was submitted before the end, in order of submission.
    """

    scheduler: str
    workload: Workload
    cluster: ClusterSpec
    records: npt.NDArray[np.void]
    log: EventLog
    end_time: Seconds  # when the last job finished, or the horizon
    num_rounds: int
    decision_seconds: float  # CPU time of the scheduler over all rounds, all threads of the process
    counters: dict[str, int] = field(default_factory=dict)  # the scheduler's own counts: decisions, conflicts
    limited: LimitedTime | None = None  # None if the run did not measure it
    end_reason: EndReason = EndReason.DONE
    progress_time: Seconds = 0.0  # when net progress was last seen, if the run ended for lack of it
    # float64[num_jobs]: when jobs ended at their time limits, or left as they could never run; NaN for others.
    limit_times: FloatArray | None = None

    @property
    def finished(self) -> npt.NDArray[np.bool_]:
        """bool[num_records]: the jobs that finished."""
        finished: npt.NDArray[np.bool_] = ~np.isnan(self.records["finish_time"])
        return finished

    @property
    def at_limit(self) -> npt.NDArray[np.bool_]:
        """bool[num_records]: the jobs that ended at their time limits."""
        ended: npt.NDArray[np.bool_] = self._unfinished_ends & ~np.isnan(self.records["start_time"])
        return ended

    @property
    def never_ran(self) -> npt.NDArray[np.bool_]:
        """bool[num_records]: the jobs that left without having run, as a dependency could no longer be met."""
        left: npt.NDArray[np.bool_] = self._unfinished_ends & np.isnan(self.records["start_time"])
        return left

    @property
    def _unfinished_ends(self) -> npt.NDArray[np.bool_]:
        return np.asarray(~(np.isnan(self.left_times) | self.finished))

    @property
    def left_times(self) -> FloatArray:
        """float64[num_records]: when each job finished, ended at its time limit or left; NaN for unfinished jobs."""
        finish: FloatArray = self.records["finish_time"]
        return finish if self.limit_times is None else np.fmax(finish, self.limit_times[self.records["job"]])

    @property
    def held(self) -> npt.NDArray[np.bool_]:
        """bool[num_records]: the jobs that were still held at the end: they waited for a time or for other jobs."""
        held = np.zeros(len(self.records), np.bool_)
        if self.workload.waits and len(self.log):
            entered = self.log.events["job"][np.isin(self.log.events["kind"], (EventKind.ARRIVE, EventKind.NEVER))]
            held = ~np.isin(self.records["job"], entered) & np.isnan(self.records["start_time"])
        return held

    @property
    def num_unfinished(self) -> int:
        """Number of jobs that the horizon cut off or that never started."""
        return int(np.isnan(self.left_times).sum())

    @property
    def num_not_arrived(self) -> int:
        """Number of jobs of the workload that were not submitted before the end; they are in no record."""
        return len(self.workload) - len(self.records)

    @property
    def why_cut_short(self) -> str:
        """One line about a run that ended before all jobs were done and before the horizon; empty for all others.

        It names the jobs declared unfinished, the first `NAMED_JOBS` of them.
        """
        jobs = self.records["job"][np.isnan(self.left_times)].tolist()
        if not jobs or self.end_reason not in (EndReason.STALLED, EndReason.NO_PROGRESS):
            return ""
        names = ", ".join(str(job) for job in jobs[:NAMED_JOBS])
        more = f" and {len(jobs) - NAMED_JOBS} more" if len(jobs) > NAMED_JOBS else ""
        why = f"no job made net progress after t = {self.progress_time:g} s, though jobs restarted again and again"
        if self.end_reason is EndReason.STALLED:
            why = "the scheduler left jobs waiting with nothing to wait for"
        return f"{self.workload.name} ended at round {self.num_rounds}: {why}; unfinished: jobs {names}{more}"

    def __iter__(self) -> Iterator[JobRecord]:
        for row, left, at_limit, never in zip(
            self.records, self.left_times.tolist(), self.at_limit, self.never_ran, strict=True
        ):
            yield JobRecord(
                job=self.workload.spec(int(row["job"])),
                start_time=float(row["start_time"]),
                finish_time=float(row["finish_time"]),
                attained_service=float(row["attained_service"]),
                num_restarts=int(row["num_restarts"]),
                num_preemptions=int(row["num_preemptions"]),
                num_interruptions=int(row["num_interruptions"]),
                limit_time=left if at_limit else math.nan,
                never_time=left if never else math.nan,
            )

    def check_conservation(self) -> None:
        """Assert that the records have the jobs of the event log: none arrived or ended twice, and none is missing.

        The engine writes records from its arrays and the log event by event, so this compares two accounts of a run.
        A run without a log has only one, and is not checked. The log of a run that was continued from a copy lacks
        what happened before, so the records may have more jobs. `envs.evaluation.audit` recomputes far more.

        Raises:
            ConservationError: jobs were lost or counted twice.
        """
        events = self.log.events
        if not len(events):
            return
        listed = np.sort(self.records["job"][~self.held])
        arrived = np.sort(events["job"][np.isin(events["kind"], (EventKind.ARRIVE, EventKind.NEVER))])
        finished = np.sort(self.records["job"][~np.isnan(self.left_times)])
        ended = np.sort(events["job"][np.isin(events["kind"], (EventKind.FINISH, EventKind.LIMIT, EventKind.NEVER))])
        whole = bool(len(listed)) and listed[0] in arrived  # the first job's arrival begins a log
        same = np.array_equal if whole else _has_once
        if not (same(listed, arrived) and same(finished, ended)):
            raise ConservationError(
                f"{self.scheduler} on {self.workload.name}: {len(arrived)} jobs arrive in the event log and "
                f"{len(ended)} end; the records have {len(listed)} ({len(np.unique(listed))} distinct), of which "
                f"{len(finished)} have ended; jobs were lost or counted twice, which is a bug of the simulator"
            )


def _has_once(jobs: IntArray, logged: IntArray) -> bool:
    """Whether the jobs of a log that begins later are among all jobs, each once."""
    return len(np.unique(logged)) == len(logged) and bool(np.isin(logged, jobs).all())
