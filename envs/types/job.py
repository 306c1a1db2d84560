"""A job as submitted, and the record of its run."""

import math
import operator
from dataclasses import dataclass

from envs.types.constraints import NO_CONSTRAINTS, Constraints, constrain, constraints_of
from envs.types.dependency import parse_dependency
from envs.types.errors import MurmurationError
from envs.types.plan import ExecutionPlan
from envs.types.units import GpuSeconds, JobId, Samples, Seconds

LATEST_SUBMISSION: Seconds = 1e10  # 317 years; float64 tells microseconds apart until then


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One training job as submitted; immutable for the whole episode.

    Raises:
        MurmurationError: numbers of GPUs or batch sizes are not whole or not in order, the submission is negative or
            after `LATEST_SUBMISSION`, the work or the time limit is not positive, priority or nice is not finite, or
            the dependency has a form that the world does not know.
    """

    id: JobId
    submit_time: Seconds
    num_gpus: int  # GPUs requested
    work: Samples  # useful samples to process: samples at the usual batch size (docs/world.md)
    model: str  # a name that the performance model knows; of constrained jobs, their constraints are a part of it
    min_gpus: int = 0  # elastic range, both ends included; 0 means num_gpus (a rigid job)
    max_gpus: int = 0
    min_batch: int = 0  # range of the global batch size; 0 means the range of the model's profile
    max_batch: int = 0
    plan: ExecutionPlan | None = None  # the user's own plan; None leaves the choice to the scheduler
    tenant: str = ""
    guaranteed: bool = False  # has a guaranteed service level; best effort otherwise
    name: str = ""  # its own name, which jobs of one kind share
    user: str = ""  # who submitted it
    constraints: Constraints = NO_CONSTRAINTS  # where it may run; those in the name of its model if none are given
    time_limit: Seconds = math.inf  # the longest time for which it may hold GPUs; it ends there. Infinite: none
    priority: float = 0.0  # as its user or cluster states it; shown, not enforced
    begin_time: Seconds = 0.0  # it may not start before, and no scheduler sees it until then
    dependency: str = ""  # on other jobs of the workload by their ids, in Slurm's words: afterok:3:4,singleton
    qos: str = ""  # quality of service, by name; its tenant is what Slurm calls the account
    nice: float = 0.0  # what its user takes off its priority

    def __post_init__(self) -> None:
        constraints = self.constraints or constraints_of(self.model)
        object.__setattr__(self, "constraints", constraints)
        object.__setattr__(self, "model", constrain(self.model, constraints))
        for name in ("num_gpus", "min_gpus", "max_gpus", "min_batch", "max_batch"):
            try:
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            except TypeError:
                raise MurmurationError(
                    f"job {self.name or self.id}: {name} is {getattr(self, name)!r}; it must be a whole number"
                ) from None
        if not 0 <= self.submit_time <= LATEST_SUBMISSION:
            raise MurmurationError(
                f"job {self.name or self.id}: submit_time is {self.submit_time} s; it must be from 0 to "
                f"{LATEST_SUBMISSION:g} s, after which seconds are too coarse"
            )
        if self.min_gpus == 0:
            object.__setattr__(self, "min_gpus", self.num_gpus)
        if self.max_gpus == 0:
            object.__setattr__(self, "max_gpus", self.num_gpus)
        if not 1 <= self.min_gpus <= self.num_gpus <= self.max_gpus:
            raise MurmurationError(
                f"job {self.name or self.id}: min_gpus, num_gpus and max_gpus are {self.min_gpus}, {self.num_gpus} and "
                f"{self.max_gpus}; they must satisfy 1 <= min_gpus <= num_gpus <= max_gpus"
            )
        if not self.time_limit > 0:
            raise MurmurationError(
                f"job {self.name or self.id}: time_limit is {self.time_limit} s; it must be positive, or inf for none"
            )
        if not 0 <= self.begin_time <= LATEST_SUBMISSION:
            raise MurmurationError(
                f"job {self.name or self.id}: begin_time is {self.begin_time} s; it must be from 0 to "
                f"{LATEST_SUBMISSION:g} s"
            )
        if self.dependency:
            parse_dependency(self.dependency)
        for name in ("priority", "nice"):
            if not math.isfinite(getattr(self, name)):
                value = getattr(self, name)
                raise MurmurationError(f"job {self.name or self.id}: {name} is {value}; it must be finite")
        # NaN is allowed: it means that the work is hidden from the scheduler (see envs.scheduling).
        if self.work <= 0 or math.isinf(self.work):
            raise MurmurationError(
                f"job {self.name or self.id}: work is {self.work} samples; it must be positive and finite"
            )

    @property
    def elastic(self) -> bool:
        """Whether the job can run on different numbers of GPUs."""
        return self.min_gpus < self.max_gpus


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record of one job's run. Times of events that did not happen are NaN."""

    job: JobSpec
    start_time: Seconds  # first time on GPUs
    finish_time: Seconds
    attained_service: GpuSeconds
    num_restarts: int  # starts, resizes and migrations after the first start
    num_preemptions: int  # times that the scheduler sent it back to the queue
    num_interruptions: int = 0  # times that a failure of one of its nodes stopped it
    limit_time: Seconds = math.nan  # when it ended at its time limit; `finish_time` is NaN then
    never_time: Seconds = math.nan  # when it left without having run, as its dependency could no longer be met

    @property
    def finished(self) -> bool:
        """Whether the job finished before the end of the run."""
        return not math.isnan(self.finish_time)
