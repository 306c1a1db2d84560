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


@dataclass
class JobRun:
    """One job of a bridge.

    Attributes:
        spec: the job.
        folder: in which its processes report.
        segment: number of its last start; 0 before the first.
        placement: of the segment that runs or is to run; None while the job waits.
        ordered: when that start was ordered, in seconds since 1970.
        target: what remains of the placement once the segment has stopped and nodes are released; None otherwise.
        stopping: when the last stop was ordered; NaN if it is not stopping.
        task: the segment as the cluster manager saw it last.
        progress: as the job reported it last.
        losses: how often in a row a segment ended by itself before the job had got any further than at the last time.
        given_up: whether it is not started any more for that reason.
    """

    spec: JobSpec
    folder: Path
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
    missing: int = 0  # rounds in a row in which the cluster manager did not know the segment
    service: float = 0.0  # GPU-seconds of segments before this one, scaled
    start_time: Seconds = math.nan
    finish_time: Seconds = math.nan
    num_restarts: int = 0
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

    def state(self, now: Seconds, scale: float, began: float, knows_work: bool) -> JobState:
        """Return the job as a scheduler sees it.

        Args:
            now: seconds of scaled time.
            scale: scaled seconds in a second of real time.
            began: when scaled time began, in seconds since 1970.
            knows_work: whether the scheduler may know the remaining work.
        """
        done, ready, throughput = 0.0, now, math.nan
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
