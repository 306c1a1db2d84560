"""A job as submitted, and what happened to it."""

import math
from dataclasses import dataclass

from envs.types.plan import ExecutionPlan
from envs.types.units import GpuSeconds, JobId, Samples, Seconds


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One training job as submitted; immutable for the whole episode."""

    id: JobId
    submit_time: Seconds
    num_gpus: int  # GPUs requested
    work: Samples  # samples to process; any batch size in the job's range reaches the same accuracy
    model: str  # a name that the performance model knows
    min_gpus: int = 0  # elastic range, both ends included; 0 stands for num_gpus (a rigid gang)
    max_gpus: int = 0
    min_batch: int = 0  # global batch size range; 0 leaves it to the model's profile
    max_batch: int = 0
    plan: ExecutionPlan | None = None  # the user's own plan; None leaves it open
    tenant: str = ""
    guaranteed: bool = False  # has a service level, as against best effort
    name: str = ""  # the trace's own name for the job

    def __post_init__(self) -> None:
        if self.min_gpus == 0:
            object.__setattr__(self, "min_gpus", self.num_gpus)
        if self.max_gpus == 0:
            object.__setattr__(self, "max_gpus", self.num_gpus)
        if not 1 <= self.min_gpus <= self.num_gpus <= self.max_gpus:
            raise ValueError(
                f"job {self.name or self.id}: need 1 <= min_gpus <= num_gpus <= max_gpus, "
                f"have {self.min_gpus}, {self.num_gpus}, {self.max_gpus}"
            )
        # NaN stands for "hidden from the scheduler" (see envs.scheduling) and is let through.
        if self.work <= 0 or math.isinf(self.work):
            raise ValueError(f"job {self.name or self.id}: work is {self.work} samples; it must be positive and finite")

    @property
    def elastic(self) -> bool:
        """Whether the job runs on more than one number of GPUs."""
        return self.min_gpus < self.max_gpus


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What happened to one job. Times that never came are NaN."""

    job: JobSpec
    start_time: Seconds  # first time on GPUs
    finish_time: Seconds
    attained_service: GpuSeconds
    num_restarts: int  # starts, resizes and migrations after the first start
    num_preemptions: int  # times it was sent back to the queue
    num_interruptions: int = 0  # times that a node failed under it

    @property
    def finished(self) -> bool:
        """False for a job that the horizon cut off."""
        return not math.isnan(self.finish_time)
