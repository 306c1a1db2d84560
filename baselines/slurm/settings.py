"""The settings of Slurm's policy, with Slurm's own defaults (man slurm.conf of Slurm 22.05)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from baselines.slurm.limits import NO_CEILING, Ceiling, LimitTable
from envs.types import NodeId, Seconds
from envs.types.units import DAY

YEAR: Seconds = 365 * DAY  # Slurm plans with it where a job has no time limit
ROOT = "root"  # the account at the top of the tree


@dataclass(frozen=True, slots=True)
class Partition:
    """One `PartitionName` line. Its nodes are those of the cluster's pool of that name, else all."""

    name: str
    tier: int = 1
    job_factor: float = 1.0
    default: bool = False
    max_time: Seconds = math.inf
    default_time: Seconds = 0.0  # 0: that of `max_time`
    max_nodes: float = math.inf
    preempt_mode: str = ""  # that of the cluster if empty
    lln: bool = False

    @property
    def usual_time(self) -> Seconds:
        """The limit of a job that states none."""
        return min(self.default_time or self.max_time, YEAR)


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service, as `sacctmgr show qos` prints it."""

    name: str
    priority: float = 0.0
    preempt: tuple[str, ...] = ()  # those that it may preempt
    preempt_mode: str = ""
    most: Ceiling = NO_CEILING  # of all its jobs at once: GrpTRES, GrpJobs
    most_of_user: Ceiling = NO_CEILING  # MaxTRESPU, MaxJobsPU
    most_of_account: Ceiling = NO_CEILING  # MaxTRESPA, MaxJobsPA


@dataclass(frozen=True, slots=True)
class Association:
    """An account, or a user of one, as `sacctmgr show assoc` prints it."""

    account: str
    user: str = ""
    parent: str = ROOT  # of an account
    shares: float = 1.0
    most: Ceiling = NO_CEILING  # of its jobs, and those of all accounts and users below it, at once: GrpTRES, GrpJobs


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes on which no job runs from `start` until `end`, in seconds of the episode."""

    name: str
    nodes: tuple[NodeId, ...]
    start: Seconds
    end: Seconds

    def overlaps(self, start: Seconds, end: Seconds) -> bool:
        """Return whether a job that may run from `start` until `end` would meet it."""
        return start < self.end and end > self.start


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """Settings of Slurm's scheduler. Times are in seconds, the files' own units differ."""

    multifactor: bool = True  # PriorityType; with priority/basic, jobs run in order of submission
    weight_age: float = 0.0
    weight_fairshare: float = 0.0
    weight_job_size: float = 0.0
    weight_partition: float = 0.0
    weight_qos: float = 0.0
    weight_gpus: float = 0.0  # gres/gpu of PriorityWeightTRES
    max_age: Seconds = 7 * DAY
    half_life: Seconds = 7 * DAY  # 0: usage does not decay
    calc_period: Seconds = 300.0
    usage_reset: Seconds = 0.0  # PriorityUsageResetPeriod; 0: never
    favor_small: bool = False
    flags: frozenset[str] = frozenset()
    dampening: float = 1.0
    backfill: bool = True  # SchedulerType; sched/builtin has none
    bf_window: Seconds = 1440 * 60.0
    bf_resolution: Seconds = 60.0
    bf_interval: Seconds = 30.0
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    bf_max_job_part: int = 0
    bf_job_part_count_reserve: int = 0  # 1 is EASY backfill; 0, a reservation for every job, conservative
    bf_continue: bool = False
    bf_window_linear: Seconds = 0.0  # what each group of ends has more than the one before; 0: twice as much
    ends: str = "exact"  # of running jobs, as plans look at them: exact, or grouped as in Slurm
    default_queue_depth: int = 100
    sched_interval: Seconds = 60.0
    cores: str = "gpus"  # of a job, as the simulator has none: gpus, one with each GPU; nodes, one on each node
    lln: bool = False  # least loaded nodes instead of packing
    preempt_type: str = "none"  # none, qos or partition_prio
    preempt_mode: str = "OFF"
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    qos: Mapping[str, Qos] = field(default_factory=dict)
    associations: tuple[Association, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)  # of nodes, by GPU type
    reservations: tuple[Reservation, ...] = ()
    not_modelled: tuple[str, ...] = ()

    @property
    def fair_tree(self) -> bool:
        """Whether fair share is by Fair Tree; the classic formula otherwise."""
        return "NO_FAIR_TREE" not in self.flags

    @property
    def limits(self) -> LimitTable:
        """A new table of the limits of QoS and associations."""
        return LimitTable(
            {name: (each.most, each.most_of_user, each.most_of_account) for name, each in self.qos.items()},
            {each.account: each.most for each in self.associations if not each.user},
            {(each.account, each.user): each.most for each in self.associations if each.user},
            {each.account: each.parent for each in self.associations if not each.user},
        )

    @property
    def limits_anything(self) -> bool:
        """Whether a QoS or an association has a limit, or nodes are reserved."""
        of_qos = [
            ceiling for each in self.qos.values() for ceiling in (each.most, each.most_of_user, each.most_of_account)
        ]
        return any((*of_qos, *(each.most for each in self.associations), *self.reservations))

    @property
    def preempts(self) -> bool:
        """Whether jobs may be preempted."""
        modes = [self.preempt_mode, *(part.preempt_mode for part in self.partitions.values())]
        return self.preempt_type != "none" and any(mode not in ("", "OFF") for mode in modes)

    def describe(self) -> list[str]:
        """Return the settings in force, as short lines."""
        weights = {
            "age": self.weight_age,
            "fair share": self.weight_fairshare,
            "job size": self.weight_job_size,
            "partition": self.weight_partition,
            "QoS": self.weight_qos,
            "GPUs": self.weight_gpus,
        }
        given = ", ".join(f"{name} {value:g}" for name, value in weights.items() if value) if self.multifactor else ""
        tree = "Fair Tree" if self.fair_tree else "classic fair share"
        lines = [
            f"priority: {given or 'order of submission'}; {tree}, half-life {self.half_life / DAY:g} d, "
            f"maximal age {self.max_age / DAY:g} d, calculated every {self.calc_period / 60:g} min",
            f"backfill: every {self.bf_interval:g} s, at most {self.bf_max_job_test} jobs, window "
            f"{self.bf_window / 60:g} min, resolution {self.bf_resolution:g} s"
            if self.backfill
            else "backfill: none",
            f"a job has a core {'with each GPU' if self.cores == 'gpus' else 'on each node'}; plans look at "
            f"{'each end' if self.ends == 'exact' else 'groups of ends'} of running jobs",
            f"nodes: {'least loaded' if self.lln else 'packed'}; weights {_list(self.weights) or 'equal'}",
            f"preemption: {f'by {self.preempt_type}, {self.preempt_mode}' if self.preempts else 'none'}",
        ]
        lines += [
            f"partition {part.name}: tier {part.tier}, factor {part.job_factor:g}, limit {part.max_time / 3600:g} h"
            for part in self.partitions.values()
        ]
        if self.qos:
            lines.append(f"QoS: {_list({name: qos.priority for name, qos in self.qos.items()})}")
        limited = sum(any((each.most, each.most_of_user, each.most_of_account)) for each in self.qos.values())
        owned = sum(map(bool, (each.most for each in self.associations)))
        if limited or owned:
            lines.append(f"limits on GPUs or jobs at once: of {limited} QoS and {owned} associations")
        if self.associations:
            lines.append(f"shares: {sum(1 for each in self.associations if each.user)} users with associations")
        lines += [
            f"reservation {each.name}: {len(each.nodes)} nodes, from {each.start / 3600:g} to {each.end / 3600:g} h"
            for each in self.reservations
        ]
        if self.not_modelled:
            lines.append(f"not modelled: {', '.join(self.not_modelled)}")
        return lines


def _list(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())
