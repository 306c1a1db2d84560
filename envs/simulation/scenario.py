"""The rules of one experiment, equal for all schedulers in a comparison."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from envs.performance import (
    EFFICIENCY_SETTINGS,
    BatchSizes,
    Contention,
    EfficiencySetting,
    PerformanceModel,
    ReconfigurationCost,
)
from envs.types import FloatArray, MurmurationError, Seconds, without_constraints

LEAST_INTERVAL: Seconds = 1e-3  # of rounds and of failures: shorter ones make runs that do not end in practice
LONGEST_OUTAGE: Seconds = 1e15
MOST_STALLS = 1_000_000
MOST_FUTILE_ROUNDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Rounds:
    """Times of scheduling rounds: at arrivals and completions, at fixed intervals, or both."""

    on_events: bool = True
    interval: Seconds | None = None  # a round at every multiple of it while jobs are in the system
    stall_interval: Seconds = 60.0  # time to the next round while jobs wait, none runs and none will arrive
    max_stalls: int = 100  # such rounds in a row, after which the waiting jobs count as unfinished
    max_futile_rounds: int = 1000  # rounds between two checks for net progress, and restarts without any, until the end

    def __post_init__(self) -> None:
        if not self.on_events and self.interval is None:
            raise MurmurationError(
                "rounds: on_events is false and interval is unset, so no round would ever take place; set one"
            )
        if self.interval is not None and not (self.interval > 0 and math.isfinite(self.interval)):
            raise MurmurationError(f"rounds.interval is {self.interval} s; it must be positive and finite, or null")
        if not self.stall_interval > 0:
            raise MurmurationError(f"rounds.stall_interval is {self.stall_interval} s; it must be positive")
        if not 0 <= self.max_stalls <= MOST_STALLS:
            raise MurmurationError(f"rounds.max_stalls is {self.max_stalls}; it must be from 0 to {MOST_STALLS:,}")
        if self.interval is not None and self.interval < LEAST_INTERVAL:
            raise MurmurationError(
                f"rounds.interval is {self.interval} s; it must be at least {LEAST_INTERVAL} s, or null"
            )
        if not 1 <= self.max_futile_rounds <= MOST_FUTILE_ROUNDS:
            raise MurmurationError(
                f"rounds.max_futile_rounds is {self.max_futile_rounds}; it must be at least 1 and at most "
                f"{MOST_FUTILE_ROUNDS:,}"
            )


@dataclass(frozen=True, slots=True)
class Information:
    """Knowledge that schedulers have of jobs: of their remaining work, and of their throughput.

    Work is exact, an estimate with an error, nothing, a distribution that the setup's predictor finds from jobs that
    have ended and from what jobs say of themselves ("predicted"), or what users' time limits leave ("limit"). Commands
    choose between these two by the trace for "limit_or_predicted"; episodes are not played with it.

    Where throughput is not exact, a view shows the beliefs of the setup's estimator (`docs/world.md`, "What does a
    scheduler know?"). It learns from statements of users, from profiles, and from jobs that run:

    - "profiled": each model was measured on `profiles` placements before the first job came, with an error of
      `sample_error`; what follows holds too.
    - "observed": a user states the throughput on the requested GPUs of the fastest type, with an error of
      `stated_error`. A job that has run in a placement on GPUs of one type has shown its throughput there, once for
      each placement, with an error of `sample_error`. Beside another job on the same GPUs it has shown in the same
      way what it keeps of that, once for each job beside it and GPU type.
    """

    work: Literal["exact", "estimate", "limit", "predicted", "limit_or_predicted", "none"] = "exact"
    error: float = 0.3  # of estimates of work: standard deviation of the logarithm, drawn once for each job
    throughput: Literal["exact", "profiled", "observed"] = "exact"
    stated_error: float = 0.2  # standard deviations of logarithms
    sample_error: float = 0.05
    profiles: int = 3

    def __post_init__(self) -> None:
        if self.work not in (known := ("exact", "estimate", "limit", "predicted", "limit_or_predicted", "none")):
            raise MurmurationError(f"information.work is {self.work!r}; it must be one of {', '.join(known)}")
        if self.throughput not in ("exact", "profiled", "observed"):
            raise MurmurationError(
                f"information.throughput is {self.throughput!r}; it must be exact, profiled or observed"
            )
        if self.work == "limit" and self.hides_throughput:
            raise MurmurationError(
                f"information.work is limit and information.throughput {self.throughput}: limits are seconds, which "
                "only known throughputs turn into work; set information.throughput=exact"
            )
        for name in ("error", "stated_error", "sample_error"):
            if not getattr(self, name) >= 0:
                raise MurmurationError(f"information.{name} is {getattr(self, name)}; it must not be negative")
        if self.profiles < 1:
            raise MurmurationError(f"information.profiles is {self.profiles}; it must be at least 1")

    @property
    def hides_throughput(self) -> bool:
        """Whether throughput is not exact."""
        return self.throughput != "exact"


OUTAGES = 32  # draws for one node, before they repeat


@dataclass(frozen=True, slots=True)
class Failures:
    """Node failures. Jobs on a failed node return to the queue and to their last checkpoint."""

    mtbf: Seconds  # mean of the exponential time that a node stays up
    repair_time: Seconds = 3600.0  # mean of the exponential time that a node stays down
    checkpoint_interval: Seconds = 1800.0  # running time between checkpoints; 0: continuous, infinite: none

    def __post_init__(self) -> None:
        for name in ("mtbf", "repair_time"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise MurmurationError(f"failures.{name} is {value} s; it must be positive and finite")
            if not LEAST_INTERVAL <= value <= LONGEST_OUTAGE:
                raise MurmurationError(
                    f"failures.{name} is {value} s; it must be from {LEAST_INTERVAL} to {LONGEST_OUTAGE:g} s"
                )
        if not self.checkpoint_interval >= 0:
            raise MurmurationError(
                f"failures.checkpoint_interval is {self.checkpoint_interval} s; it must not be negative"
            )

    def draw(self, num_nodes: int, rng: np.random.Generator) -> FloatArray:
        """float64[num_nodes, OUTAGES, 2]: seconds up and seconds down of every node, alternating."""
        means = np.array([self.mtbf, self.repair_time], np.float64)
        draws: FloatArray = rng.exponential(1.0, (num_nodes, OUTAGES, 2)) * means
        return draws


@dataclass(frozen=True, slots=True)
class Scenario:
    """Rules of a run beside workload, cluster and scheduler; `docs/world.md` defines them in full."""

    start_delay: Seconds = 0.0  # from the first grant of GPUs to the first sample
    restart_delay: Seconds = 30.0  # the same after a resize, migration or preemption: checkpoint and restore
    reconfiguration: ReconfigurationCost | None = None  # both delays by model, replaces the two above
    cpu_memory: Literal["unlimited", "shared"] = "unlimited"  # whether jobs divide those of a node
    contention: Contention = field(default_factory=lambda: Contention("off"))  # slowdown by co-located jobs
    failures: Failures | None = None  # None: nodes never fail
    quotas: Mapping[str, int] = field(default_factory=dict)  # GPUs guaranteed to each tenant; shown, not enforced
    # Most GPUs that jobs may hold at once, by queue and GPU type ("all" for every type); enforced. A job is in the
    # queue whose last part is its tenant, and counts in those above: research counts what research/vision holds.
    queue_limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    worker_shares: Literal["proportional", "equal"] = "proportional"  # how unequal GPUs divide a mini-batch
    statistical_efficiency: EfficiencySetting = "measured"  # progress per sample at the batch sizes that jobs choose
    batch_sizes: Literal["chosen", "usual"] = "chosen"  # whether schedulers may choose them where they are offered
    sharing: Literal["off", "pairs"] = "off"  # whether two jobs may hold the same GPUs
    preemption: Literal["allowed", "never"] = "allowed"  # never: a job keeps its GPUs, plan and batch size to its end
    horizon: Seconds = math.inf  # simulation ends here; jobs still in the system are unfinished
    rounds: Rounds = field(default_factory=Rounds)
    information: Information = field(default_factory=Information)

    def __post_init__(self) -> None:
        for name in ("start_delay", "restart_delay"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise MurmurationError(f"scenario.{name} is {value} s; it must be finite and not negative")
        if self.worker_shares not in ("proportional", "equal"):
            raise MurmurationError(
                f"scenario.worker_shares is {self.worker_shares!r}; it must be proportional or equal"
            )
        if self.batch_sizes not in ("chosen", "usual"):
            raise MurmurationError(f"scenario.batch_sizes is {self.batch_sizes!r}; it must be chosen or usual")
        if self.sharing not in ("off", "pairs"):
            raise MurmurationError(f"scenario.sharing is {self.sharing!r}; it must be off or pairs")
        if self.preemption not in ("allowed", "never"):
            raise MurmurationError(f"scenario.preemption is {self.preemption!r}; it must be allowed or never")
        if self.statistical_efficiency not in EFFICIENCY_SETTINGS:
            raise MurmurationError(
                f"scenario.statistical_efficiency is {self.statistical_efficiency!r}; "
                f"it must be one of {', '.join(EFFICIENCY_SETTINGS)}"
            )
        if not self.horizon > 0:
            raise MurmurationError(f"scenario.horizon is {self.horizon} s; it must be positive")
        if self.cpu_memory not in ("unlimited", "shared"):
            raise MurmurationError(f"scenario.cpu_memory is {self.cpu_memory!r}; it must be unlimited or shared")
        if not isinstance(self.quotas, Mapping):
            raise MurmurationError(f"scenario.quotas is {self.quotas!r}; it must give a number of GPUs by tenant")
        for name, wanted in (("rounds", Rounds), ("information", Information), ("contention", Contention)):
            if not isinstance(getattr(self, name), wanted):
                raise MurmurationError(f"scenario.{name} is {getattr(self, name)!r}; it must be {wanted.__name__}(...)")
        if self.information.hides_throughput and self.batch_sizes != "usual":
            raise MurmurationError(
                f"information.throughput is {self.information.throughput}, but scenario.batch_sizes is "
                f"{self.batch_sizes}: beliefs are about usual batch sizes; set scenario.batch_sizes=usual"
            )
        if self.reconfiguration is not None and not callable(getattr(self.reconfiguration, "seconds", None)):
            raise MurmurationError(
                f"scenario.reconfiguration is {self.reconfiguration!r}; it must have the method seconds, or be null"
            )
        if self.failures is not None and not isinstance(self.failures, Failures):
            raise MurmurationError(f"scenario.failures is {self.failures!r}; it must be Failures(...), or null")
        for tenant, quota in self.quotas.items():
            if quota < 0:
                raise MurmurationError(f"scenario.quotas: tenant {tenant} has {quota} GPUs; it must be 0 or more")
        _check_queue_limits(self.queue_limits)

    def offered_batches(self, performance: PerformanceModel) -> BatchSizes:
        """Return the batch sizes that jobs may choose under a performance model."""
        return BatchSizes(performance, self.statistical_efficiency, fixed=self.batch_sizes == "usual")

    def delays(self, models: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """Seconds to the first sample after a first start, and after later ones: float64[num_models] each."""
        if self.reconfiguration is None:
            return np.full(len(models), self.start_delay), np.full(len(models), self.restart_delay)
        cost = self.reconfiguration
        first = np.array([cost.seconds(without_constraints(model), first=True) for model in models])
        return first, np.array([cost.seconds(without_constraints(model)) for model in models])


def _check_queue_limits(limits: Mapping[str, Mapping[str, int]]) -> None:
    """Check names and numbers; the cluster's types are checked where there is one."""
    own: dict[str, str] = {}
    for queue, row in limits.items():
        name = queue.rpartition("/")[2]
        if not all(queue.split("/")) or not row:
            raise MurmurationError(
                f"scenario.queue_limits: {queue!r} needs names, such as research/vision, and GPUs by type"
            )
        if name in own:
            raise MurmurationError(
                f"scenario.queue_limits: {own[name]} and {queue} are both the queue of tenant {name}; rename one"
            )
        own[name] = queue
        for gpu_type, most in row.items():
            if not (isinstance(most, int) and most > 0):
                raise MurmurationError(
                    f"scenario.queue_limits.{queue}.{gpu_type} is {most!r}; it must be a whole number above 0, or no "
                    "job can ever pass"
                )
