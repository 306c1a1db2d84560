"""The state of a cluster in one round as plain values: what travels between a bridge and a scheduler."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from envs.types import GpuSeconds, JobId, JobSpec, NodeId, Placement, Samples, Seconds


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of one job in the system. NaN stands for what is not known or has not happened.

    Attributes:
        job: its id: the place in the order of submission, from 0.
        placement: what it holds; None while it waits.
        attained_service: GPU-seconds received so far.
        remaining_work: samples left, as far as a scheduler may know them.
        likely_work: equally likely samples left, where the one who reports the state predicts them; otherwise empty.
        throughput: samples/s at its placement, as measured; NaN takes that of the performance model.
        ready_time: when it begins to process samples after a start; the present if it does already.
        segment: when it last began to process samples after a start or change.
        start_time: first time on GPUs.
        num_restarts: starts and changes after the first start.
        num_preemptions: times that it lost all GPUs by a decision.
        num_interruptions: times that a failed node stopped it.
        work_done: samples processed so far, as the job reports them.
    """

    job: JobId
    placement: Placement | None = None
    attained_service: GpuSeconds = 0.0
    remaining_work: Samples = math.nan
    likely_work: tuple[Samples, ...] = ()
    throughput: float = math.nan
    ready_time: Seconds = math.nan
    segment: Seconds = math.nan
    start_time: Seconds = math.nan
    num_restarts: int = 0
    num_preemptions: int = 0
    num_interruptions: int = 0
    work_done: Samples = math.nan


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster in one round.

    Attributes:
        time: seconds since the bridge began.
        submitted: jobs that were submitted since the last round, in order.
        completed: jobs that have left the system since the last round, with the GPU-seconds that they got.
        down: nodes that cannot run jobs now.
        jobs: all jobs in the system, by ascending id.
        completed_work: samples that completed jobs have processed, where that is known.
        refused: why the last decision was refused, so that nothing of it was done; empty if it was not.
    """

    time: Seconds
    submitted: tuple[JobSpec, ...] = ()
    completed: Mapping[JobId, GpuSeconds] = field(default_factory=dict)
    down: frozenset[NodeId] = frozenset()
    jobs: tuple[JobState, ...] = ()
    completed_work: Mapping[JobId, Samples] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The allocation of one round as changes: what a bridge has to carry out.

    Attributes:
        placements: what each changed job is to hold; None takes all GPUs away. A job that is not named keeps its own.
        next_decision: when the scheduler wants to be asked again; infinite if it does not say.
    """

    placements: Mapping[JobId, Placement | None]
    next_decision: Seconds = math.inf
