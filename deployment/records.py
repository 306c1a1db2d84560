"""Records of each job: its state as a bridge knows it, and the latencies that it has met."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from deployment.adapter import TaskStatus
from deployment.jobs import DONE, JobReport
from deployment.state import JobState
from envs.types import JobSpec, Placement, Samples, Seconds


@dataclass
class Latencies:
    """Time that one job has waited outside of the scheduler's decisions, in seconds of real time, over all its starts.

    Attributes:
        late: from an event to the decision that answers it, for decisions that start or stop this job.
        start: from the order to start to the job's first process.
        stop: from the order to stop to the job's last report.
        num_starts: starts that were measured.
        num_stops: stops that were measured.
    """

    late: float = 0.0
    start: float = 0.0
    stop: float = 0.0
    num_starts: int = 0
    num_stops: int = 0

    def add_start(self, seconds: float) -> None:
        """Count a start that was measured."""
        self.start += seconds
        self.num_starts += 1

    def add_stop(self, seconds: float) -> None:
        """Count a stop that was measured."""
        self.stop += seconds
        self.num_stops += 1


@dataclass
class JobRun:
    """One job of a bridge.

    Attributes:
        spec: the job.
        folder: in which its processes report.
        scale: scaled seconds in a second of real time.
        segment: number of its last start; 0 before the first.
        placement: of the segment that runs or is to run; None while the job waits.
        ordered: when that start was ordered, in seconds since 1970.
        target: what remains of the placement once the segment has stopped and nodes are released; None otherwise.
        stopping: when the last stop was ordered; NaN if it is not stopping.
        task: the segment as the cluster manager saw it last.
        progress: as the job reported it last.
        losses: how often in a row a segment ended by itself before the job had got any further than at the last time.
        given_up: whether it is not started any more for that reason.
        faults: what was wrong with its reports, each once.
    """

    spec: JobSpec
    folder: Path
    scale: float = 1.0
    segment: int = 0
    placement: Placement | None = None
    target: Placement | None = None
    ordered: float = math.nan
    stopping: float = math.nan
    task: TaskStatus | None = None
    progress: JobReport | None = None
    losses: int = 0
    work_at_loss: Samples = 0.0
    given_up: bool = False
    faults: set[str] = field(default_factory=set)
    missing: int = 0  # rounds in a row in which the cluster manager did not know the segment
    service: float = 0.0  # GPU-seconds of segments before this one, scaled
    start_time: Seconds = math.nan
    finish_time: Seconds = math.nan
    num_restarts: int = 0
    before_start: tuple[Seconds, int] = (math.nan, 0)  # start_time and num_restarts before the last start
    num_preemptions: int = 0
    num_interruptions: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    seen_start: int = 0  # last segment whose start was measured
    stopped: int = 0  # last segment that was asked to stop; 0 once that was measured

    @property
    def done(self) -> bool:
        """Whether the job has processed its last sample."""
        return self.progress is not None and self.progress.state == DONE

    @property
    def over(self) -> bool:
        """Whether the job has left the system: done or given up."""
        return self.done or self.given_up

    @property
    def wanted(self) -> Placement | None:
        """The placement by the last decision: the target while nodes are released, otherwise what it holds."""
        return self.target or self.placement

    def start(self, segment: int, placement: Placement, wall: float, now: Seconds) -> None:
        """Count a segment whose start was ordered, at a time of the clock on the wall and of scaled time."""
        self.segment, self.placement, self.ordered, self.missing = segment, placement, wall, 0
        self.task, self.before_start = None, (self.start_time, self.num_restarts)
        self.num_restarts += not math.isnan(self.start_time)
        self.start_time = now if math.isnan(self.start_time) else self.start_time

    def not_started(self) -> None:
        """Forget the last start, which was refused; its number is not used again."""
        self.placement = None
        self.start_time, self.num_restarts = self.before_start

    def free(self, wall: float) -> None:
        """Count the service of a segment that has ended or is asked to."""
        if self.placement:
            self.service += self.placement.num_gpus * max(wall - self.ordered, 0.0) * self.scale
        self.placement = self.target = None

    def follow(self, placement: Placement, wall: float) -> None:
        """Count a segment that goes on in the task of the one before, whose other nodes are released."""
        self.free(wall)
        self.segment, self.placement, self.ordered, self.missing = self.segment + 1, placement, wall, 0
        self.num_restarts += 1

    def lose(self, wall: float) -> None:
        """Count a segment that has ended by itself: the job waits again."""
        self.num_interruptions += 1
        self.free(wall)

    def count_loss(self, done: Samples) -> int:
        """Return how many segments in a row were lost before the job had got any further than `done` samples."""
        self.losses = self.losses + 1 if done <= self.work_at_loss else 1
        self.work_at_loss = done
        return self.losses

    def state(self, now: Seconds, began: float, knows_work: bool) -> JobState:
        """Return the job as a scheduler sees it.

        Args:
            now: seconds of scaled time.
            began: when scaled time began, in seconds since 1970.
            knows_work: whether the scheduler may know the remaining work.
        """
        done, ready, throughput, scale = 0.0, now, math.nan, self.scale
        report = self.progress
        if report is not None:
            done = report.work_done
            if self.placement and report.segment == self.segment and not self.target:
                ready = (report.ready - began) * scale
                throughput = report.throughput / scale if report.throughput > 0 else math.nan
                done += report.throughput / scale * max(now - max(ready, (report.updated - began) * scale), 0.0)
        running = self.placement is not None
        gpus = self.placement.num_gpus if self.placement else 0
        held = max(now - (self.ordered - began) * scale, 0.0) if running else 0.0
        return JobState(
            self.spec.id,
            self.wanted,
            self.service + gpus * held,
            max(self.spec.work - done, self.spec.work * 1e-9) if knows_work else math.nan,
            throughput=throughput,
            ready_time=max(ready, now) if running else math.nan,
            segment=ready if running else math.nan,
            start_time=self.start_time,
            num_restarts=self.num_restarts,
            num_preemptions=self.num_preemptions,
            num_interruptions=self.num_interruptions,
            work_done=done,
        )
