"""Records of the jobs of the reference engine, and what limited them."""

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from envs.simulation.reference.objects import Job, JobStatus
from envs.simulation.reference.rules import ReferenceRules
from envs.simulation.result import RECORD, LimitedTime
from envs.types import FloatArray, Seconds
from envs.workloads import Workload


def records_of(
    submitted: Sequence[Job], workload: Workload, rules: ReferenceRules, time: Seconds
) -> tuple[npt.NDArray[np.void], FloatArray]:
    """Return the records of jobs (dtype `RECORD`), and `RunResult.limit_times`.

    Args:
        submitted: the jobs, by id.
        workload: theirs.
        rules: those of the world.
        time: the present time.
    """
    records, limit_times = np.zeros(len(submitted), RECORD), np.full(len(submitted), math.nan)
    for record, job in zip(records, submitted, strict=True):
        record["job"], record["submit_time"] = job.id, job.spec.submit_time
        record["start_time"] = job.start
        left = (math.nan, job.finish) if job.deadline < math.inf else (job.finish, math.nan)
        record["finish_time"], limit_times[job.id] = left if job.status is JobStatus.DONE else (math.nan, math.nan)
        record["attained_service"] = job.service_at(time)
        record["num_restarts"] = job.num_restarts
        record["num_preemptions"] = job.num_preemptions
        record["num_interruptions"] = job.num_interruptions
        record["num_gpus"] = job.spec.num_gpus
        throughput = rules.ideal_throughput(job)
        record["ideal_duration"] = job.spec.work / throughput if throughput > 0 else math.inf
        record["measured"] = workload.measured[job.id]
    return records, limit_times


class CountingEngine(Protocol):
    """The parts of a reference engine that `limits_of_running` needs."""

    rules: ReferenceRules
    workload: Workload
    time: Seconds
    in_round: bool
    active: list[Job]
    seconds: dict[str, float]
    window_rounds: int
    queue_rounds: int

    def running(self) -> list[Job]:
        """Jobs that hold GPUs, ascending."""
        ...


def limits_of_running(engine: CountingEngine) -> LimitedTime:
    """What limited the running jobs so far."""
    start, end = engine.workload.window
    present = engine.in_round and start <= engine.time < end
    waiting = len(engine.active) > len(engine.running())
    shares_more = engine.rules.shared or engine.rules.contention != "off"
    return LimitedTime(
        running=engine.seconds["running"] if shares_more else math.nan,
        cpus=engine.seconds["cpus"],
        memory=engine.seconds["memory"],
        network=engine.seconds["network"],
        num_rounds=engine.window_rounds + present,
        num_queue_rounds=engine.queue_rounds + (present and waiting),
    )
